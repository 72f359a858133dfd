"""Ontologies: two forms of the same, checked as a whole, and what Graphiti is told of them."""

from __future__ import annotations

import sys
from textwrap import dedent
from typing import Annotated, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError, field_validator

from gralkord.errors import ConfigError, GralkorError
from gralkord.lenses.ontology import (
    EntityType,
    Ontology,
    OntologyField,
    RelationshipType,
    define_ontology,
    extraction_arguments,
    load_ontology,
    parse_ontology,
    read_ontology,
)

TOML = """
entities = "strict"
relationships = "scoped"

[entity.Person]
description = "A human being who is named."
fields.age = { type = "integer", doc = "In years." }

[entity.Team]
description = "People who work together."

[entity.Drink]
description = "Something to drink."
fields.kind = { type = "string", required = true, doc = "Tea, coffee, …" }
fields.hot = { type = "boolean", doc = "Whether it is drunk hot." }

[from.Person.prefers]
to = "Drink"
description = "The person says what they like."
fields.strength = { type = "float", doc = "From 0 to 1." }

[from.Team.prefers]
to = ["Drink", "Person"]
description = "The team has agreed on it."
fields.strength = { type = "float" }

[from.Person."works at"]
to = "Team"
description = "They are one of them."
"""


class Person(BaseModel):
    """A human being who is named."""

    age: int | None = Field(None, description="In years.")


class Team(BaseModel):
    """People who work together."""


class Drink(BaseModel):
    """Something to drink."""

    kind: str = Field(description="Tea, coffee, …")
    hot: Optional[bool] = Field(None, description="Whether it is drunk hot.")  # noqa: UP045


class Prefers(BaseModel):
    """The person says what they like."""

    strength: float | None = Field(None, description="From 0 to 1.")


class TeamPrefers(BaseModel):
    """The team has agreed on it."""

    strength: float | None = None


class WorksAt(BaseModel):
    """They are one of them."""


TeamPrefers.__name__ = "prefers"


def python_form(**changes):
    return define_ontology(
        **{
            "entities": "strict",
            "relationships": "scoped",
            "types": [Person, Team, Drink],
            "relations": [
                (Person, Prefers, Drink),
                (Team, TeamPrefers, [Drink, "Person"]),
                ("Person", WorksAt, Team),
            ],
        }
        | changes
    )


def parsed(text):
    return parse_ontology(dedent(text), "kinds.toml")


def faults(text):
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    assert caught.value.field == "ontology"
    return caught.value.message


def open_toml(rest):
    return f'entities = "open"\nrelationships = "open"\n{dedent(rest)}'


def test_both_forms_are_the_same_ontology():
    """The same verb of several sources is one type with several pairs, whatever the form."""
    expected = Ontology(
        "strict",
        "scoped",
        (
            EntityType(
                "Person",
                "A human being who is named.",
                (OntologyField("age", "integer", doc="In years."),),
            ),
            EntityType("Team", "People who work together."),
            EntityType(
                "Drink",
                "Something to drink.",
                (
                    OntologyField("kind", "string", required=True, doc="Tea, coffee, …"),
                    OntologyField("hot", "boolean", doc="Whether it is drunk hot."),
                ),
            ),
        ),
        (
            RelationshipType(
                "PREFERS",
                (("Person", "Drink"), ("Team", "Drink"), ("Team", "Person")),
                "The person says what they like.\nThe team has agreed on it.",
                (OntologyField("strength", "float", doc="From 0 to 1."),),
            ),
            RelationshipType("WORKS_AT", (("Person", "Team"),), "They are one of them."),
        ),
    )
    toml, python = parsed(TOML), python_form()
    assert toml == expected
    assert python == expected
    assert toml.warnings == python.warnings == ()
    assert toml.labels == ("Person", "Team", "Drink")
    assert python.to_dict()["relationship_types"][1]["name"] == "WORKS_AT"


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        ("prefers", "PREFERS"),
        ("PREFERS", "PREFERS"),
        ("works_at", "WORKS_AT"),
        ("works at", "WORKS_AT"),
        ("is-part-of", "IS_PART_OF"),
        ("worksAt", "WORKS_AT"),
        ("Prefers", "PREFERS"),
    ],
)
def test_a_verb_is_written_in_capitals(verb, name):
    """As Graphiti's model writes the types of facts."""
    found = python_form(relations=[(Person, verb, Drink)])
    assert [kind.name for kind in found.relationship_types] == [name]


