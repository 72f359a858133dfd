"""Recorded facts: a file that says what the scripted model finds in which text.

::

    {
      "I started at Globex": {
        "entities": ["Ann", {"name": "Globex", "type": "Organization"}],
        "facts": [
          {"subject": "Ann", "relation": "WORKS_AT", "object": "Globex",
           "fact": "Ann works at Globex.", "contradicts": ["Ann works at Acme"]}
        ]
      }
    }

A key is a message or a part of one. The value may also be just the list of facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from gralkord.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


class Recorded(BaseModel):
    """A part of the file: unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RecordedEntity(Recorded):
    """A name that a text holds."""

    name: str = Field(min_length=1)
    type: str | None = Field(None, description="The name of an entity type, if one was asked for.")


class RecordedFact(Recorded):
    """A fact that a text states."""

    subject: str = Field(min_length=1)
    relation: str = Field(min_length=1, description="In SCREAMING_SNAKE_CASE.")
    object: str = Field(min_length=1)
    fact: str = Field(min_length=1, description="The fact as a sentence.")
    valid_at: datetime | None = Field(None, description="Default: the time of the episode.")
    invalid_at: datetime | None = None
    contradicts: tuple[str, ...] = Field((), description="Earlier facts, or parts of their text.")


class Recording(Recorded):
    """What one text holds; the ends of its facts are entities without being named again."""

    entities: tuple[RecordedEntity | str, ...] = ()
    facts: tuple[RecordedFact, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _only_facts(cls, value: Any) -> Any:
        return {"facts": value} if isinstance(value, list) else value

    def named(self) -> dict[str, str | None]:
        """Return each entity's name and its type, if it has one."""
        found: dict[str, str | None] = {}
        for entity in self.entities:
            if isinstance(entity, str):
                found.setdefault(entity, None)
            else:
                found[entity.name] = entity.type
        for fact in self.facts:
            found.setdefault(fact.subject, None)
            found.setdefault(fact.object, None)
        return found


_FILE = TypeAdapter(dict[str, Recording])


@dataclass(frozen=True, slots=True)
class Replay:
    """Texts, or parts of texts, and what they hold."""

    recordings: dict[str, Recording]

    @classmethod
    def empty(cls) -> Self:
        """Return a replay of nothing."""
        return cls({})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a JSON object from text to recording; a bare list is a list of facts.

        Raises:
            ConfigError: The file cannot be read or is not such an object.
        """
        try:
            recordings = _FILE.validate_json(path.read_bytes())
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            place = "".join(f"{part}: " for part in first["loc"])
            raise ConfigError(f"{path}: {place}{first['msg']}") from None
        if "" in recordings:
            raise ConfigError(f"{path}: a text is empty")
        return cls(recordings)

    def within(self, body: str) -> dict[str, Recording]:
        """Return the recordings whose text stands in *body*."""
        return {text: found for text, found in self.recordings.items() if text in body}

    def fact(self, text: str) -> RecordedFact | None:
        """Return the recorded fact with that text."""
        for recording in self.recordings.values():
            for fact in recording.facts:
                if fact.fact == text:
                    return fact
        return None
