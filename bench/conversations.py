"""Invented conversations: with few facts or many, said again or never, of few people or many."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from words import Dialogue

from gralkord.demo.sample import load_sample
from gralkord.models import Capture, Message
from gralkord.testing.rules import contradicts, facts_in, messages_in, names_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gralkord.testing.rules import Fact

# Who a fact is about, what it relates them to, and its words; all in small letters.
Key = tuple[str, str, str]

START = datetime(2024, 1, 1, 9, tzinfo=UTC)
PEOPLE = (
    *("Priya", "Marco", "Lena", "Tomas", "Ingrid", "Kofi", "Yuki", "Ruben", "Salma", "Olek"),
    *("Freya", "Diego"),
)
FIRMS = (
    *("Acme Labs", "Globex", "Northway Logistics", "Umbra Studio", "Vela Foods", "Quarry Bank"),
    *("Tern Airlines", "Larch Hospital"),
)
TOWNS = ("Oslo", "Leeds", "Porto", "Ghent", "Turin", "Malmo", "Bergen", "Graz", "Cork", "Nantes")
LIKINGS = (
    *("Earl Grey", "Gamecube", "Radiohead", "Catan", "Pilates", "Kintsugi", "Fado", "Haiku"),
    *("Bouldering", "Origami"),
)
STREETS = ("Cardigan Road", "Harbour Street", "Mill Lane", "Station Square", "Castle Hill")


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns of one operator, in order.

    Attributes:
        name: Short.
        turns: As they are captured; all of one session stand together.
    """

    name: str
    turns: tuple[Capture, ...]

    def sessions(self) -> list[str]:
        """Return the sessions in their order."""
        return list(dict.fromkeys(turn.session for turn in self.turns))


def lines_of(turn: Capture) -> str:
    """Return what was said in a turn, a line each."""
    return "\n".join(f"{message.speaker}: {message.content}" for message in turn.turn)


def truth(talk: Conversation) -> dict[Key, bool]:
    """Return each fact of a conversation as the scripted model reads it, and whether it holds.

    A fact ends when a later one contradicts it that is about the same two, or of the same relation
    with one of them in the same place; said again, it holds again.
    """
    holds: dict[Key, bool] = {}
    facts: dict[Key, Fact] = {}
    for turn in talk.turns:
        messages = messages_in(lines_of(turn))
        for new in facts_in(messages, names_in(messages)):
            for key, old in facts.items():
                if _related(new, old) and contradicts(new.text, old.text):
                    holds[key] = False
            key = key_of(new.subject, new.target, new.text)
            holds[key], facts[key] = True, new
    return holds


def key_of(subject: str, target: str, text: str) -> Key:
    """Return what tells a fact from all others."""
    return subject.casefold(), target.casefold(), text.casefold()


def _related(new: Fact, old: Fact) -> bool:
    if {new.subject, new.target} == {old.subject, old.target}:
        return True
    return new.relation == old.relation and (new.subject == old.subject or new.target == old.target)


def acting(talk: Conversation) -> Conversation:
    """Return a conversation in which the agent thinks and uses two tools in each turn."""
    steps = (
        "thought: I do not know that by heart, so I look it up before I say anything.",
        f'tool calendar(day="today") → {"09:00 nothing, 10:00 nothing; " * 8}',
        f'tool notes(query="what was said") → error no such note; {"tried again; " * 8}',
    )
    messages = [Message(role="behaviour", content=step) for step in steps]
    return Conversation(
        f"{talk.name}, and the agent uses tools",
        tuple(
            turn.model_copy(update={"turn": [turn.turn[0], *messages, *turn.turn[1:]]})
            for turn in talk.turns
        ),
    )


def conversations(turns: int, session_turns: int) -> list[Conversation]:
    """Return the conversations, each of *turns* turns in sessions of *session_turns*."""
    return [
        _family(),
        _colleagues(turns, session_turns),
        _strangers(turns, session_turns),
        _neighbours(turns, session_turns),
    ]


