"""What all wire models are made of: strict models, ids, texts and moments that can be stored."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

MAX_ID_BYTES: Final = 256
MAX_NAME_BYTES: Final = 256

# Tab, line feed and carriage return are text; every other control character, C1 too, is not.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_ANY_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def _check_encodable(text: str) -> None:
    if match := _SURROGATE.search(text):
        raise ValueError(
            f"lone surrogate U+{ord(match[0]):04X} at character {match.start() + 1}: "
            "not valid Unicode text"
        )


def check_text(text: str) -> str:
    """Return *text* unchanged if it can be stored.

    Raises:
        ValueError: It holds a NUL, a control character or a lone surrogate; the message says where.
    """
    if text.isprintable():  # neither controls nor surrogates are
        return text
    _check_encodable(text)
    if match := _CONTROL.search(text):
        raise ValueError(
            f"control character U+{ord(match[0]):04X} at character {match.start() + 1}: remove it"
        )
    return text


def check_id(text: str) -> str:
    """Return *text* unchanged if it can name an operator, session, lens, agent, speaker or turn.

    Raises:
        ValueError: It is blank, has a control character, or is longer than 256 bytes of UTF-8.
    """
    if text.isascii() and text.isprintable() and len(text) <= MAX_ID_BYTES and text.strip():
        return text
    _check_encodable(text)
    if not text.strip():
        raise ValueError("must not be blank")
    if match := _ANY_CONTROL.search(text):
        raise ValueError(
            f"control character U+{ord(match[0]):04X} at character {match.start() + 1}"
        )
    if (size := len(text.encode())) > MAX_ID_BYTES:
        raise ValueError(f"{size} bytes, the limit is {MAX_ID_BYTES} bytes of UTF-8")
    return text


def parse_time(value: Any) -> Any:
    """Return the moment that an ISO 8601 text names; without a zone it is taken as UTC.

    Raises:
        ValueError: The text is not ISO 8601, or names a moment that UTC cannot hold.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(
                f"{value[:64]!r} is not an ISO 8601 date and time such as 2024-05-01T09:30:00Z"
            ) from None
    if not isinstance(value, datetime):
        raise ValueError("must be an ISO 8601 text such as 2024-05-01T09:30:00Z")  # noqa: TRY004
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC)
    except (OverflowError, ValueError):
        raise ValueError(f"{value.isoformat()} is outside the years 1 to 9999 in UTC") from None


def check_zone(name: str) -> str:
    """Return *name* unchanged if it is a time zone of the IANA's.

    Raises:
        ValueError: There is no such zone.
    """
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not found, not a name, a folder of zones
        raise ValueError(
            f"{name[:64]!r} is not a time zone of the IANA's such as Europe/Berlin"
        ) from None
    return name


Identifier = Annotated[str, AfterValidator(check_id)]
Text = Annotated[str, AfterValidator(check_text)]
Moment = Annotated[datetime, BeforeValidator(parse_time)]
Zone = Annotated[str, AfterValidator(check_zone)]


class Wire(BaseModel):
    """Base of what comes over the wire: unknown fields are refused, nothing is coerced silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False)