def test_graphiti_is_told_of_types_pairs_and_what_is_excluded():
    """Descriptions are docstrings, docs are those of the fields, optional ones may be left out."""
    told = extraction_arguments(parsed(TOML))
    assert set(told) == {"entity_types", "excluded_entity_types", "edge_types", "edge_type_map"}
    assert list(told["entity_types"]) == ["Person", "Team", "Drink"]
    drink = told["entity_types"]["Drink"]
    assert drink.__doc__ == "Something to drink."
    assert drink.__name__ == "Drink"
    assert drink.model_fields["kind"].description == "Tea, coffee, …"
    assert drink(kind="tea").model_dump() == {"kind": "tea", "hot": None}
    with pytest.raises(ValidationError):
        drink(hot=True)
    assert told["excluded_entity_types"] == ["Entity"]
    assert told["edge_types"]["PREFERS"](strength=0.5).strength == 0.5
    assert told["edge_type_map"] == {
        ("Person", "Drink"): ["PREFERS"],
        ("Team", "Drink"): ["PREFERS"],
        ("Team", "Person"): ["PREFERS"],
        ("Person", "Team"): ["WORKS_AT"],
    }


def test_graphiti_is_told_nothing_that_is_empty():
    """An open ontology without types changes nothing, an open relationship has no pairs."""
    nothing = define_ontology(entities="open", relationships="open")
    assert extraction_arguments(nothing) == {}
    told = extraction_arguments(python_form(entities="open", relationships="open"))
    assert set(told) == {"entity_types", "edge_types"}
    told = extraction_arguments(python_form(relationships="scoped", relations=[]))
    assert set(told) == {"entity_types", "excluded_entity_types"}


