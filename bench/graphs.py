"""A FalkorDB of a measurement's own, and groups written straight into it."""

from __future__ import annotations

import os
import random
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gralkord.clock import to_iso
from gralkord.config import Graph
from gralkord.embedded.servers import ServerSpec
from gralkord.evaluation.stack import temporary_data_dir
from gralkord.graph.connection import GraphConnection
from gralkord.graph.passages import Passage, PassageStore, passage_uuid
from gralkord.graph.vectors import encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from gralkord.providers.base import Embedder

START = datetime(2024, 1, 1, 9, tzinfo=UTC)
BATCH = 500

_ENTITIES = (
    "MATCH (m:Meta) SET m.seq = m.seq + 1, m.embedder = $embedder WITH m UNWIND $rows AS row "
    "CREATE (n:Entity) SET n = row, n.seq = m.seq"
)
_FACTS = (
    "MATCH (m:Meta) SET m.seq = m.seq + 1 WITH m UNWIND $rows AS row "
    "MATCH (a:Entity {uuid: row.source}) MATCH (b:Entity {uuid: row.target}) "
    "CREATE (a)-[f:RELATES_TO]->(b) SET f = row.fact, f.seq = m.seq"
)


@asynccontextmanager
async def graph_server() -> AsyncIterator[tuple[GraphConnection, Path, int]]:
    """Start an embedded FalkorDB; give a connection, its socket and its process id; end it."""
    with temporary_data_dir() as home:
        spec = ServerSpec(kind="graph", directory=home / "graph", socket=home / "g.sock")
        process = spec.start()
        try:
            graph = GraphConnection.open(Graph(socket=spec.socket))
            await graph.wait_ready(20)
            yield graph, spec.socket, process.pid
            await graph.close()
        finally:
            process.kill()
            process.wait()


async def load_facts(
    graph: GraphConnection,
    group: str,
    facts: Sequence[str],
    embedder: Embedder,
    *,
    entities: int = 2_000,
) -> None:
    """Write *facts* between random entities, each as an episode writes them."""
    await graph.ensure_group(group)
    dice = random.Random(3)
    now = to_iso(START)
    common = {"group_id": group, "created_at": now}
    names = [f"entity {number}" for number in range(entities)]
    for start in range(0, entities, BATCH):
        some = names[start : start + BATCH]
        vectors = encode(await embedder.embed(some))
        rows = [
            {"uuid": f"n{number}", "name": name, "summary": "", "vector": vector, **common}
            for number, (name, vector) in enumerate(zip(some, vectors, strict=True), start)
        ]
        params = {"rows": rows, "embedder": embedder.fingerprint}
        await graph.write(group, _ENTITIES, params)
    for start in range(0, len(facts), BATCH):
        texts = facts[start : start + BATCH]
        vectors = encode(await embedder.embed(texts))
        links = []
        for number, (text, vector) in enumerate(zip(texts, vectors, strict=True), start):
            source, target = dice.sample(range(entities), 2)
            fact = {"uuid": f"f{number}", "name": "KNOWS", "fact": text, "vector": vector}
            fact |= {"valid_at": now, "episodes": ["e"], **common}
            links.append({"source": f"n{source}", "target": f"n{target}", "fact": fact})
        await graph.write(group, _FACTS, {"rows": links})


async def load_passages(
    graph: GraphConnection, group: str, texts: Sequence[str], embedder: Embedder
) -> None:
    """Write *texts* as turns, as the index lane writes them."""
    store = PassageStore(graph)
    for start in range(0, len(texts), BATCH):
        some = texts[start : start + BATCH]
        vectors = encode(await embedder.embed([f"Ada: {text}" for text in some]))
        rows = [
            Passage(
                uuid=passage_uuid(group, f"t{number}", 0, 0),
                text=text,
                speaker="Ada",
                role="user",
                agent="bench",
                session=f"session_{number // 25}",
                ordinal=number % 25,
                part=0,
                event_time=START + timedelta(minutes=number),
                turn_id=f"t{number}",
                vector=vector,
            )
            for number, (text, vector) in enumerate(zip(some, vectors, strict=True), start)
        ]
        await store.write(group, 1, rows, created_ms=1, fingerprint=embedder.fingerprint)


def rss_mb(pid: int) -> float:
    """Return the memory that a process has resident, in MB of 1,000,000 bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1_000_000
