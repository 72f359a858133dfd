"""Communities of the twin: found by the facts that it was told, and summed up by nobody."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gralkord.client.calls import Call, reader
from gralkord.errors import NoModel, NotFound
from gralkord.graph.clustering import clusters
from gralkord.models.admin import (
    MAX_NAMES,
    CommunitiesQuery,
    CommunitiesRequest,
    CommunityBuild,
    CommunityPage,
    StopCommunities,
    Stopped,
    StoredCommunity,
)
from gralkord.testing.twin.recalling import shown
from gralkord.wire import read_model

if TYPE_CHECKING:
    from gralkord.graph.rows import FactRow
    from gralkord.testing.twin.shelf import Shelf
    from gralkord.testing.twin.shelves import Shelves

_NAMESPACE: Final = uuid.UUID("b0a5d0c8-1d43-5c0a-9a58-3f6a1a7b6f4e")
# How many members give a community its name.
NAMING: Final = 3


def twin_build(operator: str, **wanted: Any) -> Call[CommunityBuild]:
    """Return the call that has the twin build communities.

    Raises:
        InvalidInput: It is not acceptable.
    """
    request = read_model(CommunitiesRequest, {"operator": operator, **wanted})
    body = request.model_dump_json().encode()
    return Call("POST", "/v1/admin/communities", reader(CommunityBuild), body)


@dataclass(frozen=True, slots=True)
class TwinAdmin:
    """The communities of one tenant."""

    shelves: Shelves
    tenant: str

    def build(self, request: CommunitiesRequest) -> CommunityBuild:
        """Find the communities of a group, and keep them unless they are only to be counted.

        Raises:
            UnknownLens: No lens has that name.
            NotFound: The operator has no memories there.
            NoModel: They are to be summed up.
        """
        if request.summaries:
            raise NoModel("no language model is configured", hint="leave `summaries` out")
        shelf = self._shelf(request.operator, request.lens)
        if not (shelf.passages.rows() or shelf.facts.rows()):
            raise NotFound("this operator has no memories there", field="operator")
        entities = [row for row in shelf.entities.rows() if not row.note_kind]
        facts = self._facts(shelf)
        found = clusters((row.source_uuid, row.target_uuid) for row in facts)
        kept = found[: request.max_communities]
        if not request.dry_run:
            shelf.communities = [self._community(shelf, members) for members in kept]
        return CommunityBuild(
            operator=request.operator,
            lens=request.lens,
            done=True,
            dry_run=request.dry_run,
            entities=len(entities),
            facts=len(facts),
            found=len(found),
            communities=len(kept),
            members=sum(map(len, kept)),
            written=0 if request.dry_run else len(kept),
        )

    def stop(self, request: StopCommunities) -> Stopped:
        """Stop nothing: a build of the twin is done at once.

        Raises:
            UnknownLens: No lens has that name.
        """
        self._shelf(request.operator, request.lens)
        return Stopped(stopped=False)

    def page(self, query: CommunitiesQuery) -> CommunityPage:
        """Return the communities of a group, the largest first.

        Raises:
            UnknownLens: No lens has that name.
        """
        shelf = self._shelf(query.operator, query.lens)
        return CommunityPage(communities=shelf.communities[: query.limit])

    def _shelf(self, operator: str, lens: str) -> Shelf:
        return self.shelves.shelf(self.shelves.lenses.memory(self.tenant, operator, lens))

    def _facts(self, shelf: Shelf) -> list[FactRow]:
        view = self.shelves.view()
        return [row for row in shelf.facts.rows() if not row.note_kind and shown(shelf, row, view)]

    def _community(self, shelf: Shelf, members: list[str]) -> StoredCommunity:
        names = sorted(row.name for row in shelf.entities.by_uuid(members))
        return StoredCommunity(
            id=str(uuid.uuid5(_NAMESPACE, f"{shelf.group}\x00{members[0]}")),
            name=", ".join(names[:NAMING]),
            summary="",
            created_at=self.shelves.now_iso(),
            members=len(members),
            entities=names[:MAX_NAMES],
        )
