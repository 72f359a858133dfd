"""What an ontology may say, held against the graph that it is written to."""

from __future__ import annotations

from datetime import UTC, datetime

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


def test_a_scoped_relationship_elsewhere_is_no_longer_of_its_type():
    """Graphiti keeps it between the entities it is declared for, and renames it between others."""
    from graphiti_core.utils.maintenance import edge_operations

    told = extraction_arguments(parse_ontology(TOML, "kinds.toml"))
    now = datetime.now(UTC)
    nodes = {
        name: EntityNode(name=name, group_id="g", labels=["Entity", *labels], created_at=now)
        for name, labels in {"Ann": ["Person"], "Bo": ["Person"], "rain": []}.items()
    }
    by_uuid = {node.uuid: node for node in nodes.values()}
    facts = [
        EntityEdge(
            name="KNOWS",
            fact=f"Ann knows {target}",
            group_id="g",
            source_node_uuid=nodes["Ann"].uuid,
            target_node_uuid=nodes[target].uuid,
            created_at=now,
        )
        for target in ("Bo", "rain")
    ]
    types = [
        edge_operations._edge_types_for_endpoints(
            fact, by_uuid, told["edge_types"], told["edge_type_map"]
        )
        for fact in facts
    ]
    assert [list(found) for found in types] == [["KNOWS"], []]
    edge_operations.enforce_edge_type_signatures(facts, types, told["edge_type_map"], False)
    assert [fact.name for fact in facts] == ["KNOWS", "RELATES_TO"]


def test_a_strict_ontology_leaves_the_model_no_other_kind():
    """The prompt lists the declared kinds only, with their descriptions."""
    from graphiti_core.utils.maintenance import node_operations

    told = extraction_arguments(parse_ontology(TOML, "kinds.toml"))
    context = node_operations._filter_entity_types_context(
        node_operations._build_entity_types_context(told["entity_types"]),
        told["excluded_entity_types"],
    )
    assert [(kind["entity_type_name"], kind["entity_type_description"]) for kind in context] == [
        ("Person", "A human being who is named.")
    ]
