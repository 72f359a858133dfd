"""Replay a LoCoMo file: its observations are what the model finds; look for each afterwards.

    python bench/observations.py conv-26.json [--k 10] [--json]

A scripted model answers with the file's own observations, through the daemon, a worker and
Graphiti. Then every one of them must be a fact, be recalled by its words among the first K, and
lead back to the turn that it was made of: turn by turn, an episode each, to that turn alone; with
the usual settings, where an episode is a session or a part of one, to that turn among others. Turn
by turn each session is an operator of its own, since the episodes of one come one after the other.

Exit codes: 0 all as recorded, 1 not, 2 the file or the command line is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import redis.asyncio as redis
from daemon import client_of
from figures import Figure, note
from observed import Observation, fact_of, read_observed, recorded

from gralkord import log
from gralkord.client.import_locomo import TURN_STEP, locomo_turns
from gralkord.client.imports import Import, ImportTurn, RejectedTurn
from gralkord.clock import to_iso
from gralkord.errors import GralkorError
from gralkord.evaluation.stack import Stack, temporary_data_dir, until_signal
from gralkord.groups import DEFAULT_LENS, DEFAULT_TENANT, Group
from gralkord.testing.model_server import ScriptedModelServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gralkord.client.client import AsyncClient
    from gralkord.client.import_locomo import Sample
    from gralkord.testing.replay import Replay
    from gralkord.testing.wire import Entry

OPERATOR: Final = "observer"
SECONDS: Final = 300.0
AT_ONCE: Final = 8
WAYS: Final[Mapping[str, str]] = {
    "turn by turn": "[capture]\nflush_turns = 1\n",
    "usual settings": "",
}

_FACTS: Final = (
    "MATCH (a:Entity)-[f:RELATES_TO]->(b:Entity) WHERE f.note_kind IS NULL "
    "RETURN f.uuid, a.name, f.name, b.name, f.fact, f.valid_at"
)
_ENTITIES: Final = "MATCH (n:Entity) WHERE n.note_kind IS NULL RETURN n.name"

# Subject, relation, object, text.
Told = tuple[str, str, str, str]


@dataclass(slots=True)
class Heard:
    """What became of a conversation, or of a session of one.

    Attributes:
        operator: Whose memory it is.
        sample: What was said.
        observations: What was recorded of it.
        facts: Uuid and time by fact, as the graph has them.
        entities: Names, as the graph has them.
        places: At which place recall had each observation, from 1; 0: not among the first.
        sources: The ``dia_id`` of the turns that each observation leads back to.
    """

    operator: str
    sample: Sample
    observations: Sequence[Observation]
    facts: dict[Told, tuple[str, str]] = field(default_factory=dict)
    entities: Counter[str] = field(default_factory=Counter)
    places: dict[str, int] = field(default_factory=dict)
    sources: dict[str, frozenset[str]] = field(default_factory=dict)

    async def capture(self, client: AsyncClient) -> None:
        """Import the turns.

        Raises:
            RuntimeError: Some were refused, or known.
        """
        report = await Import(client).run(self._turns())
        if report.failed or report.duplicates:
            raise RuntimeError(f"not all turns were imported: {report}")

    async def understood(self, client: AsyncClient) -> None:
        """Return when all was understood.

        Raises:
            RuntimeError: Something was not.
        """
        turns = [turn for turn in self._turns() if isinstance(turn, ImportTurn)]
        for session in dict.fromkeys(turn.capture.session for turn in turns):
            flush = await client.flush_and_await(
                session, SECONDS, "understood", operator=self.operator
            )
            if not flush.complete or flush.state != "understood":
                raise RuntimeError(f"{session} was not understood: {flush.reason}")

    async def look(self, graph: redis.Redis) -> None:
        """Read the facts and the entities out of the graph."""
        group = Group(DEFAULT_TENANT, self.operator, DEFAULT_LENS).id

        async def rows(query: str) -> Sequence[Sequence[str]]:
            found: Any = await graph.execute_command("GRAPH.RO_QUERY", group, query)  # type: ignore[no-untyped-call]
            return list(found[1])

        for uuid, source, relation, target, text, valid_at in await rows(_FACTS):
            self.facts[source, relation, target, text] = (uuid, valid_at)
        self.entities.update(name for (name,) in await rows(_ENTITIES))

    async def ask(self, client: AsyncClient, k: int) -> None:
        """Recall each observation among *k* memories, and ask for its history."""
        ids = {told[3]: uuid for told, (uuid, _) in self.facts.items()}
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(text: str, uuid: str) -> None:
            async with slots:
                found = await client.recall(self.operator, text, max_results=k, interpret="off")
                history = await client.memory_history(self.operator, uuid)
            places = [place for place, each in enumerate(found.results, 1) if each.id == uuid]
            self.places[text] = places[0] if places else 0
            self.sources[text] = frozenset(
                said.offset or "" for each in history.provenance for said in each.passages
            )

        known = [one for one in self.observations if one.text in ids]
        await asyncio.gather(*(one(each.text, ids[each.text]) for each in known))

    def counts(self, *, exact: bool) -> Counter[str]:
        """Return how what is known compares with what was recorded.

        Args:
            exact: Whether an episode is a single turn, so that a fact leads to that turn alone.
        """
        expected = {told(one): one for one in self.observations}
        names = {name for one in expected for name in (one[0], one[2])}
        names |= {turn.speaker for session in self.sample.sessions for turn in session.turns}
        times = times_of(self.sample)
        counts = Counter[str](
            observations=len(expected),
            known=len(expected.keys() & self.facts),
            further=len(self.facts.keys() - expected),
            entities=len(names),
            missing=len(names - set(self.entities)),
            unrecorded=sum((self.entities - Counter(names)).values()),
        )
        for key, one in expected.items():
            place, led = self.places.get(one.text, 0), self.sources.get(one.text, frozenset())
            right = led == one.turns if exact else led >= one.turns
            valid_at = self.facts[key][1] if key in self.facts else ""
            counts.update(near=place > 0, first=place == 1, led=right, turns=len(led))
            counts["dated"] += valid_at in {times[turn] for turn in one.turns}
        return counts

    def _turns(self) -> list[ImportTurn | RejectedTurn]:
        return list(locomo_turns(self.sample, operator=self.operator, agent="observer"))


def parts_of(sample: Sample, observations: Sequence[Observation], *, sessions: bool) -> list[Heard]:
    """Return what one operator hears, or what as many hear as there are sessions."""
    if not sessions:
        return [Heard(OPERATOR, sample, observations)]
    parts = []
    for session in sample.sessions:
        turns = {turn.dia_id for turn in session.turns}
        some = [one for one in observations if one.turns <= turns]
        part = replace(sample, sessions=(session,))
        parts.append(Heard(f"{OPERATOR} {session.name}", part, some))
    return parts


async def replay(parts: Sequence[Heard], script: Replay, settings: str, k: int) -> list[Entry]:
    """Let a daemon hear all parts, and look what is known then.

    Args:
        parts: What each operator hears; what is known is written into them.
        script: What the model finds.
        settings: Of the daemon, as TOML.
        k: How many memories are recalled for each observation.

    Returns:
        What the model was asked.

    Raises:
        RuntimeError: Not all was understood.
    """
    with ScriptedModelServer(replay=script) as server, temporary_data_dir() as home:
        config = home / "observations.toml"
        config.write_text(settings)
        options = ["--model", server.spec, "--config", str(config)]
        async with (
            Stack(home / "data", options) as stack,
            client_of(stack, timeout=SECONDS + 20) as client,
            redis.Redis(unix_socket_path=str(stack.graph_socket), decode_responses=True) as graph,
        ):
            for part in parts:
                await part.capture(client)
            await asyncio.gather(*(part.understood(client) for part in parts))
            for part in parts:
                await part.look(graph)
                await part.ask(client, k)
        return server.requests


def figures_of(
    way: str, parts: Sequence[Heard], asked: Sequence[Entry], k: int, *, exact: bool
) -> list[Figure]:
    """Return how what is known compares with what was recorded, over all *parts*."""
    found = sum((part.counts(exact=exact) for part in parts), Counter[str]())
    share = 100 / found["observations"]
    turns = sum(part.sample.turns for part in parts)
    calls = [entry for entry in asked if entry.schema]
    tokens = sum(entry.prompt_tokens for entry in calls)
    return [
        Figure(f"{way}: observations", found["observations"], ""),
        Figure("  that are facts", share * found["known"], "%", least=100),
        Figure("  facts that are no observation", found["further"], "", 0),
        Figure(f"  entities missing, of {found['entities']}", found["missing"], "", 0),
        Figure("  entities that were not recorded", found["unrecorded"], "", 0),
        Figure("  observations that hold since their turn", share * found["dated"], "%", least=100),
        Figure(f"  recalled among the first {k}", share * found["near"], "%", least=100),
        Figure("  recalled first", share * found["first"], "%"),
        Figure("  traced to their turn" + " alone" * exact, share * found["led"], "%", least=100),
        Figure("  turns that one leads to, mean", found["turns"] / found["observations"], ""),
        Figure("  model calls per 100 turns", 100 * len(calls) / turns, ""),
        Figure("  prompt tokens per 100 turns", 100 * tokens / turns, ""),
    ]


def told(observation: Observation) -> Told:
    """Return the fact that an observation is to become."""
    fact = fact_of(observation)
    return fact.subject, fact.relation, fact.object, fact.fact


def times_of(sample: Sample) -> dict[str, str]:
    """Return when each turn was said, by its ``dia_id``."""
    return {
        turn.dia_id: to_iso(session.date + place * TURN_STEP)
        for session in sample.sessions
        for place, turn in enumerate(session.turns)
    }


async def measure(path: Path, k: int) -> list[Figure]:
    """Replay the file in each way."""
    sample, observations = read_observed(path)
    script = recorded(sample, observations)
    figures: list[Figure] = []
    for way, settings in WAYS.items():
        note(f"{way}: {sample.turns} turns, {len(observations)} observations")
        exact = bool(settings)
        parts = parts_of(sample, observations, sessions=exact)
        asked = await replay(parts, script, settings, k)
        figures += figures_of(way, parts, asked, k, exact=exact)
        for schema, calls in Counter(entry.schema for entry in asked if entry.schema).items():
            tokens = sum(entry.prompt_tokens for entry in asked if entry.schema == schema)
            note(f"  {schema}: {calls} calls, {tokens:,} tokens")
    return figures


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="of the LoCoMo format")
    parser.add_argument("--k", type=int, default=10, help="memories a recall; default 10")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    log.configure(level="warning")
    try:
        figures = asyncio.run(until_signal(measure(options.file, options.k)))
    except GralkorError as error:
        parser.error(error.message)
    if options.json:
        print(json.dumps({"figures": [figure.to_dict() for figure in figures]}))
    else:
        for figure in figures:
            print(figure)
    sys.exit(0 if all(figure.ok for figure in figures) else 1)


if __name__ == "__main__":
    main()
