"""What all parts of the settings are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, field_validator

# What is said to be unlimited by a larger number would not fit where it goes.
MOST_MB: Final = 1_048_576
MOST_WAITING: Final = 1_000_000_000


def _not_blank(value: Any) -> Any:
    """Refuse a blank text: as a path it would be the current directory."""
    if isinstance(value, str) and not value.strip():
        raise ValueError("must not be blank")
    return value


def several(value: Any) -> Any:
    """Read a list that stands in one variable of the environment, parted by blanks."""
    return value.split() if isinstance(value, str) else value


Place = Annotated[Path, BeforeValidator(_not_blank)]
Host = Annotated[str, BeforeValidator(_not_blank)]


class Section(BaseModel):
    """A part of the settings: frozen, and strict about names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse ``true`` where a number is meant, which would be 1."""
        field = cls.model_fields[info.field_name] if info.field_name else None
        if isinstance(value, bool) and field is not None and field.annotation is not bool:
            raise ValueError("must not be true or false")
        return value
