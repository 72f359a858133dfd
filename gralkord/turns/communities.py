"""What the understand lane does with the communities that a daemon has found: it writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gralkord.graph.communities import CommunityStore
from gralkord.mailbox.items import Item, Lease
from gralkord.turns.work import Executor

KIND: Final = "communities"


def write_communities(store: CommunityStore) -> Executor:
    """Return the executor of requests of the kind ``communities``.

    A request has a ``build``, the ``generation`` of the group when that began, and ``rows`` to be
    written; or none, and then those written before take the place of older ones, or are swept away
    if the build was stopped. The answer says under ``done`` whether the build is still under way.
    """

    async def execute(lease: Lease, item: Item) -> Mapping[str, Any]:
        place = lease.group, lease.epoch, item.body["build"], item.body["generation"]
        if rows := item.body.get("rows"):
            return {"done": await store.write(*place, rows)}
        return {"done": await store.finish(*place)}

    return execute
