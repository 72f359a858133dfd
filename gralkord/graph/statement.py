"""The one query that writes an episode with everything that follows from it, or nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np

from gralkord.clock import to_iso
from gralkord.graph import spaces
from gralkord.graph.drafts import EpisodeDraft
from gralkord.graph.notes import NoteRows
from gralkord.graph.sanitise import clean_text
from gralkord.graph.schema import UNDERSTAND_FENCE
from gralkord.graph.vectors import encode

Row = dict[str, Any]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Properties that are written here alone, never as an attribute that a model has named.
_OURS: Final = frozenset(
    {
        *("seq", "vector", "vector_next", "unembedded"),
        *("labels", "name_embedding", "fact_embedding"),
        *("withdrawn_at", "withdrawn_until", "withdrawn_reason", "replaced_by", "undone"),
        *("superseded_episode", "handles", "source", "offset", "confidence", "told_in"),
        "note_kind",
    }
)

_EPISODE: Final = (
    f"{spaces.ENTER} WITH m MERGE (ep:Episodic {{uuid: $uuid}}) "
    "SET ep += $episode, ep.seq = m.seq WITH m, ep "
)
# `SET n += row.values` keeps what Graphiti has not loaded; a null in it removes a property. A row
# without a vector, or with one of another space, keeps the vector that it has.
_ENTITIES: Final = (
    "UNWIND ${name} AS row MERGE (n:Entity {{uuid: row.uuid}}) SET n{labels} "
    "SET n += row.values, n.seq = m.seq, "
    f"n.vector = coalesce({spaces.OURS}, n.vector) "
    f"SET n.unembedded = {spaces.waits('n')} WITH m, ep, count(n) AS rows "
)
_MENTIONS: Final = (
    "UNWIND $mentions AS row MATCH (n:Entity {uuid: row.entity}) MERGE (ep)-[r:MENTIONS]->(n) "
    "ON CREATE SET r.uuid = row.uuid, r.group_id = row.group_id, r.created_at = row.created_at, "
    "r.seq = m.seq WITH m, ep, count(r) AS rows "
)
_FACTS: Final = (
    "UNWIND $facts AS row MATCH (a:Entity {uuid: row.values.source_node_uuid}) "
    "MATCH (b:Entity {uuid: row.values.target_node_uuid}) "
    "MERGE (a)-[f:RELATES_TO {uuid: row.uuid}]->(b) SET f += row.values, f.seq = m.seq, "
    f"f.vector = coalesce({spaces.OURS}, f.vector) "
    f"SET f.unembedded = {spaces.waits('f')} WITH m, ep, count(f) AS rows "
)
# A note is a node and a fact of the same uuid; the node is found by that fact.
_NOTES: Final = (
    "UNWIND ${name} AS row MERGE (n:Entity {{uuid: row.uuid}}) SET n:{label} "
    "SET n += row.node, n.seq = m.seq "
    "MERGE (ep)-[r:MENTIONS]->(n) ON CREATE SET r.uuid = row.uuid, r.group_id = n.group_id, "
    "r.created_at = n.created_at, r.seq = m.seq "
    "MERGE (n)-[f:RELATES_TO {{uuid: row.uuid}}]->(n) SET f += row.fact, f.seq = m.seq, "
    f"f.vector = coalesce({spaces.OURS}, f.vector) "
    f"SET f.unembedded = {spaces.waits('f')} WITH m, ep, count(f) AS rows "
)
_ENDS: Final = (
    "UNWIND $ends AS row MATCH ()-[f:RELATES_TO {uuid: row.uuid}]->() "
    "SET f += row.values, f.seq = m.seq WITH m, ep, count(f) AS rows "
)
_PASSAGES: Final = (
    "UNWIND $passages AS row MATCH (p:Passage {uuid: row}) MERGE (p)-[r:PART_OF]->(ep) "
    "ON CREATE SET r.seq = m.seq WITH m, ep, p, p.waiting AS waiting "
    "SET p.episode = ep.uuid, p.waiting = NULL, p.seq = m.seq "
    "WITH m, ep, count(waiting) AS understood SET m.waiting = m.waiting - understood "
)
_ORIGINS: Final = (
    "UNWIND $origins AS row MERGE (o:Origin {key: row}) MERGE (o)-[r:PART_OF]->(ep) "
    "ON CREATE SET r.seq = m.seq WITH m, ep, count(o) AS rows "
)


@dataclass(slots=True)
class EpisodeRows:
    """What Graphiti hands over to be saved, as it comes in.

    Attributes:
        told_in: For entities by uuid which episode told each field, see `gralkord.graph.told`.
        notes: The notes that are written with the episode.
    """

    episodes: list[Row] = field(default_factory=list)
    entities: list[Row] = field(default_factory=list)
    mentions: list[Row] = field(default_factory=list)
    facts: list[Row] = field(default_factory=list)
    told_in: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: NoteRows | None = None


def episode_statement(
    draft: EpisodeDraft,
    rows: EpisodeRows,
    *,
    epoch: int,
    fingerprint: str,
    labels: Collection[str],
    embeds: bool = False,
) -> tuple[str, Row]:
    """Return the query that writes an episode, and its parameters.

    Args:
        draft: What was understood.
        rows: What came of it.
        epoch: The lease's epoch.
        fingerprint: Which embedder the vectors are from; empty if there are none.
        labels: Names of the entity types that a label may be; they become part of the query.
        embeds: Whether rows that are left without a vector are to get one later.
    """
    entities = {row["uuid"]: row for row in rows.entities}
    facts = {row["uuid"]: row for row in rows.facts}
    mentions = {row["target_node_uuid"]: row for row in rows.mentions}
    params: Row = {
        "epoch": epoch,
        "embedder": fingerprint,
        "embeds": embeds,
        "uuid": draft.uuid,
        "episode": _episode(draft, rows, entities, facts),
    }
    parts = [
        UNDERSTAND_FENCE,
        _EPISODE,
    ]
    by_labels: dict[tuple[str, ...], list[Row]] = {}
    for row in entities.values():
        chosen = tuple(sorted(set(row["labels"]) & set(labels) - {"Entity"}))
        by_labels.setdefault(chosen, []).append(row)
    for number, (chosen, some) in enumerate(by_labels.items()):
        params[f"entities{number}"] = _entities(some, rows.told_in)
        names = "".join(
            f":{label}" for label in ("Entity", *chosen) if _IDENTIFIER.fullmatch(label)
        )
        parts.append(_ENTITIES.format(name=f"entities{number}", labels=names))
    if mentions:
        params["mentions"] = [_mention(row) for row in mentions.values()]
        parts.append(_MENTIONS)
    if facts:
        params["facts"] = _facts(draft, list(facts.values()))
        parts.append(_FACTS)
    if rows.notes:
        parts += _note_parts(rows.notes, params)
    if draft.origins:
        params["origins"] = list(draft.origins)
        parts.append(_ORIGINS)
    if draft.passages:
        params["passages"] = list(draft.passages)
        parts.append(_PASSAGES)
    return "".join(parts) + "RETURN m.seq", params


def _note_parts(notes: NoteRows, params: Row) -> list[str]:
    parts = []
    for number, (label, some) in enumerate(notes.by_label.items()):
        params[f"notes{number}"] = list(some)
        parts.append(_NOTES.format(name=f"notes{number}", label=label))
    if notes.ends:
        params["ends"] = list(notes.ends)
        parts.append(_ENDS)
    return parts


def _episode(
    draft: EpisodeDraft, rows: EpisodeRows, entities: Mapping[str, Row], facts: Mapping[str, Row]
) -> Row:
    (row,) = rows.episodes
    return {
        "uuid": draft.uuid,
        "name": clean_text(draft.name),
        "group_id": row["group_id"],
        "source": row["source"],
        "source_description": clean_text(draft.source_description),
        "content": _content(draft),
        "entity_edges": list(dict.fromkeys(row["entity_edges"])),
        "created_at": to_iso(row["created_at"]),
        "valid_at": to_iso(draft.reference_time),
        "valid_ms": int(draft.reference_time.timestamp() * 1000),
        "lens": draft.lens,
        "entities": len(entities),
        "facts": len(facts),
        "notes": len(draft.notes),
        "done": True,
    }


def _content(draft: EpisodeDraft) -> str:
    """Return the words that an episode keeps: those of its notes are in the notes.

    What was taken from no turn would be erased with none.
    """
    if not (draft.extract or draft.passages or draft.origins):
        return ""
    return clean_text(draft.body, len(draft.body))


def _facts(draft: EpisodeDraft, rows: Sequence[Row]) -> list[Row]:
    found = _rows(rows, "fact_embedding")
    for row in found:
        values = row["values"]
        if draft.within:
            stated = (draft.within if uuid == draft.uuid else uuid for uuid in values["episodes"])
            values["episodes"] = list(dict.fromkeys(stated))
        if "superseded_by" in values:  # only those that this episode has ended carry it
            values["superseded_episode"] = draft.uuid
    return found


def _entities(rows: Sequence[Row], told_in: Mapping[str, Sequence[str]]) -> list[Row]:
    found = _rows(rows, "name_embedding")
    for row in found:
        if row["uuid"] in told_in:
            row["values"]["told_in"] = list(told_in[row["uuid"]])
    return found


def _mention(row: Row) -> Row:
    return {
        "uuid": row["uuid"],
        "entity": row["target_node_uuid"],
        "group_id": row["group_id"],
        "created_at": to_iso(row["created_at"]),
    }


def _rows(rows: Sequence[Row], embedding: str) -> list[Row]:
    """Return each row's uuid, properties and, if it has one, its embedding as int8 text."""
    found: list[Row] = [
        {
            "uuid": row["uuid"],
            "values": {
                name: to_iso(value) if isinstance(value, datetime) else value
                for name, value in row.items()
                if name not in _OURS and _IDENTIFIER.fullmatch(name)
            },
        }
        for row in rows
    ]
    vectors = [row.get(embedding) for row in rows]
    some = [number for number, vector in enumerate(vectors) if vector and any(vector)]
    if some:
        texts = encode(np.asarray([vectors[number] for number in some], dtype=np.float32))
        for number, text in zip(some, texts, strict=True):
            found[number]["vector"] = text
    return found