def test_the_classes_are_made_once():
    """What one caller changes in the arguments, another does not see."""
    first = extraction_arguments(python_form())
    first["entity_types"].clear()
    again, other_form = extraction_arguments(python_form()), extraction_arguments(python_form())
    assert again["entity_types"]["Person"] is other_form["entity_types"]["Person"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('relationships = "open"', "kinds.toml: entities: must be given, strict or open"),
        ('entities = "open"', "kinds.toml: relationships: must be given, scoped or open"),
        (
            'entities = "closed"\nrelationships = "open"',
            "entities: must be strict or open, not 'closed'",
        ),
        ('entities = "open"\nrelationships = 1', "relationships: must be scoped or open, not 1"),
        ('entities = "strict"\nrelationships = "open"', "no entity is declared"),
        (
            open_toml("entiti = 1"),
            "entiti: no such key; there are entities, relationships, entity, from",
        ),
        (open_toml("entity = 1"), "entity: must be a table"),
        (open_toml("entity.A = 1"), "entity.A: must be a table"),
        (
            open_toml("[entity.A]\ndoc = 'x'"),
            "entity.A.doc: no such key; there are description, fields",
        ),
        (open_toml("[entity.A]\ndescription = 1"), "entity.A: description must be a text, not 1"),
        (
            open_toml('[entity.A]\ndescription = "\\u0007"'),
            "entity.A: description: control character",
        ),
        (open_toml("[entity.A]\n[entity.A]"), "kinds.toml is not TOML: Cannot declare"),
        (open_toml("[entity.A]\n[entity.a]"), "entity.a: declared twice, first as entity.A"),
        (open_toml("[entity.'my kind']"), "entity.my kind: 'my kind' is no name of an entity"),
        (open_toml("[entity.entity]"), "entity.entity: the graph has a kind 'entity' of its own"),
        (open_toml("[entity.Passage]"), "the graph has a kind 'Passage'"),
        (open_toml("[entity.A]\nfields.x = 'string'"), "entity.A.fields.x: must be a table"),
        (
            open_toml("[entity.A]\nfields.x = {}"),
            "entity.A.fields.x: the type must be string, integer",
        ),
        (open_toml("[entity.A]\nfields.x = {type = 'date'}"), "float, boolean, not 'date'"),
        (
            open_toml("[entity.A]\nfields.x = {type = 'string', required = 'yes'}"),
            "entity.A.fields.x: required must be true or false, not 'yes'",
        ),
        (open_toml("[entity.A]\nfields.x = {type = 'string', doc = 1}"), "doc must be a text"),
        (
            open_toml("[entity.A]\nfields.x = {type = 'string', len = 1}"),
            "fields.x.len: no such key",
        ),
        (open_toml("[entity.A]\nfields._x = {type = 'string'}"), "'_x' is no name of a field"),
        (
            open_toml("[entity.A]\nfields.Summary = {type = 'string'}"),
            "entity.A.fields.Summary: the graph has a property 'summary' of its own",
        ),
        (
            open_toml("[entity.A]\nfields.json = {type = 'string'}"),
            "pydantic has 'json' for itself",
        ),
        (
            open_toml("[entity.A]\nfields.x = {type = 'string'}\nfields.X = {type = 'string'}"),
            "entity.A.fields.X: declared twice, first as entity.A.fields.x",
        ),
        (open_toml("[entity.A]\n[from.A.likes]"), "from.A.likes: leads to no entity"),
        (open_toml("[entity.A]\n[from.A.likes]\nto = 1"), "from.A.likes.to: must be the name"),
        (
            open_toml("[entity.A]\n[from.A.likes]\nto = 'B'"),
            "from.A.likes: no entity is called 'B' (declared: A)",
        ),
        (
            open_toml("[entity.A]\n[from.B.likes]\nto = 'A'"),
            "from.B.likes: no entity is called 'B'",
        ),
        (open_toml("[entity.A]\n[from.A.'1st']\nto = 'A'"), "from.A.1st: '1st' is no verb"),
        (
            open_toml("[entity.A]\n[from.A.likes]\nto = ['A', 'A']"),
            "from.A.likes: from A to A is declared twice",
        ),
        (
            open_toml("[entity.A]\n[from.A.likes]\nto = 'A'\n[from.A.LIKES]\nto = 'A'"),
            "from.A.LIKES: from A to A is declared twice, first as from.A.likes",
        ),
        (
            open_toml(
                """
                [entity.A]
                [entity.B]
                [from.A.likes]
                to = "B"
                fields.much = { type = "integer" }
                [from.B.likes]
                to = "A"
                fields.much = { type = "float" }
                """
            ),
            "from.B.likes: has other fields than from.A.likes",
        ),
        (
            open_toml("[entity.A]\n[from.A.likes]\nto = 'A'\nfields.valid_at = {type = 'string'}"),
            "from.A.likes.fields.valid_at: the graph has a property",
        ),
        ("entities =", "kinds.toml is not TOML: Invalid value (at end of document)"),
        ("x = " + "[" * 10_000, "kinds.toml is nested too deeply"),
    ],
)
def test_a_fault_is_named_with_its_place(text, says):
    """Everything is checked when the file is loaded, not when the first episode is written."""
    assert says in faults(text)


def test_all_faults_are_told_at_once():
    """One look at the message is enough."""
    message = faults(
        "relationships = 'open'\n[entity.Meta]\n[entity.A]\nfields.uuid = {type = 'x'}"
    )
    assert message.splitlines() == [
        "kinds.toml: 4 faults",
        "  entities: must be given, strict or open",
        "  entity.Meta: the graph has a kind 'Meta' of its own",
        "  entity.A.fields.uuid: the graph has a property 'uuid' of its own: take another name",
        "  entity.A.fields.uuid: the type must be string, integer, float, boolean, not 'x'",
    ]