def _family() -> Conversation:
    """Return the sample of `gralkord demo`: plain talk, a fact now and then."""
    return Conversation("family", tuple(load_sample()))


def _colleagues(turns: int, session_turns: int) -> Conversation:
    """Return talk with many facts a turn, of few people: much is said again, and much changes."""
    dice = random.Random(11)
    said: list[str] = []

    def speak() -> list[tuple[str, str]]:
        sentences = [_sentence(dice, said) for _ in range(dice.choice((3, 3, 4)))]
        said.extend(sentences)
        return [("Ada", " ".join(sentences)), ("Juno", f"I see. {dice.choice(sentences)}")]

    return Conversation("colleagues", _turns("colleagues", turns, session_turns, speak))


def _sentence(dice: random.Random, said: list[str]) -> str:
    if said and dice.random() < 0.2:
        return dice.choice(said)
    one, other = dice.sample(PEOPLE, 2)
    return dice.choice(
        (
            f"{one} works at {dice.choice(FIRMS)}.",
            f"{one} now works at {dice.choice(FIRMS)}.",
            f"{one} lives in {dice.choice(TOWNS)}.",
            f"{one} moved to {dice.choice(TOWNS)}.",
            f"{one} likes {dice.choice(LIKINGS)}.",
            f"{one} no longer likes {dice.choice(LIKINGS)}.",
            f"{one} met {other} in {dice.choice(TOWNS)}.",
            f"{one} visited {dice.choice(TOWNS)} last week.",
            f"{one} left {dice.choice(FIRMS)} in {dice.randint(2010, 2023)}.",
            f"I met {one} on {dice.choice(STREETS)} yesterday.",
        )
    )


def _strangers(turns: int, session_turns: int) -> Conversation:
    """Return small talk with a rare new name and hardly a fact."""
    sentences = Dialogue(seed=5).sentences(turns)
    speakers = iter(range(turns))

    def speak() -> list[tuple[str, str]]:
        return [(("Ada", "Ben")[next(speakers) % 2], next(sentences))]

    return Conversation("strangers", _turns("strangers", turns, session_turns, speak))


def _neighbours(turns: int, session_turns: int) -> Conversation:
    """Return talk of ever new people with names that look alike: what is known seldom helps."""
    dice = random.Random(23)
    firsts = ("Ann", "Anna", "Anne", "Hanna", "Jo", "John", "Joan", "Johan", "Maria", "Mario")
    lasts = ("Berg", "Bergman", "Berger", "Lind", "Lindberg", "Lindgren", "Holm", "Holmes")

    def speak() -> list[tuple[str, str]]:
        one, other = (f"{dice.choice(firsts)} {dice.choice(lasts)}" for _ in range(2))
        return [
            ("Ada", f"{one} bought a house on {dice.choice(STREETS)}. {one} met {other} in Leeds."),
            ("Ben", f"I know {other}, who works at {dice.choice(FIRMS)}."),
        ]

    return Conversation("neighbours", _turns("neighbours", turns, session_turns, speak))


def _turns(
    name: str, turns: int, session_turns: int, speak: Callable[[], list[tuple[str, str]]]
) -> tuple[Capture, ...]:
    return tuple(_captures(name, turns, session_turns, speak))


def _captures(
    name: str, turns: int, session_turns: int, speak: Callable[[], list[tuple[str, str]]]
) -> Iterator[Capture]:
    for number in range(turns):
        session, place = divmod(number, session_turns)
        yield Capture(
            session=f"{name}/{session}",
            operator=name,
            agent="Juno",
            user="Ada",
            turn=[
                Message(
                    role="assistant" if speaker == "Juno" else "user", content=text, speaker=speaker
                )
                for speaker, text in speak()
            ],
            turn_id=f"{name}:{number}",
            event_time=START + timedelta(days=session, minutes=place),
        )
