"""What the understand lane does with a request to add triples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gralkord.graph.triples import TripleWriter
from gralkord.mailbox.items import Item, Lease
from gralkord.models.triples import Triple
from gralkord.turns.work import Executor
from gralkord.wire import read_model


def add_triples(writer: TripleWriter) -> Executor:
    """Return the executor of requests of the kind ``triples``."""

    async def execute(lease: Lease, item: Item) -> Mapping[str, Any]:
        triples = [
            read_model(Triple, raw, within=f"triples.{at}")
            for at, raw in enumerate(item.body["triples"])
        ]
        return await writer.add(lease.group, lease.epoch, triples)

    return execute