def test_limits_are_told():
    """All of an ontology is read by the model for each episode."""
    fields = "".join(f"fields.x{n} = {{ type = 'string' }}\n" for n in range(51))
    assert "entity.A: 51 fields, the limit is 50" in faults(open_toml("[entity.A]\n") + fields)
    kinds = "".join(f"[entity.A{n}]\n" for n in range(101))
    assert "entities: 101 types, the limit is 100" in faults(open_toml("") + kinds)
    assert "2001 characters, the limit is 2000" in faults(
        open_toml(f"[entity.A]\ndescription = '{'x' * 2001}'")
    )
    assert "is no name of an entity" in faults(open_toml(f"[entity.{'A' * 65}]"))


def test_what_is_missing_and_allowed_is_a_warning():
    """The model reads descriptions, so without them it guesses."""
    found = parsed(
        """
        entities = "open"
        relationships = "open"
        [entity.Learning]
        fields.x = { type = "string" }
        [from.Learning.relates_to]
        to = "Learning"
        fields.y = { type = "string" }
        """
    )
    assert found.warnings == (
        "entity.Learning: takes the place of gralkord's own Learning",
        "entity.Learning: has no description, so it will seldom be found",
        "entity.Learning.fields.x: has no doc, so the model has to guess what it means",
        "from.Learning.relates_to: facts whose type is not known are called RELATES_TO, too",
        "from.Learning.relates_to: has no description, so it will seldom be found",
        "from.Learning.relates_to.fields.y: has no doc, so the model has to guess what it means",
    )
    bare = parsed('entities = "open"\nrelationships = "scoped"')
    assert bare.warnings == ("relationships: scoped, and no relationship is declared",)


class Aged(BaseModel):
    """A kind with a fault in each field."""

    uuid: str
    age: int = 7
    size: float | None = Field(None, ge=0)
    tags: list[str]
    odd: str | int
    nick: str | None = Field(None, alias="nickname")
    made: Annotated[str | None, Field(default_factory=str)]

    @field_validator("uuid")
    @classmethod
    def _check(cls, value):
        return value


def test_faults_of_classes_are_named():
    """With the file, the class and the field."""
    with pytest.raises(ConfigError) as caught:
        python_form(types=[Aged, 7, dict], relations=[])
    message = caught.value.message
    assert message.startswith(f"{__file__}: ")
    for fault in (
        "Aged.uuid: the graph has a property 'uuid' of its own",
        "Aged.age: has no default but None",
        "Aged.size: constraints are not supported",
        "Aged.tags: the type must be string, integer, float, boolean, not 'list[str]'",
        "Aged.odd: the type must be",
        "Aged.nick: aliases are not supported",
        "Aged.made: has no default but None",
        "Aged: validators are not supported",
        "types[1]: must be a pydantic class, not 7",
        "types[2]: must be a pydantic class, not <class 'dict'>",
    ):
        assert fault in message


@pytest.mark.parametrize(
    ("relation", "says"),
    [
        ((Person, "likes"), "relations[0]: must be a source, a verb and a target"),
        ((Person, 7, Drink), "relations[0]: must be pydantic classes or names, not 7"),
        ((Person, "likes", "Beer"), "relations[0] (Person likes Beer): no entity is called 'Beer'"),
        ((Person, "likes", []), "relations[0] (Person likes ): leads to no entity"),
        ((Person, Aged, Drink), "Aged.uuid: the graph has a property"),
    ],
)
def test_faults_of_relations_are_named(relation, says):
    """By their number, and by what they say."""
    with pytest.raises(ConfigError) as caught:
        python_form(relations=[relation])
    assert says in caught.value.message


def test_a_derived_class_is_a_kind_of_its_own():
    """It has the fields of what it is derived from, and needs a docstring of its own."""

    class Child(Person):
        toy: str | None = Field(None, description="What they play with.")

    found = python_form(types=[Person, Child], relations=[])
    assert [field.name for field in found.entity_types[1].fields] == ["age", "toy"]
    (warning,) = [text for text in found.warnings if "description" in text]
    assert "Child: has no description" in warning


