"""Names that an ontology cannot use, because the graph has them already."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

# Labels of nodes: Graphiti's, then gralkord's.
RESERVED_KINDS: Final = frozenset(
    {"Entity", "Episodic", "Community", "Saga", "Meta", "Passage", "Origin"}
)
# gralkord's own entity type; an ontology may have one of its own in its place.
LEARNING: Final = "Learning"
# What facts are called whose type is not known.
UNTYPED: Final = "RELATES_TO"

_COMMON: Final = frozenset(
    {
        *("uuid", "name", "group_id", "created_at", "attributes", "labels"),
        *("name_embedding", "fact_embedding", "seq", "vector", "vector_next", "unembedded"),
        *("source", "offset", "confidence", "handles", "told_in", "undone", "replaced_by"),
        *("withdrawn_at", "withdrawn_until", "withdrawn_reason"),
        *("superseded_at", "superseded_by", "superseded_reason", "superseded_episode"),
        *("superseded_invalid_at", "note_kind"),
    }
)
PROTECTED_ENTITY_FIELDS: Final = _COMMON | {"summary"}
PROTECTED_RELATIONSHIP_FIELDS: Final = _COMMON | {
    *("source_node_uuid", "target_node_uuid", "fact", "episodes"),
    *("expired_at", "valid_at", "invalid_at", "reference_time"),
}
# The fields become those of a pydantic class, which has these names for itself.
PYDANTIC_NAMES: Final = frozenset(name for name in dir(BaseModel) if not name.startswith("_"))
