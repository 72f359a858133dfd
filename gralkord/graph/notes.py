"""Notes of a group: statements that stand for themselves, written with an episode, and searched."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gralkord.clock import Clock, to_iso
from gralkord.errors import InvalidInput
from gralkord.graph.drafts import EpisodeDraft, Note, NoteEnd, NoteKind
from gralkord.graph.sanitise import MAX_FACT_CHARS, clean_name, clean_text
from gralkord.graph.validity import View
from gralkord.graph.vectors import encode
from gralkord.groups import parse_group
from gralkord.providers.base import Embedder
from gralkord.providers.embedders.choice import Embedders

if TYPE_CHECKING:
    from gralkord.graph.cache import CachePool, GroupCache
    from gralkord.graph.rows import FactRow

Row = dict[str, Any]

LABELS: Final[Mapping[NoteKind, str]] = {
    "learning": "Learning",
    "generalisation": "Generalisation",
    "memory": "Memory",
}
# Properties of facts and nodes that mean something to others than the reader of a note.
_OURS: Final = frozenset(
    {
        *("uuid", "name", "group_id", "created_at", "labels", "seq", "vector", "vector_next"),
        *("unembedded", "fact", "summary", "episodes", "note_kind", "source", "offset"),
        *("confidence", "handles", "told_in", "undone", "replaced_by", "expired_at"),
        *("valid_at", "invalid_at", "reference_time", "source_node_uuid", "target_node_uuid"),
        *("withdrawn_at", "withdrawn_until", "withdrawn_reason", "name_embedding"),
        *("superseded_at", "superseded_by", "superseded_reason", "superseded_episode"),
        *("superseded_invalid_at", "fact_embedding"),
    }
)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

READ_MS: Final = 1_000
# Of words alone so many candidates are looked at.
LEXICAL: Final = 3


@dataclass(frozen=True, slots=True)
class NoteRows:
    """What a draft's notes are in the graph.

    Attributes:
        by_label: For each label the rows of its notes: ``uuid``, ``node`` and ``fact`` with their
            properties, and ``vector``.
        ends: Properties of the known notes that end, by ``uuid``.
    """

    by_label: Mapping[str, Sequence[Row]]
    ends: Sequence[Row]


async def note_rows(
    draft: EpisodeDraft,
    group: str,
    known: GroupCache,
    embedder: Embedder | None,
    now: datetime,
) -> NoteRows:
    """Return what is to be written for the notes of *draft*.

    Args:
        draft: The episode that they are written with.
        group: The group id.
        known: What the group knows.
        embedder: Makes their vectors; with none, they are found by words alone.
        now: When they are written.

    Raises:
        GralkorError: The embedder's failure.
    """
    vectors: dict[str, str] = {}
    texts = {note.uuid: clean_text(note.text, MAX_FACT_CHARS) for note in draft.notes}
    if embedder is not None and texts:
        payer = parse_group(group)
        rows = await embedder.embed(list(texts.values()), group=payer, stage="notes")
        encoded = zip(texts, encode(rows), rows, strict=True)
        vectors = {uuid: text for uuid, text, row in encoded if np.any(row)}
    by_label: dict[str, list[Row]] = {}
    for note in draft.notes:
        row = _row(note, texts[note.uuid], group, draft, now)
        if note.uuid in vectors:
            row["vector"] = vectors[note.uuid]
        by_label.setdefault(LABELS[note.kind], []).append(row)
    facts = {row.uuid: row for row in known.facts.by_uuid(end.uuid for end in draft.ends)}
    ends = [_end(end, facts[end.uuid], draft, now) for end in draft.ends if end.uuid in facts]
    return NoteRows(by_label, ends)


def _row(note: Note, text: str, group: str, draft: EpisodeDraft, now: datetime) -> Row:
    since, created = to_iso(note.since), to_iso(now)
    common = {"group_id": group, "created_at": created, "note_kind": note.kind}
    attributes = _attributes(note)
    title = clean_name(note.title) or LABELS[note.kind]
    fact = attributes | common
    fact |= {
        "name": LABELS[note.kind].upper(),
        "fact": text,
        "source_node_uuid": note.uuid,
        "target_node_uuid": note.uuid,
        "episodes": [draft.uuid],
        "valid_at": since,
        "reference_time": since,
    }
    own = {"confidence": note.confidence, "source": note.source, "offset": note.offset}
    fact |= {name: value for name, value in own.items() if value is not None}
    node = attributes | common | {"name": title, "summary": text}
    return {"uuid": note.uuid, "node": node, "fact": fact}


def _attributes(note: Note) -> Row:
    """Return what a note says of itself as it can be stored; what is not known is left out."""
    found: Row = {}
    for name, value in note.attributes.items():
        if name in _OURS or not _IDENTIFIER.fullmatch(name):
            raise InvalidInput(f"{name[:64]!r} cannot be the attribute of a note", field="notes")
        if isinstance(value, list | tuple):
            found[name] = [_storable(one) for one in value]
        elif value is not None:
            found[name] = _storable(value)
    return found


def _storable(value: Any) -> Any:
    return clean_text(value, len(value)) if isinstance(value, str) else value


def _end(end: NoteEnd, row: FactRow, draft: EpisodeDraft, now: datetime) -> Row:
    before = row.superseded_invalid_at if row.superseded_by else row.invalid_at
    return {
        "uuid": end.uuid,
        "values": {
            "invalid_at": to_iso(end.at),
            "expired_at": to_iso(now),
            "superseded_by": end.by,
            "superseded_reason": end.reason,
            "superseded_at": to_iso(now),
            "superseded_invalid_at": before,
            "superseded_episode": draft.uuid,
        },
    }


@dataclass(frozen=True, slots=True)
class FoundNote:
    """A note that a search has found.

    Attributes:
        row: The note, as the fact that it is.
        score: Cosine of the vectors, or 0 where words alone have found it.
    """

    row: FactRow
    score: float


@dataclass(frozen=True, slots=True)
class NoteFinder:
    """Finds the notes of a group that are near to texts; what does not hold now is left out."""

    caches: CachePool
    embedders: Embedders
    clock: Clock

    async def near(
        self, group: str, texts: Sequence[str], kinds: Collection[NoteKind], limit: int
    ) -> list[list[FoundNote]]:
        """Return for each text the notes that are nearest to it, nearest first.

        Args:
            group: The group id; where there is none, nothing is found.
            texts: What to look for.
            kinds: Which kinds of notes.
            limit: How many for each text.

        Raises:
            BackendUnavailable: The graph does not answer.
            GralkorError: The embedder's failure.
        """
        known = await self.caches.fresh(group, timeout_ms=READ_MS)
        if known is None or not texts or not known.facts.has_notes:
            return [[] for _ in texts]
        view = View(int(self.clock.now().timestamp() * 1000))
        embedder = self.embedders.fitting(known.space.embedder)
        vectors = None
        if embedder is not None:
            payer = parse_group(group)
            vectors = await embedder.embed(texts, group=payer, stage="notes")

        def only(row: FactRow) -> bool:
            return row.note_kind in kinds and not known.ending(row, view).hides(view)

        found: list[list[FoundNote]] = []
        for number, text in enumerate(texts):
            near: dict[str, FoundNote] = {}
            if vectors is not None and vectors[number].any():
                for row, score in known.facts.similar(vectors[number], limit, 0.0, only):
                    near[row.uuid] = FoundNote(row, 2 * score - 1)
            for row, _ in known.facts.lexical(text, limit * LEXICAL):
                if row.uuid not in near and only(row):
                    near[row.uuid] = FoundNote(row, 0.0)
            found.append(list(near.values())[:limit])
        return found
