"""Ontologies written in Python: pydantic classes, whose docstrings say when to extract."""

from __future__ import annotations

import inspect
import types
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gralkord.lenses.ontology.checks import build
from gralkord.lenses.ontology.declared import (
    Declaration,
    DeclaredEntity,
    DeclaredField,
    DeclaredRelation,
)
from gralkord.lenses.ontology.model import EntityMode, Ontology, RelationshipMode

Kind: TypeAlias = type[BaseModel] | str
Relation: TypeAlias = tuple[Kind, Kind, Kind | Sequence[Kind]]

_TYPES: Final = {str: "string", int: "integer", float: "float", bool: "boolean"}
_VALIDATORS: Final = ("field_validators", "model_validators", "validators", "root_validators")


def define_ontology(
    *,
    entities: EntityMode,
    relationships: RelationshipMode,
    types: Sequence[type[BaseModel]] = (),
    relations: Sequence[Relation] = (),
) -> Ontology:
    """Return an ontology of pydantic classes.

    Args:
        entities: ``strict`` takes no entity of another kind, ``open`` takes any.
        relationships: ``scoped`` keeps a relationship to the entities it is declared for, ``open``
            lets it stand between any.
        types: The kinds of entities. The docstring of a class says when something is one. A field
            is of type ``str``, ``int``, ``float`` or ``bool``; ``| None = None`` makes it optional;
            ``Field(description=…)`` says what it means.
        relations: ``(Person, "prefers", Drink)``: from which entity, the verb, and to which, or a
            list of them; entities are classes or their names. A class as the verb gives the
            relationship a description and fields, and its name: ``WorksAt`` is ``WORKS_AT``.

    Raises:
        ConfigError: Something is wrong with it; the message has all faults, each with its place.
    """
    declaration = Declaration(_caller(), entities, relationships)
    for number, kind in enumerate(types):
        if not _is_model(kind):
            declaration.fault(f"types[{number}]", f"must be a pydantic class, not {kind!r:.64}")
            continue
        fields = _fields(declaration, kind)
        entity = DeclaredEntity(kind.__qualname__, kind.__name__, _docstring(kind), fields)
        declaration.entity_types.append(entity)
    for number, relation in enumerate(relations):
        _relate(declaration, f"relations[{number}]", relation)
    return build(declaration)


def _caller() -> str:
    """Return the file that defines the ontology."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    return frame.f_code.co_filename if frame else "ontology"


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _relate(declaration: Declaration, place: str, relation: Any) -> None:
    if not isinstance(relation, tuple) or len(relation) != 3:
        declaration.fault(place, "must be a source, a verb and a target")
        return
    source, verb, to = relation
    targets = list(to) if isinstance(to, list | tuple) else [to]
    for one in (source, verb, *targets):
        if not isinstance(one, str) and not _is_model(one):
            declaration.fault(place, f"must be pydantic classes or names, not {one!r:.64}")
            return
    names = [_name(one) for one in targets]
    at = f"{place} ({_name(source)} {_name(verb)} {', '.join(names)})"
    described = None if isinstance(verb, str) else _docstring(verb)
    fields = () if isinstance(verb, str) else _fields(declaration, verb)
    declaration.relations.append(
        DeclaredRelation(at, _name(source), _name(verb), names, described, fields)
    )


def _name(kind: Kind) -> str:
    return kind if isinstance(kind, str) else kind.__name__


def _docstring(kind: type[BaseModel]) -> str | None:
    """Return the docstring of the class itself; what it is derived from is another kind."""
    written = vars(kind).get("__doc__")
    return inspect.cleandoc(written) if isinstance(written, str) else None


def _fields(declaration: Declaration, kind: type[BaseModel]) -> tuple[DeclaredField, ...]:
    decorators = kind.__pydantic_decorators__
    if any(getattr(decorators, name, None) for name in _VALIDATORS):
        declaration.fault(kind.__qualname__, f"validators are not supported: {_WHY}")
    return tuple(
        _field(declaration, f"{kind.__qualname__}.{name}", name, info)
        for name, info in kind.model_fields.items()
    )


_WHY: Final = "an answer of the model that fails one would fail the episode; say it in words"


def _field(declaration: Declaration, place: str, name: str, info: FieldInfo) -> DeclaredField:
    if info.metadata:
        declaration.fault(place, f"constraints are not supported: {_WHY}")
    if info.alias or info.validation_alias or info.serialization_alias:
        declaration.fault(place, "aliases are not supported")
    if not info.is_required() and (info.default is not None or info.default_factory):
        declaration.fault(place, "has no default but None: what was not said is not known")
    kind, optional = _plain_type(info.annotation)
    required = info.is_required() and not optional
    return DeclaredField(
        place, name, _TYPES.get(kind, _type_name(kind)), required, info.description
    )


def _plain_type(annotation: Any) -> tuple[Any, bool]:
    """Return the type of a field, and whether it may be none."""
    if get_origin(annotation) in {Union, types.UnionType}:
        others = [one for one in get_args(annotation) if one is not type(None)]
        if len(others) == 1 and len(others) < len(get_args(annotation)):
            return others[0], True
    return annotation, False


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
