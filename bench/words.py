"""Made-up dialogue for measurements: seeded, of any length, with a natural spread of words."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gralkord.models import Capture, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

SUBJECTS = ("I", "we", "my sister", "the neighbour", "our teacher", "the whole team", "Grandpa")
VERBS = (
    *("bought", "lost", "painted", "repaired", "forgot", "found", "sold", "planted", "borrowed"),
    *("cooked", "visited", "cancelled", "moved", "finished", "recorded", "returned", "cleaned"),
)
ADJECTIVES = (
    *("old", "green", "heavy", "second-hand", "broken", "tiny", "expensive", "wooden", "quiet"),
    *("striped", "frozen", "famous", "rusty", "gentle", "foreign", "early", "narrow", "yellow"),
)
NOUNS = (
    *("bicycle", "garden", "ticket", "kitchen", "violin", "boat", "letter", "camera", "bridge"),
    *("museum", "tent", "library", "oven", "puppy", "concert", "passport", "ladder", "harbour"),
    *("recipe", "train", "window", "lecture", "photograph", "medal", "piano", "market", "novel"),
)
TAILS = (
    *("last weekend", "near the station", "with the children", "before the storm", "for nothing"),
    *("in the rain", "after dinner", "without telling anyone", "at half past six", "by mistake"),
)
SYLLABLES = ("ka", "lo", "mi", "ren", "tu", "sel", "dor", "vi", "nash", "pe", "gor", "wyn")


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Two people who talk over many sessions.

    Attributes:
        seed: The same seed gives the same words.
        session_turns: Turns in one session.
    """

    seed: int = 7
    session_turns: int = 25

    def sentences(self, count: int) -> Iterator[str]:
        """Yield *count* sentences; one word in about eight is a rare name."""
        dice = random.Random(self.seed)
        for _ in range(count):
            yield _sentence(dice)

    def captures(self, count: int, operator: str) -> Iterator[Capture]:
        """Yield *count* turns, a minute apart, as captures for *operator*."""
        start = datetime(2024, 1, 1, 9, tzinfo=UTC)
        for number, text in enumerate(self.sentences(count)):
            session, place = divmod(number, self.session_turns)
            yield Capture(
                session=f"{operator}/session_{session}",
                operator=operator,
                agent="bench",
                user="Ada",
                turn=[Message(role="user", content=text, speaker=("Ada", "Ben")[number % 2])],
                turn_id=f"{operator}:{number}",
                event_time=start + timedelta(days=session, minutes=place),
                source=operator,
                offset=str(number),
            )

    def questions(self, count: int) -> list[str]:
        """Return *count* questions about things that the sentences speak of."""
        dice = random.Random(self.seed + 1)
        return [
            f"Who {dice.choice(VERBS)} the {dice.choice(ADJECTIVES)} {dice.choice(NOUNS)}"
            f" {dice.choice(TAILS)}?"
            for _ in range(count)
        ]


def _sentence(dice: random.Random) -> str:
    words = [_clause(dice) for _ in range(dice.choice((1, 1, 2, 2, 3)))]
    if dice.random() < 0.5:
        name = "".join(dice.choices(SYLLABLES, k=3)).capitalize()
        words.append(f"{name} was there too")
    return ", and ".join(words).capitalize() + "."


def _clause(dice: random.Random) -> str:
    return (
        f"{dice.choice(SUBJECTS)} {dice.choice(VERBS)} the {dice.choice(ADJECTIVES)}"
        f" {dice.choice(NOUNS)} {dice.choice(TAILS)}"
    )
