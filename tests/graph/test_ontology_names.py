"""What an ontology may say, held against the graph that it is written to."""

from __future__ import annotations

from gralkord.graph import schema, statement
from gralkord.graph.library import EntityEdge, EntityNode
from gralkord.lenses.ontology import extraction_arguments, parse_ontology
from gralkord.lenses.ontology.reserved import (
    PROTECTED_ENTITY_FIELDS,
    PROTECTED_RELATIONSHIP_FIELDS,
    RESERVED_KINDS,
)
from gralkord.models import row_properties

ADD = "to be added in gralkord/lenses/ontology/reserved.py"
TOML = """
entities = "strict"
relationships = "scoped"

[entity.Person]
description = "A human being who is named."
fields.age = { type = "integer", doc = "In years." }

[from.Person.knows]
to = "Person"
"""


def test_no_field_is_a_property_that_the_graph_has():
    """Graphiti's own, those that are left out of what a model names, and those that are read."""
    entity = set(EntityNode.model_fields) | statement._OURS | set(row_properties._KNOWN["entity"])
    assert not entity - PROTECTED_ENTITY_FIELDS, ADD
    fact = set(EntityEdge.model_fields) | statement._OURS | set(row_properties._KNOWN["fact"])
    assert not fact - PROTECTED_RELATIONSHIP_FIELDS, ADD


def test_no_kind_is_a_label_that_the_graph_has():
    """Each label with an index is reserved."""
    assert {label for label, _ in schema.NODE_INDICES} <= RESERVED_KINDS


def test_graphiti_accepts_what_it_is_told():
    """Its own checks pass."""
    from graphiti_core.helpers import validate_excluded_entity_types, validate_node_labels
    from graphiti_core.utils.ontology_utils.entity_types_utils import validate_entity_types

    ontology = parse_ontology(TOML, "kinds.toml")
    told = extraction_arguments(ontology)
    assert validate_entity_types(told["entity_types"])
    assert validate_excluded_entity_types(told["excluded_entity_types"], told["entity_types"])
    assert validate_node_labels(list(ontology.labels))