def test_two_classes_of_one_name_are_refused():
    """Their label would be the same."""
    twin = type("Person", (BaseModel,), {"__module__": __name__, "__doc__": "Another."})
    with pytest.raises(ConfigError, match="Person: declared twice"):
        python_form(types=[Person, twin], relations=[])


def test_a_setting_names_a_file_or_an_object(tmp_path, monkeypatch):
    """A file of a folder, or a name of a module that can be imported."""
    (tmp_path / "kinds.toml").write_text(TOML, encoding="utf-8")
    assert load_ontology("kinds.toml", tmp_path) == read_ontology(tmp_path / "kinds.toml")
    (tmp_path / "kinds_of_tests.py").write_text(
        "from gralkord.lenses.ontology import define_ontology\n"
        "mine = define_ontology(entities='open', relationships='open')\n"
        "other = 7\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = load_ontology("kinds_of_tests:mine")
    assert found == Ontology("open", "open")
    assert found.origin == f"kinds_of_tests:mine ({tmp_path / 'kinds_of_tests.py'})"
    for reference, says in {
        "kinds_of_tests:none": "has no such name",
        "kinds_of_tests:other": "other is no ontology",
        "kinds_of_tests": "neither a .toml file nor package.module:name",
        "no_such_module_of_tests:x": "cannot import no_such_module_of_tests: ModuleNotFoundError",
        "none.toml": "No such file",
    }.items():
        with pytest.raises(ConfigError, match=says):
            load_ontology(reference, tmp_path)
    sys.modules.pop("kinds_of_tests")


def test_a_module_that_fails_names_the_setting(tmp_path, monkeypatch):
    """So does one whose ontology has faults."""
    (tmp_path / "failing_of_tests.py").write_text("1 / 0\n")
    (tmp_path / "faulty_of_tests.py").write_text(
        "from gralkord.lenses.ontology import define_ontology\n"
        "mine = define_ontology(entities='all', relationships='open')\n"
    )
    (tmp_path / "moderate_of_tests.py").write_text(
        "from gralkord.lenses.ontology import define_ontology\n"
        "mine = define_ontology(entities='open')\n"
    )
    (tmp_path / "latin.toml").write_bytes("ä = 1".encode("latin-1"))
    monkeypatch.syspath_prepend(tmp_path)
    for reference, says in {
        "failing_of_tests:x": "failing_of_tests:x: cannot import failing_of_tests: ZeroDivisionError",
        "faulty_of_tests:mine": r"faulty_of_tests:mine: .*faulty_of_tests.py: entities: must be",
        "moderate_of_tests:mine": "TypeError: .*'relationships'",
        "latin.toml": "is not UTF-8",
    }.items():
        with pytest.raises(ConfigError, match=says):
            load_ontology(reference, tmp_path)


WORDS = st.sampled_from(
    [
        "entities",
        "entity",
        "from",
        "Person",
        "A",
        "to",
        "fields",
        "type",
        "doc",
        "required",
        "uuid",
        "strict",
        "open",
        "x",
    ]
)
VALUES = st.recursive(
    WORDS | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=40, deadline=None)
@given(tree=st.dictionaries(WORDS | st.text(max_size=5), VALUES, max_size=5))
def test_any_file_is_an_ontology_or_an_error(tree):
    """Nothing but an error of ours is raised."""
    try:
        found = parse_ontology(_toml(tree), "kinds.toml")
    except GralkorError:
        return
    extraction_arguments(found)


def _toml(value, *, top=True):
    if isinstance(value, dict):
        pairs = [f"{_toml(name)} = {_toml(one, top=False)}" for name, one in value.items()]
        return "\n".join(pairs) if top else "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(one, top=False) for one in value) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(sign):08x}" for sign in value) + '"'
    return str(value).lower()
