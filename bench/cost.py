"""Model calls and prompt tokens of ``up`` beside plain graphiti, one ``add_episode()`` a turn.

Both hear the same conversations and ask the same scripted model over HTTP: ours through the daemon,
flushed at the end of each session, graphiti with its own driver and its own client.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import redis.asyncio as redis
from conversations import Conversation, Key, acting, conversations, key_of, lines_of, truth
from daemon import client_of
from figures import Figure, main, note
from graphs import graph_server
from stock import StockGraphiti, generic_client

from gralkord.evaluation.stack import Stack, temporary_data_dir
from gralkord.groups import DEFAULT_LENS, DEFAULT_TENANT, Group
from gralkord.providers.local import LocalEmbedder
from gralkord.testing.model_server import ScriptedModelServer
from gralkord.testing.wire import CHARACTERS_PER_TOKEN

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from gralkord.testing.wire import Entry

UNDERSTAND_SECONDS = 300.0
CALLS, TOKENS = 0.5, 0.6
DISTIL, DISTIL_CALLS = "DistilledTurns", 12
# A provider keeps no shorter beginning of a prompt than this.
LEAST_CACHED = 1_024

_FACTS = (
    "MATCH (a:Entity)-[f:RELATES_TO]->(b:Entity) "
    "RETURN a.name, b.name, f.fact, f.invalid_at IS NULL AND f.expired_at IS NULL"
)
_ENTITIES = "MATCH (n:Entity) RETURN count(n)"


@dataclass(slots=True)
class Outcome:
    """What one side has asked for, and what it knows in the end.

    Attributes:
        calls: By the schema that was asked for.
        tokens: Of the prompts, by schema.
        begun: How many tokens stood at the beginning of the prompt of that schema before, where
            they are enough to be cached.
        facts: Which facts there are, and whether they hold.
        entities: How many.
    """

    calls: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    begun: int = 0
    facts: dict[Key, bool] = field(default_factory=dict)
    entities: int = 0

    def count(self, entries: Iterable[Entry]) -> None:
        """Count requests, those that failed too."""
        before: dict[str, str] = {}
        for entry in entries:
            self.calls[entry.schema] += 1
            self.tokens[entry.schema] += entry.prompt_tokens
            pairs = zip(before.get(entry.schema, ""), entry.prompt, strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            if same >= LEAST_CACHED * CHARACTERS_PER_TOKEN:
                self.begun += same // CHARACTERS_PER_TOKEN
            before[entry.schema] = entry.prompt

    def know(self, facts: Iterable[Iterable[Any]], entities: int) -> None:
        """Take what a graph holds."""
        for source, target, text, holds in facts:
            key = key_of(source, target, text)
            self.facts[key] = self.facts.get(key, False) or bool(holds)
        self.entities = entities

    def right(self, facts: dict[Key, bool]) -> float:
        """Return the share of *facts* (%) that are known as they are: holding, or not."""
        right = sum(self.facts.get(fact) == holds for fact, holds in facts.items())
        return 100 * right / max(len(facts), 1)


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Measure each conversation on both sides, each with a model server that counts anew."""
    figures = []
    for talk in conversations(options.turns, options.session_turns):
        note(f"{talk.name}: {len(talk.turns)} turns in {len(talk.sessions())} sessions")
        mine, other = await _ours(talk), await _stock(talk)
        figures += _figures(talk, mine, other)
        for side, outcome in (("ours", mine), ("stock", other)):
            counts = ", ".join(
                f"{name} {count} ({outcome.tokens[name]:,} tokens)"
                for name, count in outcome.calls.most_common()
            )
            note(f"  {side}: {counts}")
    return figures + await _of_behaviour(options)


