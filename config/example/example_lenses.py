"""Kinds in Python, and an ingestion process: what the lens ``decisions`` is made of."""

from __future__ import annotations

import re

from pydantic import BaseModel, Field

from gralkord.lenses import Request, Store
from gralkord.lenses.ontology import define_ontology

_DECIDES = re.compile(r"\b(decided?|agreed?|settled)\b", re.IGNORECASE)


class Person(BaseModel):
    """A human being who decides something, or for whom something is decided."""


class Choice(BaseModel):
    """What was decided: a thing, a date, a place, or a way to do something."""

    final: bool | None = Field(None, description="Whether it was said that it will not change.")


class Chose(BaseModel):
    """The person has decided it, alone or with others."""


kinds = define_ontology(
    entities="open",
    relationships="open",
    types=[Person, Choice],
    relations=[(Person, Chose, Choice)],
)


async def keep_decisions(request: Request, store: Store) -> None:
    """Keep the lines in which somebody decides something, unless just that is known."""
    for line in request.content.splitlines():
        if not _DECIDES.search(line):
            continue
        known = await store.search(line, max_results=3)
        if any(found.text in line for found in known):
            continue
        await store.add(line, f"decisions in a {request.source_description}")
