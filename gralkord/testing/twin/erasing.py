"""Erasing of the twin: what a scope covers goes at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gralkord.errors import NotFound
from gralkord.models.erasure import EraseRequest, Erasure, ErasureList

if TYPE_CHECKING:
    from gralkord.graph.rows import FactRow, PassageRow
    from gralkord.models.erasure import EraseScope
    from gralkord.testing.twin.shelf import Shelf
    from gralkord.testing.twin.shelves import Shelves


@dataclass(frozen=True, slots=True)
class Erasing:
    """Erases for one tenant."""

    shelves: Shelves
    tenant: str

    def erase(self, request: EraseRequest) -> Erasure:
        """Erase for good, or count what would go.

        A lens need not be configured any more.
        """
        scope, now = request.scope(), self.shelves.now_iso()
        taken = Counter[str]()
        found: set[str] = set()
        for shelf in self._shelves(scope):
            found |= self._take(shelf, scope, taken, dry=request.dry_run)
        sessions = self._sessions(scope)
        if not request.dry_run:
            self._forget(scope, sessions)
        erasure = Erasure(
            id=self.shelves.new_id(),
            scope=scope,
            dry_run=request.dry_run,
            state="done",
            started_at=now,
            finished_at=self.shelves.now_iso(),
            counts={"graph": dict(taken), "queue": {"sessions": len(sessions)}},
            missing=[uuid for uuid in scope.ids if uuid not in found],
        )
        if not request.dry_run:
            self.shelves.tenant(self.tenant).erasures[erasure.id] = erasure
        return erasure

    def read(self, erasure: str) -> Erasure:
        """Return an erasure.

        Raises:
            NotFound: There is none of that id.
        """
        erasures = self.shelves.tenant(self.tenant).erasures
        if erasure not in erasures:
            raise NotFound(f"no erasure has the id {erasure[:64]!r}", field="id")
        return erasures[erasure]

    def all(self) -> ErasureList:
        """Return all erasures, newest first."""
        erasures = self.shelves.tenant(self.tenant).erasures.values()
        return ErasureList(erasures=list(erasures)[::-1])

    def _shelves(self, scope: EraseScope) -> list[Shelf]:
        """Return the groups that may hold something of the scope.

        Nothing that the twin keeps in the shared group is known to be of one operator.
        """
        every = self.shelves.of_tenant(self.tenant)
        if scope.kind == "tenant":
            return every
        own = [shelf for shelf in every if shelf.owner.operator == scope.operator]
        return [shelf for shelf in own if scope.lens in {None, shelf.owner.lens}]

    def _take(self, shelf: Shelf, scope: EraseScope, taken: Counter[str], *, dry: bool) -> set[str]:
        """Take out of a group what is of the scope; return the ids."""
        passages = [row for row in shelf.passages.rows() if _covers(scope, row)]
        facts = [row for row in shelf.facts.rows() if _covers_fact(scope, row)]
        kept = [row for row in shelf.facts.rows() if row not in facts]
        named = {end for row in kept for end in (row.source_uuid, row.target_uuid)}
        lost = {end for row in facts for end in (row.source_uuid, row.target_uuid)} - named
        if passages or facts:
            taken["groups"] += 1
        notes = {row.uuid for row in facts if row.note_kind}
        taken.update(
            passages=len(passages),
            facts=len(facts) - len(notes),
            notes=len(notes),
            entities=len(lost - notes),
        )
        ids = {row.uuid for row in passages} | {row.uuid for row in facts}
        if not dry:
            shelf.passages.drop(ids)
            shelf.facts.drop(ids)
            shelf.entities.drop(lost)
            if ids:
                shelf.communities.clear()
            if scope.kind in {"tenant", "operator", "lens"}:
                self.shelves.drop(shelf)
        return ids

    def _sessions(self, scope: EraseScope) -> list[str]:
        sessions = self.shelves.tenant(self.tenant).sessions
        return [
            name for name, each in sessions.items() if scope.covers(each.operator, session=name)
        ]

    def _forget(self, scope: EraseScope, sessions: list[str]) -> None:
        """Forget sessions, receipts and requests that go with the scope."""
        tenant = self.shelves.tenant(self.tenant)
        for name in sessions:
            del tenant.sessions[name]
        for job in list(tenant.jobs.values()):
            gone = scope.covers(job.operator, session=job.session, turn=job.turn_id)
            if gone or job.session in sessions:
                del tenant.jobs[job.id]
        if scope.kind in {"operator", "tenant"}:
            for mark in list(tenant.seen):
                if scope.covers(mark[0]):
                    del tenant.seen[mark]
        if scope.kind not in {"session", "turn"}:
            # Answers may hold any word, and are not asked for again.
            tenant.results.clear()


def _covers(scope: EraseScope, row: PassageRow) -> bool:
    if scope.kind == "ids":
        return row.uuid in scope.ids
    if scope.kind == "lens":
        return True
    return scope.covers(scope.operator, session=row.session, turn=row.turn_id, source=row.source)


def _covers_fact(scope: EraseScope, row: FactRow) -> bool:
    if scope.kind == "ids":
        return row.uuid in scope.ids
    if scope.kind in {"tenant", "operator", "lens"}:
        return True
    return scope.kind == "source" and row.source == scope.source