def _figures(talk: Conversation, mine: Outcome, other: Outcome) -> list[Figure]:
    share = 100 / len(talk.turns)
    calls, theirs = mine.calls.total(), other.calls.total()
    tokens, their_tokens = mine.tokens.total(), other.tokens.total()
    facts = truth(talk)
    right = other.right(facts)
    name = f"  of {len(facts)} facts known, and whether they hold"
    return [
        Figure(f"{talk.name}: model calls per 100 turns", calls * share, ""),
        Figure("  stock", theirs * share, ""),
        Figure("  ours over stock", calls / theirs, "x", CALLS),
        Figure("  prompt tokens per 100 turns", tokens * share, ""),
        Figure("  stock", their_tokens * share, ""),
        Figure("  ours over stock", tokens / their_tokens, "x", TOKENS),
        Figure("  of which begin as the prompt before", 100 * mine.begun / tokens, "%"),
        Figure("  stock", 100 * other.begun / their_tokens, "%"),
        Figure(name, mine.right(facts), "%", least=right),
        Figure("  stock", right, "%"),
        Figure("  entities", mine.entities, ""),
        Figure("  stock", other.entities, ""),
    ]


async def _of_behaviour(options: argparse.Namespace) -> list[Figure]:
    """Measure what it adds to sum up what an agent did, and to learn from it."""
    talk = acting(conversations(options.turns, options.session_turns)[0])
    note(f"{talk.name}: {len(talk.turns)} turns in {len(talk.sessions())} sessions")
    outcome, share = await _ours(talk), 100 / len(talk.turns)
    return [
        Figure(f"{talk.name}: calls per 100 turns", outcome.calls.total() * share, ""),
        Figure("  of which distil", outcome.calls[DISTIL] * share, "", DISTIL_CALLS),
        Figure("  prompt tokens per 100 turns", outcome.tokens.total() * share, ""),
        Figure("  of which distil", outcome.tokens[DISTIL] * share, ""),
    ]


async def _ours(talk: Conversation) -> Outcome:
    """Let a daemon and its worker hear the conversation."""
    outcome = Outcome()
    with ScriptedModelServer() as server, temporary_data_dir() as path:
        async with (
            Stack(path, ["--model", server.spec]) as stack,
            client_of(stack, timeout=UNDERSTAND_SECONDS + 20) as client,
        ):
            for session in talk.sessions():
                await client.capture_many([turn for turn in talk.turns if turn.session == session])
                flush = await client.flush_and_await(
                    session, UNDERSTAND_SECONDS, "understood", operator=talk.turns[0].operator
                )
                if not flush.complete or flush.state != "understood":
                    raise RuntimeError(f"{session} was not understood: {flush.reason}")
            group = Group(DEFAULT_TENANT, talk.turns[0].operator, DEFAULT_LENS).id
            async with redis.Redis(
                unix_socket_path=str(stack.graph_socket), decode_responses=True
            ) as graph:
                facts = await graph.execute_command("GRAPH.RO_QUERY", group, _FACTS)  # type: ignore[no-untyped-call]
                count = await graph.execute_command("GRAPH.RO_QUERY", group, _ENTITIES)  # type: ignore[no-untyped-call]
            outcome.know(((*row[:3], row[3] == "true") for row in facts[1]), count[1][0][0])
        outcome.count(server.requests)
    return outcome


async def _stock(talk: Conversation) -> Outcome:
    """Let graphiti hear the conversation, turn by turn."""
    outcome = Outcome()
    with ScriptedModelServer() as server:
        async with graph_server() as (_, socket, _):
            stock = StockGraphiti(socket, LocalEmbedder(), client=generic_client(server.url))
            await stock.load((), entities=0)
            for turn in talk.turns:
                assert turn.event_time is not None
                await stock.add_episode(turn.session, lines_of(turn), turn.event_time)
            outcome.know(await stock.rows(_FACTS), (await stock.rows(_ENTITIES))[0][0])
            await stock.close()
        outcome.count(server.requests)
    return outcome


if __name__ == "__main__":
    main(__doc__ or "", measure, turns=100, session_turns=10)
