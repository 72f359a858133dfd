"""One erasure: the order of its steps through the queue, the graphs and the servers' files.

Nothing of the scope is routed while it runs. Of each group that is touched the lanes are taken from
whoever holds them, and their fences raised, so that who is in the middle of writing is refused and
gets its work anew from a mailbox out of which the scope was taken.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from gralkord.clock import Clock
from gralkord.errors import LeaseLost
from gralkord.graph.doomed import DoomedPassage
from gralkord.graph.erasure import GroupEraser, Named
from gralkord.groups import Group, escape, parse_group
from gralkord.intake.marks import lens_group
from gralkord.intake.plan import EPISODE_TURNS
from gralkord.lenses.registry import GLOBAL
from gralkord.mailbox.items import Item, Lease
from gralkord.mailbox.keys import Lane
from gralkord.mailbox.purge import Purge, Session
from gralkord.memories.covered import Covered
from gralkord.memories.said import Said, said_in
from gralkord.models.erasure import EraseScope
from gralkord.turns.lease import keep

if TYPE_CHECKING:
    from gralkord.graph.cache import CachePool
    from gralkord.graph.connection import GraphConnection
    from gralkord.lenses.registry import LensRegistry
    from gralkord.mailbox.dead import DeadLetters
    from gralkord.mailbox.erasures import Erasures
    from gralkord.mailbox.mailbox import Mailbox

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EraserParts:
    """What an erasure works with."""

    purge: Purge
    erasures: Erasures
    mailbox: Mailbox
    dead: DeadLetters
    graph: GraphConnection
    lenses: LensRegistry
    caches: CachePool | None
    clock: Clock
    understanding: bool

    @property
    def groups(self) -> GroupEraser:
        """The steps in the graph."""
        return GroupEraser(self.graph)


@dataclass(slots=True)
class Erasing:
    """One run of an erasure over a scope; with ``dry`` it changes nothing and counts the same."""

    parts: EraserParts
    tenant: str
    scope: EraseScope
    dry: bool
    graph_counts: Counter[str] = field(default_factory=Counter)
    queue_counts: Counter[str] = field(default_factory=Counter)
    touched: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    _turns: dict[str, set[str]] = field(default_factory=dict)
    _letters: set[str] = field(default_factory=set)
    _found: set[str] = field(default_factory=set)
    _sessions: set[str] = field(default_factory=set)

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """What has gone, or would go, by store."""
        return {"graph": dict(self.graph_counts), "queue": dict(self.queue_counts)}

    async def take(self, upto: str) -> None:
        """Take the scope out of queue and graph.

        Args:
            upto: The last entry of the intake stream to look at.

        Raises:
            LeaseLost: Another process has taken a group over; done again it goes on.
            BackendUnavailable: A server does not answer; done again it goes on.
        """
        await self.take_entries(upto)
        homes, derived = await self._groups()
        if self.scope.kind == "tenant":
            await self._take_letters(Covered(self.scope, whole=frozenset(homes)))
            await self._take_sessions()
            for group in homes:
                async with self._held("index", group) as index:
                    await self._take_whole(group, index)
        else:
            await self._take_part(homes, derived)
        await self._forget(homes, derived)
        await self._take_receipts()

    async def take_entries(self, upto: str) -> None:
        """Take entries out of the intake stream, up to an id."""
        covered = Covered(self.scope, keeps_words=self._only_shared, lenses=self.parts.lenses)
        taken = await self.parts.purge.entries(self.tenant, upto, covered.entry, dry=self.dry)
        self.queue_counts["entries"] += taken

    async def _groups(self) -> tuple[list[str], list[str]]:
        """Return the groups that keep the scope's passages, and those of what was made of them.

        The latter are the shared one and, where a lens goes, those of the operator's other lenses.
        """
        names = set(await self.parts.graph.groups()) | await self.parts.purge.groups()
        own = [group for group in map(parse_group, sorted(names)) if group.tenant == self.tenant]
        if self.scope.kind == "tenant":
            return [group.id for group in own], []
        homes = [group for group in own if group.operator == self.scope.operator]
        derived = [group for group in own if group.operator is None]
        if self.scope.kind == "lens":
            target = lens_group(self.parts.lenses, self.tenant, self.scope)
            if target.operator is not None:
                derived += [group for group in homes if group != target]
                homes = [group for group in homes if group == target]
        return [group.id for group in homes], [group.id for group in derived]

    @property
    def _whole(self) -> bool:
        """Whether all that the groups keep goes."""
        kind = self.scope.kind
        return kind == "operator" or (kind == "lens" and not self._only_shared)

    @property
    def _only_shared(self) -> bool:
        """Whether only what is in the shared group goes: the words stay where they are."""
        if self.scope.kind != "lens":
            return False
        return lens_group(self.parts.lenses, self.tenant, self.scope).operator is None

    async def _take_part(self, homes: list[str], derived: list[str]) -> None:
        """Take an operator's memory, or a part of it."""
        covered = Covered(
            self.scope,
            whole=frozenset(homes if self._whole else ()),
            shared=Group(self.tenant).id if self._only_shared else None,
            keeps_words=self._only_shared,
            lenses=self.parts.lenses,
        )
        if not self.dry:  # before the mailboxes, for a letter may be retried at any moment
            await self._take_letters(covered)
        async with contextlib.AsyncExitStack() as held:
            epochs: dict[str, Lease | None] = {}
            for home in homes:
                async with contextlib.AsyncExitStack() as indexing:
                    # Of what stays, new turns are to be recallable meanwhile.
                    stack = held if self._whole else indexing
                    epochs[home] = await stack.enter_async_context(self._held("index", home))
                    await self._take_turns(home, epochs[home], covered)
            covered = covered.with_turns({turn for some in self._turns.values() for turn in some})
            await self._take_letters(covered)
            await self._take_sessions(covered.turns)
            leases = {}
            for group in [*homes, *derived]:
                lease = await held.enter_async_context(self._held("understand", group))
                leases[group] = lease
                await self._take_items("understand", group, covered, lease)
                if lease is not None:
                    await self.parts.groups.fence(group, 0, lease.epoch)
            part = None if self._whole or self._only_shared else self.scope
            said = await said_in(self.parts.groups, homes, self._turns, part)
            for group in derived:
                await self._take_derived(group, said, leases[group])
            for home in homes if not self._only_shared else ():
                if self._whole:
                    await self._clear(home, epochs[home], leases[home])
                else:
                    await self._take_derived(home, said, leases[home], self.scope)
        if self.scope.kind == "ids":
            self.missing = [uuid for uuid in self.scope.ids if uuid not in self._found]

    async def _take_turns(self, home: str, index: Lease | None, covered: Covered) -> None:
        """Empty a home's index mailbox, and learn which turns of the scope it keeps."""
        turns = self._turns.setdefault(home, set())
        if index is not None:  # from here on no passage of the scope is written any more
            await self.parts.groups.fence(home, index.epoch, 0)
        if self.scope.kind == "ids":
            turns |= {one.turn_id async for one in self.parts.groups.passages(home, self.scope)}
        if not self._only_shared:
            turns |= await self._take_items("index", home, covered.with_turns(turns), index)
        if self.scope.kind != "ids":
            turns |= {one.turn_id async for one in self.parts.groups.passages(home, self.scope)}

    async def _take_items(
        self, lane: Lane, group: str, covered: Covered, lease: Lease | None
    ) -> set[str]:
        taken = await self.parts.purge.items(
            lane, group, lambda item: covered.item(lane, group, item), lease
        )
        self.queue_counts["items"] += taken.items
        return taken.turns

    async def _take_whole(self, group: str, index: Lease | None) -> None:
        covered = Covered(self.scope, whole=frozenset({group}))
        await self._take_items("index", group, covered, index)
        async with self._held("understand", group) as understand:
            await self._take_items("understand", group, covered, understand)
            await self._clear(group, index, understand)

    async def _clear(self, group: str, index: Lease | None, understand: Lease | None) -> None:
        counts = await self.parts.groups.counts(group)
        if index is not None and understand is not None:
            now_ms = int(self.parts.clock.now().timestamp() * 1000)
            await self.parts.erasures.bury(group, now_ms)
            await self.parts.groups.clear(group, index.epoch, understand.epoch)
        self._note(group, counts)

    async def _take_derived(
        self, group: str, said: Said, lease: Lease | None, scope: EraseScope | None = None
    ) -> None:
        """Take what the scope's turns have left in a group; with *scope* its own passages, too."""
        named = Named(scope, frozenset(said.keys), frozenset(said.keys & said.partly))
        doomed = await self.parts.groups.find(group, named)
        if scope is not None:
            self._found |= doomed.passages.keys() | doomed.facts
        if lease is not None and not doomed.empty:
            await self._requeue(group, group, doomed.again)
            for lens in sorted(set[str]().union(*doomed.again_elsewhere.values())):
                by_home: dict[str, list[DoomedPassage]] = {}
                for key, lenses in sorted(doomed.again_elsewhere.items()):
                    if key in said.near and lens in lenses:
                        home, one = said.near[key]
                        by_home.setdefault(home, []).append(one)
                by_home.pop(group, None)  # notes of turns that are understood here already
                for home, turns in by_home.items():
                    named_lens = lens if parse_group(group).operator is None else None
                    await self._requeue(group, home, turns, named_lens)
            await self.parts.groups.take(group, lease.epoch, doomed)
        self._note(group, doomed.counts() if not doomed.empty else {})

    async def _requeue(
        self,
        group: str,
        home: str,
        passages: Collection[DoomedPassage],
        lens: str | None = None,
    ) -> None:
        """Have what is left of episodes that go understood anew, once the group is given back."""
        if not self.parts.understanding:  # a backfill finds them later
            return
        by_session: dict[str, dict[str, DoomedPassage]] = {}
        for passage in passages:
            by_session.setdefault(passage.session, {})[passage.turn_id] = passage
        operator = parse_group(home).operator
        for session, turns in sorted(by_session.items()):
            names = sorted(turns)
            for start in range(0, len(names), EPISODE_TURNS):
                some = names[start : start + EPISODE_TURNS]
                body = {
                    "kind": "understand",
                    "home": home,
                    "turns": some,
                    "operator": operator,
                    "agent": turns[some[0]].agent,
                    "session": session,
                }
                number = f"again-{turns[some[0]].uuid}"
                if lens is not None and lens != GLOBAL:
                    body["lens"], number = lens, f"{number}-{escape(lens)}"
                item = Item(number, body)
                await self.parts.mailbox.deliver([("understand", group, item)])

    async def _take_letters(self, covered: Covered) -> None:
        """Drop dead letters, and of those that stay what models wrote."""
        doomed: list[str] = []
        hushed: list[str] = []
        async for letter in self.parts.dead.whole(self.tenant):
            if covered.letter(letter):
                doomed.append(letter.id)
            elif covered.answer(letter):
                hushed.append(letter.id)
        self._letters |= set(doomed)
        self.queue_counts["dead_letters"] += len(doomed)
        if not self.dry:
            await self.parts.dead.drop(self.tenant, doomed)
            await self.parts.dead.forget_answers(hushed)

    async def _take_sessions(self, turns: Collection[str] = ()) -> None:
        """Take turns out of session buffers; forget sessions that go as a whole."""
        purge = self.parts.purge
        async for session in purge.sessions(self.tenant):
            if self.scope.covers(session.operator, session=session.id):
                taken = await purge.forget_session(session.name, dry=self.dry)
                self.queue_counts["buffered"] += taken
                self.queue_counts["sessions"] += 1
                self._sessions.add(session.id)
            elif session.operator == self.scope.operator:
                await self._unbuffer(session, turns)

    async def _forget(self, homes: Collection[str], derived: Collection[str]) -> None:
        """Forget what the queue keeps of sessions and requests; after the lanes were emptied."""
        kind, purge = self.scope.kind, self.parts.purge
        if self.dry:
            return
        # Answers to requests may hold any word of their group, and are not asked for again.
        whole = kind not in {"session", "turn"}
        await purge.forget_flushes(self.tenant, self._sessions, homes, open_too=whole)
        await purge.forget_flushes(self.tenant, (), derived, open_too=False)
        if kind in {"operator", "tenant"}:
            await purge.forget_seen(self.tenant, self.scope.operator)
            await purge.forget_spending(self.tenant, self.scope.operator)

    async def _unbuffer(self, session: Session, turns: Collection[str]) -> None:
        """Take out of a session's buffer what belongs to a part of the operator's memory."""
        purge, scope = self.parts.purge, self.scope
        if scope.kind in {"turn", "source"}:
            gone = {*turns, *([scope.turn] if scope.turn is not None else [])}
            taken = await purge.unbuffer(session.name, gone, dry=self.dry)
            self.queue_counts["buffered"] += taken
        elif scope.kind == "lens" and not self.dry:
            group = lens_group(self.parts.lenses, self.tenant, scope).id
            await purge.unbuffer_group(session.name, group)

    async def _take_receipts(self) -> None:
        covered = Covered(self.scope).with_turns(
            {turn for some in self._turns.values() for turn in some}
        )
        self.queue_counts["receipts"] += await self.parts.purge.receipts(
            self.tenant, lambda job: covered.receipt(job, self._letters), dry=self.dry
        )

    async def drop_grave(self, group: str) -> None:
        """Drop a group that was emptied long ago, unless something has come into it since."""
        async with self._held("index", group), self._held("understand", group):
            await self.parts.groups.drop_if_empty(group)
            await self.parts.erasures.forget_grave(group)

    def _note(self, group: str, counts: dict[str, int]) -> None:
        self.touched.append(group)
        if any(counts.values()):
            self.graph_counts["groups"] += 1
        self.graph_counts.update(counts)
        if self.parts.caches is not None and not self.dry:
            self.parts.caches.forget(group)

    @contextlib.asynccontextmanager
    async def _held(self, lane: Lane, group: str) -> AsyncIterator[Lease | None]:
        """Hold a lane of a group, whoever had it; nothing in a dry run."""
        if self.dry:
            yield None
            return
        mailbox = self.parts.mailbox
        lease = await self.parts.purge.seize(lane, group, mailbox.lease_ms[lane])
        keeper = asyncio.create_task(keep(mailbox, lease, self.parts.clock))
        try:
            yield lease
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
            with contextlib.suppress(LeaseLost):
                await mailbox.release(lease)
