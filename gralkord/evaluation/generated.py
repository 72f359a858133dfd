"""A long conversation made by rules, and questions whose answers are known, of any size.

The same size and seed make the same set, on every machine: nothing but `random.Random` decides, and
of that only what is the same in all versions.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from gralkord.evaluation import wording
from gralkord.evaluation.sets import EvaluationSet, SetQuestion, SetSession, SetTurn

Choice = TypeVar("Choice")

START: Final = datetime(2022, 1, 3, 9, tzinfo=UTC)
MONTHS: Final = 24
DAYS: Final = 730
TURNS_OF_A_SESSION: Final = 20
MAX_QUESTIONS: Final = 100  # of each category: so many visits and things have names of their own
DISTRACTORS: Final = 5


@dataclass(frozen=True, slots=True)
class Planted:
    """A turn that a question is about.

    Attributes:
        id: What it is called.
        at: When it is said.
        speaker: Who says it.
        text: Its words.
    """

    id: str
    at: datetime
    speaker: str
    text: str


@dataclass(slots=True)
class _Plan:
    """What is planted and asked so far."""

    chance: random.Random
    turns: list[Planted] = field(default_factory=list)
    questions: list[SetQuestion] = field(default_factory=list)

    def pick(self, some: Sequence[Choice]) -> Choice:
        return some[int(self.chance.random() * len(some))]

    def mixed(self, some: Sequence[Choice]) -> list[Choice]:
        order = sorted((self.chance.random(), at) for at in range(len(some)))
        return [some[at] for _, at in order]

    def day(self, first: float = 0.0, last: float = 1.0) -> datetime:
        share = first + self.chance.random() * (last - first)
        return START + timedelta(days=int(share * (DAYS - 1)), hours=int(self.chance.random() * 9))

    def plant(self, speaker: str, text: str, at: datetime) -> Planted:
        turn = Planted(f"p{len(self.turns) + 1}", at, speaker, text)
        self.turns.append(turn)
        return turn

    def ask(
        self,
        category: str,
        text: str,
        evidence: Sequence[Planted] = (),
        distractors: Sequence[Planted] = (),
        *,
        whole: bool = False,
        as_of: datetime | None = None,
    ) -> None:
        self.questions.append(
            SetQuestion(
                id=f"{category}-{len(self.questions) + 1}",
                question=text,
                category=category,
                evidence=[turn.id for turn in evidence],
                distractors=[turn.id for turn in distractors][:DISTRACTORS],
                whole=whole,
                as_of=as_of,
            )
        )


def generate(turns: int, seed: int = 1, questions: int = 20) -> EvaluationSet:
    """Return a set: *turns* of noise over two years, and among them what questions are about.

    Categories: ``token`` (a number among look-alikes), ``needle`` (a thing among its like),
    ``month`` and ``ago`` (what was done in a month that is named, or in relation to a day),
    ``when``, ``change`` and ``earlier`` (what is so after it has changed, or was so on a day
    before), ``contradiction`` (both accounts), ``several`` (three turns), ``nothing`` (no answer).

    Args:
        turns: Turns of noise; what is planted comes on top.
        seed: Another number makes another set.
        questions: How many of each category, at most 100; of some there are fewer.
    """
    plan = _Plan(random.Random(seed))  # noqa: S311 - repeatable on purpose
    count = min(questions, MAX_QUESTIONS)
    _tokens(plan, count)
    _needles(plan, count)
    _visits(plan, count)
    _changes(plan, count)
    _contradictions(plan, count)
    _several(plan, count)
    _nothing(plan, count)
    return EvaluationSet(
        name=f"generated-{turns}-{seed}",
        sessions=_sessions(plan, turns),
        questions=plan.questions,
    )


def _tokens(plan: _Plan, count: int) -> None:
    for thing in plan.mixed(wording.things())[:count]:
        number = 1_000_000 + int(plan.chance.random() * 8_999_990)
        told, like = (
            plan.plant(
                plan.pick(wording.PEOPLE),
                f"Note: the {name} has the number N-{token}.",
                plan.day(),
            )
            for name, token in ((thing, number), (plan.pick(wording.NOUNS), number + 7))
        )
        plan.ask("token", f"What has the number N-{number}?", [told], [like])


def _needles(plan: _Plan, count: int) -> None:
    planted = [
        (
            thing,
            plan.plant(
                plan.pick(wording.PEOPLE),
                f"I put the spare key of the {thing} {plan.pick(wording.HIDEOUTS)}.",
                plan.day(),
            ),
        )
        for thing in plan.mixed(wording.things())[:count]
    ]
    for at, (thing, turn) in enumerate(planted):
        like = [planted[(at + step) % count][1] for step in (1, 2) if step < count]
        plan.ask("needle", f"Where is the spare key of the {thing} kept?", [turn], like)


def _visits(plan: _Plan, count: int) -> None:
    """Plant visits in months of their own for each of who went, and ask in three ways for them."""
    sights = plan.mixed(wording.sights())
    slots = plan.mixed([(who, month) for who in wording.PEOPLE for month in range(1, MONTHS - 1)])
    made: dict[str, list[tuple[int, str, Planted]]] = {}
    for (who, month), sight in zip(slots[: 3 * count], sights, strict=False):
        day = _month(month) + timedelta(days=1 + int(plan.chance.random() * 26), hours=10)
        text = f"We went to see the {sight} today, {plan.pick(wording.IMPRESSIONS)}."
        made.setdefault(who, []).append((month, sight, plan.plant(who, text, day)))
    visits = [(who, *visit) for who, some in made.items() for visit in some]
    for at, (who, month, sight, turn) in enumerate(plan.mixed(visits)):
        others = [other for _, _, other in made[who] if other is not turn]
        begin = _month(month)
        if at % 3 == 0:
            plan.ask("month", f"What did {who} go to see in {begin:%B %Y}?", [turn], others)
        elif at % 3 == 1:
            later = _month(month + 1) + timedelta(days=int(plan.chance.random() * 27), hours=12)
            before = [other for other in others if other.at < later]
            text = f"What did {who} go to see last month?"
            plan.ask("ago", text, [turn], before, as_of=later)
        else:
            plan.ask("when", f"When did {who} go to see the {sight}?", [turn], others)


def _changes(plan: _Plan, count: int) -> None:
    subjects = plan.mixed([(who, of) for who in wording.PEOPLE for of in wording.CHANGING])
    for at, (who, (statement, question, values)) in enumerate(subjects[: 2 * count]):
        steps = 2 + int(plan.chance.random() * 3)
        told = [
            plan.plant(who, statement.format(value), plan.day(step / steps, (step + 0.8) / steps))
            for step, value in enumerate(plan.mixed(values)[:steps])
        ]
        if at % 2 == 0:
            plan.ask("change", question.format(who), [told[-1]], told[:-1])
        else:
            day = told[-1].at - timedelta(days=3)
            plan.ask("earlier", question.format(who), [told[-2]], told[:-2], as_of=day)


def _contradictions(plan: _Plan, count: int) -> None:
    for thing in plan.mixed(wording.things())[:count]:
        years = plan.mixed(range(1890, 1990))[:2]
        people = plan.mixed(wording.PEOPLE)[:2]
        told = [
            plan.plant(who, f"They say that the {thing} was built in {year}.", plan.day())
            for who, year in zip(people, years, strict=True)
        ]
        plan.ask("contradiction", f"In which year was the {thing} built?", told, whole=True)


def _several(plan: _Plan, count: int) -> None:
    subjects = plan.mixed([(who, of) for who in wording.PEOPLE for of in wording.COLLECTED])
    for who, (statement, question, values) in subjects[:count]:
        told = [
            plan.plant(who, statement.format(value), plan.day()) for value in plan.mixed(values)[:3]
        ]
        plan.ask("several", question.format(who), told)


def _nothing(plan: _Plan, count: int) -> None:
    near = [each.format(who) for who in wording.PEOPLE for each in wording.NEVER_TOLD]
    strangers = [each.format(who) for who in wording.STRANGERS for each in wording.NEVER_TOLD]
    kinds = [plan.mixed(near), plan.mixed(strangers), plan.mixed(wording.FOREIGN)]
    for at in range(count):
        some = kinds[at % 3]
        plan.ask("nothing", some[at // 3 % len(some)])


def _sessions(plan: _Plan, turns: int) -> list[SetSession]:
    """Return noise in sessions of twenty turns over two years, what is planted among it."""
    count = max(1, -(-turns // TURNS_OF_A_SESSION))
    step = timedelta(days=DAYS) / count
    planted: list[list[Planted]] = [[] for _ in range(count)]
    alone: list[Planted] = []
    for turn in sorted(plan.turns, key=lambda each: (each.at, each.id)):
        place = min(count - 1, int((turn.at - START) / step))
        # Far from any talk, as where there is hardly any noise, it has a session of its own.
        near = abs(turn.at - (START + step * place)) < timedelta(days=2)
        (planted[place] if near else alone).append(turn)
    sessions = []
    for number in range(count):
        size = min(TURNS_OF_A_SESSION, turns - number * TURNS_OF_A_SESSION)
        said = [
            SetTurn(
                id=f"n{number * TURNS_OF_A_SESSION + at + 1}",
                speaker=plan.pick(wording.PEOPLE),
                text=wording.noise(plan.chance),
            )
            for at in range(size)
        ]
        for turn in planted[number]:
            said.insert(int(plan.chance.random() * (len(said) + 1)), _said(turn))
        if said:
            at = planted[number][0].at if planted[number] else START + step * number
            sessions.append(SetSession(name=f"s{number + 1}", time=at, turns=said))
    sessions += [
        SetSession(name=f"s-{turn.id}", time=turn.at, turns=[_said(turn)]) for turn in alone
    ]
    return sorted(sessions, key=lambda session: (session.time, session.name))


def _said(turn: Planted) -> SetTurn:
    return SetTurn(id=turn.id, speaker=turn.speaker, text=turn.text)


def _month(number: int) -> datetime:
    return datetime(START.year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
