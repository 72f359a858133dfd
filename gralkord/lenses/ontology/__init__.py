"""Ontologies: which kinds of entities and relationships a lens looks for."""

from gralkord.lenses.ontology.arguments import extraction_arguments
from gralkord.lenses.ontology.load import load_ontology
from gralkord.lenses.ontology.model import (
    EntityMode,
    EntityType,
    FieldType,
    Ontology,
    OntologyField,
    RelationshipMode,
    RelationshipType,
)
from gralkord.lenses.ontology.python_form import Relation, define_ontology
from gralkord.lenses.ontology.toml_form import parse_ontology, read_ontology

__all__ = [
    "EntityMode",
    "EntityType",
    "FieldType",
    "Ontology",
    "OntologyField",
    "Relation",
    "RelationshipMode",
    "RelationshipType",
    "define_ontology",
    "extraction_arguments",
    "load_ontology",
    "parse_ontology",
    "read_ontology",
]
