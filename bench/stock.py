"""graphiti-core as it comes, over facts that are written straight into a graph of its own."""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

os.environ.setdefault("GRAPHITI_TELEMETRY_ENABLED", "false")

from falkordb.asyncio import FalkorDB
from graphiti_core import Graphiti
from graphiti_core.cross_encoder.client import CrossEncoderClient
from graphiti_core.driver.falkordb_driver import FalkorDriver
from graphiti_core.embedder.client import EmbedderClient
from graphiti_core.llm_client.client import LLMClient
from graphiti_core.llm_client.config import LLMConfig
from graphiti_core.llm_client.openai_generic_client import OpenAIGenericClient
from graphiti_core.search.search_config_recipes import EDGE_HYBRID_SEARCH_RRF

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gralkord.providers.base import Embedder, LanguageModel

GROUP = "stock_bench"
BATCH = 250


class StockGraphiti:
    """Stock driver, stock indices, stock search; only the embedder is ours.

    Args:
        socket: Unix socket of the FalkorDB.
        embedder: The embedder that the daemon uses.
        model: Answers prompts; searches need none.
        client: Instead of *model*: a client of graphiti's own.
    """

    def __init__(
        self,
        socket: Path,
        embedder: Embedder,
        model: LanguageModel | None = None,
        client: LLMClient | None = None,
    ) -> None:
        database = FalkorDB(unix_socket_path=str(socket))
        self._driver = FalkorDriver(falkor_db=database, database=GROUP)
        self._embedder = embedder
        self._graphiti = Graphiti(
            graph_driver=self._driver,
            llm_client=client or (_Model(model) if model else _NoModel(None)),
            embedder=_Bridge(embedder),
            cross_encoder=_NoReranker(),
        )

    async def load(self, facts: Sequence[str], *, entities: int = 2_000) -> None:
        """Write *facts* between random entities, each with the embedding that stock keeps."""
        await self._driver.build_indices_and_constraints()
        now = datetime.now(UTC).isoformat()
        dice = random.Random(3)
        names = [f"entity {number}" for number in range(entities)]
        for start in range(0, entities, BATCH):
            await self._write_entities(names[start : start + BATCH], start, now)
        for start in range(0, len(facts), BATCH):
            ends = [dice.sample(range(entities), 2) for _ in facts[start : start + BATCH]]
            await self._write_facts(facts[start : start + BATCH], ends, now)
        await self._settled()

    async def search(self, query: str, limit: int) -> int:
        """Return how many facts ``search_()`` finds with ``EDGE_HYBRID_SEARCH_RRF``."""
        config = EDGE_HYBRID_SEARCH_RRF.model_copy(deep=True)
        config.limit = limit
        found = await self._graphiti.search_(query, config=config, group_ids=[GROUP])
        return len(found.edges)

    async def add_episode(self, name: str, body: str, when: datetime) -> tuple[int, int]:
        """Add an episode as stock does; return how many entities and facts it has."""
        found = await self._graphiti.add_episode(
            name=name,
            episode_body=body,
            source_description="conversation",
            reference_time=when,
            group_id=GROUP,
        )
        return len(found.nodes), len(found.edges)

    async def rows(self, query: str) -> list[list[Any]]:
        """Return what a query of the graph gives."""
        answer = await self._driver.client.select_graph(GROUP).ro_query(query)
        return [list(row) for row in answer.result_set]

    async def close(self) -> None:
        """Delete the graph and close the connection."""
        await self._driver.client.select_graph(GROUP).delete()
        await self._driver.close()

    async def _write_entities(self, names: Sequence[str], start: int, now: str) -> None:
        vectors = await self._embedder.embed(names)
        rows = [
            {"uuid": f"n{start + index}", "name": name, "vector": vector.tolist()}
            for index, (name, vector) in enumerate(zip(names, vectors, strict=True))
        ]
        await self._driver.execute_query(
            """UNWIND $rows AS row
            CREATE (n:Entity {uuid: row.uuid, name: row.name, group_id: $group, summary: '',
                              created_at: $now, name_embedding: vecf32(row.vector)})""",
            rows=rows,
            group=GROUP,
            now=now,
        )

    async def _write_facts(
        self, facts: Sequence[str], ends: Sequence[Sequence[int]], now: str
    ) -> None:
        vectors = await self._embedder.embed(facts)
        rows = [
            {
                "uuid": str(uuid.uuid4()),
                "fact": fact,
                "vector": vector.tolist(),
                "source": f"n{source}",
                "target": f"n{target}",
            }
            for fact, vector, (source, target) in zip(facts, vectors, ends, strict=True)
        ]
        await self._driver.execute_query(
            """UNWIND $rows AS row
            MATCH (a:Entity {uuid: row.source}), (b:Entity {uuid: row.target})
            CREATE (a)-[:RELATES_TO {uuid: row.uuid, name: 'KNOWS', fact: row.fact,
                group_id: $group, episodes: [], created_at: $now, valid_at: $now,
                fact_embedding: vecf32(row.vector)}]->(b)""",
            rows=rows,
            group=GROUP,
            now=now,
        )

    async def _settled(self) -> None:
        while True:
            answer = await self._driver.execute_query("CALL db.indexes()")
            rows = answer[0] if answer else []
            if all(row["status"] == "OPERATIONAL" for row in rows):
                return
            await asyncio.sleep(0.1)


def generic_client(url: str) -> LLMClient:
    """Return graphiti's client for servers that speak as OpenAI does, with its own settings."""
    config = LLMConfig(api_key="none", model="scripted", small_model="scripted", base_url=url)
    return OpenAIGenericClient(config)


class _Bridge(EmbedderClient):
    """Our embedder behind graphiti's interface."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def create(self, input_data: Any) -> list[float]:
        """Return the vector of one text."""
        text = input_data if isinstance(input_data, str) else input_data[0]
        row: list[float] = (await self._embedder.embed([text]))[0].tolist()
        return row

    async def create_batch(self, input_data_list: list[str]) -> list[list[float]]:
        """Return the vectors of several texts."""
        rows: list[list[float]] = (await self._embedder.embed(input_data_list)).tolist()
        return rows


class _Model(LLMClient):
    """Our model behind graphiti's interface."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__(None)
        self._model = model

    async def generate_response(
        self,
        messages: list[Any],
        response_model: Any = None,
        *_args: Any,
        prompt_name: str | None = None,
        **_options: Any,
    ) -> dict[str, Any]:
        """Return the model's answer to a prompt."""
        answer = await self._model.complete(messages, response_model, stage=prompt_name or "")
        return dict(answer)

    async def _generate_response(self, *_args: Any, **_options: Any) -> dict[str, Any]:
        raise NotImplementedError


class _NoModel(LLMClient):
    """Search asks no model."""

    async def _generate_response(self, *_args: Any, **_options: Any) -> dict[str, Any]:
        raise NotImplementedError


class _NoReranker(CrossEncoderClient):
    """Reciprocal rank fusion asks no reranker."""

    async def rank(self, query: str, passages: list[str]) -> list[tuple[str, float]]:
        """Never called."""
        raise NotImplementedError
