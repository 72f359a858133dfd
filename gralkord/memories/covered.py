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
from gralkord.models.places import place_turn_id

if TYPE_CHECKING:
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
    """

    scope: EraseScope
    whole: frozenset[str] = frozenset()
    shared: str | None = None
    turns: frozenset[str] = field(default=frozenset())
    keeps_words: bool = False

    def with_turns(self, turns: Collection[str]) -> Self:
        """Return the same for these turns as well."""
        return replace(self, turns=self.turns | frozenset(turns))

    def entry(self, entry_id: str, fields: Mapping[bytes, bytes]) -> bool:
        """Whether an entry of the intake stream goes."""
        try:
            said = read(Entry(entry_id, fields))
        except GralkorError:
            return self._raw(fields.get(b"data", b"").decode(errors="replace"))
        if not isinstance(said, Capture):
            return self.scope.kind == "tenant"
        turn = said.turn_id or place_turn_id(said) or f"entry-{entry_id}"
        if self.scope.kind == "lens":
            return said.operator == self.scope.operator and self._only_lens(said.lenses)
        return self.scope.covers(said.operator, session=said.session, turn=turn, source=said.source)

    def item(self, lane: Lane, group: str, item: Item) -> Item | None:
        """Return what is left of an item: the same, less of it, or nothing."""
        body = item.body
        if group in self.whole:
            return None
        if item.kind == "barrier" or (group == self.shared and body.get("operator") is None):
            return item
        if lane == "index":
            return None if self._turn(body) else item
        if item.kind == "understand":
            return self._understand(group, item)
        return self._request(item)

    def letter(self, letter: DeadLetter) -> bool:
        """Whether a dead letter goes."""
        if self.scope.kind == "tenant" or letter.group in self.whole:
            return True
        if letter.lane == "intake":
            if letter.body is None:
                return self._raw(letter.raw or "")
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

    def _only_lens(self, lenses: Sequence[Any]) -> bool:
        """Whether words that are captured through *lenses* go nowhere but to the scope's."""
        return not self.keeps_words and all(
            lens == self.scope.lens for lens in lenses or [DEFAULT_LENS]
        )

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

    def _request(self, item: Item) -> Item | None:
        """Return what is left of triples that are still to be written."""
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
            return mine and isinstance(lenses, list) and self._only_lens(lenses)
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
