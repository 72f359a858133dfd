"""An episode with entities and facts, written straight into a group."""

from __future__ import annotations

from datetime import UTC, datetime

from groups_of_tests import ANN
from memories_of_tests import axis

from gralkord.graph.drafts import EpisodeDraft
from gralkord.graph.statement import EpisodeRows, episode_statement

WHEN = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)


def entity(uuid, name, **attributes):
    """Return an entity as Graphiti saves it."""
    return {
        "uuid": uuid,
        "name": name,
        "labels": ["Entity", *attributes.pop("labels", ())],
        "summary": "",
        "group_id": ANN,
        "created_at": WHEN,
        "name_embedding": axis(name).tolist(),
        **attributes,
    }


def fact(uuid, source, target, text, **attributes):
    """Return a fact as Graphiti saves it."""
    return {
        "uuid": uuid,
        "source_node_uuid": source,
        "target_node_uuid": target,
        "name": "LIKES",
        "fact": text,
        "group_id": ANN,
        "episodes": ["ep1"],
        "created_at": WHEN,
        "valid_at": WHEN,
        "fact_embedding": axis(text).tolist(),
        **attributes,
    }


async def understand(graph, group, passages=(), origins=(), facts=None):
    """Write an episode of two entities and their facts."""
    draft = EpisodeDraft("ep1", "session s", "Ann: I like tea", WHEN, "test", passages, origins)
    rows = EpisodeRows(
        episodes=[{"group_id": group, "source": "message", "entity_edges": [], "created_at": WHEN}],
        entities=[
            entity("e1", "Ann", labels=["Person"], age=40),
            entity("e2", "tea", kinds=["green", "black"], waiting="for water", valid_at="noon"),
        ],
        mentions=[
            {"uuid": f"m{number}", "target_node_uuid": uuid, "group_id": group, "created_at": WHEN}
            for number, uuid in enumerate(("e1", "e2"))
        ],
        facts=[fact("f1", "e1", "e2", "Ann likes tea")] if facts is None else facts,
    )
    await graph.ensure_group(group)
    query, params = episode_statement(
        draft, rows, epoch=1, fingerprint="test:axes:4", labels={"Person"}
    )
    await graph.write(group, query, params)
