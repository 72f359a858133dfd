"""Whether what stands in the queue belongs to the scope of an erasure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import orjson

from gralkord.errors import GralkorError
from gralkord.groups import DEFAULT_LENS, parse_group
from gralkord.intake.envelope import Entry, read
from gralkord.mailbox.items import Item
from gralkord.models import Capture
from gralkord.models.ingest import Ingest
from gralkord.models.ingested import read_ingest
from gralkord.models.places import place_turn_id
from gralkord.turns.communities import KIND as COMMUNITIES
from gralkord.turns.ingestion.adding import ADD
from gralkord.wire import read_model

if TYPE_CHECKING:
    from gralkord.lenses.registry import LensRegistry
    from gralkord.mailbox.keys import Lane
    from gralkord.models.erasure import EraseScope
    from gralkord.models.letters import DeadLetter


@dataclass(frozen=True, slots=True)
class Covered:
    """Judges what the queue has.

    Attributes:
        scope: What is erased.
        whole: Groups of which everything goes.
        shared: The shared group, where all goes of it that is the operator's.
        turns: Turns of the operator that go, as far as they are known.
        keeps_words: Whether only what was shared goes, and the words stay with the operator.
        lenses: Those that are configured, and the agents that have some of their own.
    """

    scope: EraseScope
    whole: frozenset[str] = frozenset()
    shared: str | None = None
    turns: frozenset[str] = field(default=frozenset())
    keeps_words: bool = False
    lenses: LensRegistry | None = None

    def with_turns(self, turns: Collection[str]) -> Self:
        """Return the same for these turns as well."""
        return replace(self, turns=self.turns | frozenset(turns))

    def entry(self, entry_id: str, fields: Mapping[bytes, bytes]) -> bool:
        """Whether an entry of the intake stream goes."""
        try:
            said = read(Entry(entry_id, fields))
            if isinstance(said, Ingest):
                return self._ingest(read_ingest(said, f"entry-{entry_id}").turns)
        except GralkorError:
            return self._raw(fields.get(b"data", b"").decode(errors="replace"))
        if not isinstance(said, Capture):
            return self.scope.kind == "tenant"
        turn = said.turn_id or place_turn_id(said) or f"entry-{entry_id}"
        if self.scope.kind == "lens":
            return said.operator == self.scope.operator and self._only_lens(said.lenses, said.agent)
        return self.scope.covers(said.operator, session=said.session, turn=turn, source=said.source)

    def item(self, lane: Lane, group: str, item: Item) -> Item | None:
        """Return what is left of an item: the same, less of it, or nothing."""
        body = item.body
        if group in self.whole or item.kind == COMMUNITIES:  # made of any words of the group
            return None
        if item.kind == "barrier" or (group == self.shared and body.get("operator") is None):
            return item
        if lane == "index":
            return None if self._turn(body) else item
        if item.kind == "understand":
            return self._understand(group, item)
        if item.kind == ADD:
            return self._added(group, item)
        return self._request(item)

    def letter(self, letter: DeadLetter) -> bool:
        """Whether a dead letter goes."""
        if self.scope.kind == "tenant" or letter.group in self.whole:
            return True
        if letter.lane == "intake":
            if letter.body is None:
                return self._raw(letter.raw or "")
            if (turns := _ingested(letter.body, letter.item)) is not None:
                return self._ingest(turns)
            return self._body(letter.body, f"entry-{letter.item}")
        item = Item(letter.item, letter.body or {})
        return self.item(letter.lane, letter.group, item) is None

    def answer(self, letter: DeadLetter) -> bool:
        """Whether what a model wrote goes: it was shown more than the turns of the letter."""
        if letter.lane != "understand":
            return False
        return parse_group(letter.group).operator in {None, self.scope.operator}

    def receipt(self, job: Sequence[Any], letters: Collection[str]) -> bool:
        """Whether what a receipt is asked for goes.

        Args:
            job: As ``route.lua`` has noted it.
            letters: Dead letters that have gone.
        """
        if self.scope.kind in {"ids", "lens"}:
            return False
        if len(job) <= 2:
            if self.scope.kind == "tenant":
                return bool(job[0] != "erased")
            return bool(job[0] == "dead" and job[1] in letters)
        operator, session, turn = job[:3]
        if self.scope.covers(operator, session=session, turn=turn):
            return True
        return bool(operator == self.scope.operator and turn in self.turns)

    def _ingest(self, turns: Sequence[Capture]) -> bool:
        """Whether all of something ingested goes; of a part the router takes care."""
        if self.scope.kind == "lens":
            mine = turns[0].operator == self.scope.operator
            return mine and self._only_lens(turns[0].lenses, turns[0].agent)
        return all(
            self.scope.covers(
                turn.operator, session=turn.session, turn=turn.turn_id, source=turn.source
            )
            for turn in turns
        )

    def _only_lens(self, lenses: Sequence[Any], agent: str | None) -> bool:
        """Whether words that are captured through *lenses* go nowhere but to the scope's."""
        if self.keeps_words or not all(isinstance(lens, str) for lens in lenses):
            return False
        through = self.lenses.captured(lenses, agent) if self.lenses else lenses or [DEFAULT_LENS]
        return all(lens == self.scope.lens for lens in through)

    def _turn(self, body: Mapping[str, Any]) -> bool:
        covered = self.scope.covers(
            body.get("operator"),
            session=body.get("session"),
            turn=body.get("turn_id"),
            source=body.get("source"),
        )
        # By ids: it is in the graph already, whole, and would only be written once more.
        named = self.scope.kind == "ids" and body.get("turn_id") in self.turns
        return covered or named

    def _understand(self, group: str, item: Item) -> Item | None:
        body = item.body
        if body.get("operator") != self.scope.operator or self.scope.kind == "ids":
            return item
        if group == self.shared or self.scope.covers(
            body.get("operator"), session=body.get("session")
        ):
            return None
        if self.scope.kind == "lens":
            return None if body.get("home") in self.whole else item
        gone = self.turns | ({self.scope.turn} if self.scope.turn is not None else set())
        turns = body.get("turns", [])
        left = [turn for turn in turns if turn not in gone]
        if len(left) == len(turns):
            return item
        return Item(item.id, {**body, "turns": left}) if left else None

    def _added(self, group: str, item: Item) -> Item | None:
        """Return what is left of a text that a process has made of turns: all, or nothing.

        What only says that they were handled becomes the handling of those that are left.
        """
        left = self._understand(group, item)
        gone = self.scope.kind == "ids" and not self.turns.isdisjoint(item.body.get("turns", []))
        if left is None or (left is item and not gone):
            return left
        if "content" in item.body:
            return None
        return Item(item.id, {**left.body, "kind": "understand"})

    def _request(self, item: Item) -> Item | None:
        """Return what is left of triples and notes that are still to be written."""
        if self.scope.kind == "source" and item.body.get("source") == self.scope.source:
            return None
        triples = item.body.get("triples")
        if self.scope.kind != "source" or not isinstance(triples, list):
            return item
        left = [one for one in triples if one.get("source") != self.scope.source]
        if len(left) == len(triples):
            return item
        return Item(item.id, {**item.body, "triples": left}) if left else None

    def _body(self, body: Mapping[str, Any], turn: str) -> bool:
        texts = {name: value for name, value in body.items() if isinstance(value, str)}
        if self.scope.kind == "lens":
            lenses = body.get("lenses", [])
            mine = texts.get("operator") == self.scope.operator
            return mine and isinstance(lenses, list) and self._only_lens(lenses, texts.get("agent"))
        return self.scope.covers(
            texts.get("operator"),
            session=texts.get("session"),
            turn=texts.get("turn_id", turn),
            source=texts.get("source"),
        )

    def _raw(self, text: str) -> bool:
        """Whether what cannot be read seems to say that it belongs to the scope."""
        scope = self.scope
        if scope.kind == "tenant":
            return True
        names = {"session": scope.session, "turn_id": scope.turn, "source": scope.source}
        said = {"operator": scope.operator} | names
        known = {name: value for name, value in said.items() if value is not None}
        if scope.kind in {"ids", "lens"}:
            return False
        return all(
            re.search(rf'"{name}"\s*:\s*{re.escape(orjson.dumps(value).decode())}', text)
            for name, value in known.items()
        )


def _ingested(body: Mapping[str, Any], entry: str) -> Sequence[Capture] | None:
    """Return the turns of something ingested, if the body of a dead letter is that."""
    if "source_description" not in body:
        return None
    try:
        return read_ingest(read_model(Ingest, dict(body)), f"entry-{entry}").turns
    except GralkorError:
        return None
