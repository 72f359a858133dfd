"""One episode into a large graph: ours beside stock graphiti's, with a model that takes no time."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from figures import Figure, main, note
from graphs import START, graph_server, load_facts
from stock import StockGraphiti
from words import Dialogue

from gralkord.evaluation.retrieval import percentile
from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft
from gralkord.graph.episodes import EpisodeWriter
from gralkord.groups import Group
from gralkord.providers.local import LocalEmbedder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pydantic import BaseModel

    from gralkord.graph.connection import GraphConnection

ENTITIES = 8
FACTS = 10
ROOM = 2**31


class Answers:
    """Answers every prompt of an episode at once: eight entities, half of them known; ten facts."""

    name = "answers"
    endpoints: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.number = 0

    async def complete(
        self, _messages: Sequence[Any], schema: type[BaseModel], **_options: Any
    ) -> dict[str, Any]:
        """Return the answer that a schema asks for."""
        names = [f"entity {self.number * 4 + place}" for place in range(ENTITIES // 2)]
        names += [f"newcomer {self.number} {place}" for place in range(ENTITIES // 2)]
        if schema.__name__ == "ExtractedEntities":
            return {"extracted_entities": [{"name": name, "entity_type_id": 0} for name in names]}
        if schema.__name__ == "ExtractedEdges":
            return {"edges": [self._fact(names, place) for place in range(FACTS)]}
        empty: dict[str, Any] = {
            "NodeResolutions": {"entity_resolutions": []},
            "EdgeDuplicate": {"duplicate_facts": [], "contradicted_facts": []},
            "EdgeTimestamps": {"valid_at": None, "invalid_at": None},
            "SummarizedEntities": {"summaries": []},
            "FactVerdicts": {"verdicts": []},
            "BatchEdgeTimestamps": {"timestamps": []},
        }
        answer: dict[str, Any] = empty[schema.__name__]
        return answer

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    def _fact(self, names: Sequence[str], place: int) -> dict[str, Any]:
        source, target = names[place % ENTITIES], names[(place + 1 + place // ENTITIES) % ENTITIES]
        return {
            "source_entity_name": source,
            "target_entity_name": target,
            "relation_type": "MET",
            "fact": f"{source} met {target} at the station in week {self.number}.",
            "valid_at": "2024-03-01T00:00:00Z",
            "invalid_at": None,
        }


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Add the same episodes to two graphs of the same size on one server, in turns."""
    embedder, facts = LocalEmbedder(), list(Dialogue().sentences(options.size))
    group = Group("default", "episodes", "default").id
    mine, other, sent = [], [], []
    async with graph_server() as (graph, socket, _):
        note(f"writing {options.size:,} entities and facts for both")
        await load_facts(graph, group, facts, embedder, entities=options.size)
        model = Answers()
        stock = StockGraphiti(socket, embedder, model)
        await stock.load(facts, entities=options.size)
        caches = CachePool(graph, ROOM)
        writer = EpisodeWriter(graph, caches, model, embedder)
        await caches.fresh(group, timeout_ms=5_000)
        commands = _count(graph)
        for number in range(options.episodes + 1):
            model.number = number
            body = f"Ada: this is what happened in week {number}."
            when = START + timedelta(days=number)
            draft = EpisodeDraft(f"episode-{number}", "talk", body, when, "conversation")
            commands.clear()
            began = time.perf_counter()
            result = await writer.add(group, 1, draft)
            mine.append((time.perf_counter() - began) * 1_000)
            sent.append(list(commands))
            began = time.perf_counter()
            counts = await stock.add_episode(f"talk {number}", body, when)
            other.append((time.perf_counter() - began) * 1_000)
            for found in ((result.entities, result.facts), counts):
                if found != (ENTITIES, FACTS):
                    raise RuntimeError(f"an episode has {found[0]} entities and {found[1]} facts")
        await stock.close()
        await caches.close()
    middle, theirs = percentile(mine[1:], 50), percentile(other[1:], 50)
    # What raises the fence first changes no memory.
    writes = max(sum(query.startswith("GRAPH.QUERY") for query in each) - 1 for each in sent[1:])
    return [
        Figure(f"an episode into {options.size:,} entities and facts, p50", middle, "ms"),
        Figure("  stock add_episode(), p50", theirs, "ms"),
        Figure("  stock p50 over ours", theirs / middle, "x", least=5.0),
        Figure("  commands to the graph", max(map(len, sent[1:])), "", 12),
        Figure("  of which writes of memories", writes, "", 1),
    ]


def _count(graph: GraphConnection) -> list[str]:
    """Return the list to which the first word of every command is added from now on."""
    sent: list[str] = []
    call = graph._call  # noqa: SLF001

    async def counted(words: list[Any], limit: float, **how: Any) -> Any:
        sent.append(words[0])
        return await call(words, limit, **how)

    graph._call = counted  # type: ignore[method-assign]  # noqa: SLF001
    return sent


if __name__ == "__main__":
    main(__doc__ or "", measure, size=5_000, episodes=12)
