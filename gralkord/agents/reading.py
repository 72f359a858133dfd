"""Reading what frameworks hand over: mappings, or objects with the same names, alike."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from gralkord.errors import InvalidInput
from gralkord.models import check_id

# What frameworks call those who have no name. A human may be called Ai, so that is one for agents.
_NO_USER_NAMES: Final = frozenset({"user", "human"})
_NO_AGENT_NAMES: Final = frozenset({"assistant", "ai", "agent", "model", "bot"})
_TEXT_BLOCKS: Final = frozenset({"text", "input_text", "output_text", "summary_text"})


def look(thing: Any, name: str) -> Any:
    """Return what *thing* has under that key or attribute, or nothing."""
    if isinstance(thing, Mapping):
        return thing.get(name)
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001 - a property of a foreign object may fail in any way
        return None


def look_text(thing: Any, name: str) -> str:
    """Return the text that *thing* has under that name, or an empty one."""
    value = look(thing, name)
    return value if isinstance(value, str) else ""


def text_at(thing: Any, name: str, place: str) -> str:
    """Return the text that *thing* has under that name; none is an empty one.

    Raises:
        InvalidInput: It is there, and no text.
    """
    value = look(thing, name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInput(f"{place}.{name}: must be a text", field=f"{place}.{name}")
    return value


def list_at(thing: Any, name: str, place: str) -> list[Any]:
    """Return the list that *thing* has under that name; none is an empty one.

    Raises:
        InvalidInput: It is there, and no list.
    """
    value = look(thing, name)
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"{place}.{name}: must be a list", field=f"{place}.{name}")
    return list(value)


def blocks_at(thing: Any, name: str, place: str) -> list[Any]:
    """Return the content blocks under that name; a bare text is one block.

    Raises:
        InvalidInput: It is neither a text nor a list.
    """
    value = look(thing, name)
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if value is None or isinstance(value, list | tuple):
        return list(value or ())
    raise InvalidInput(
        f"{place}.{name}: must be a text or a list of blocks", field=f"{place}.{name}"
    )


def block_kind(block: Any) -> str:
    """Return the type that a block names; a bare text is of the type ``text``."""
    return "text" if isinstance(block, str) else look_text(block, "type")


def block_text(block: Any) -> str:
    """Return the words of a text block; of any other block nothing."""
    if isinstance(block, str):
        return block
    if block_kind(block) not in _TEXT_BLOCKS:
        return ""
    text = look(block, "text")
    return text if isinstance(text, str) else look_text(text, "value")


def join_texts(blocks: Iterable[Any]) -> str:
    """Return the words of all text blocks.

    Blocks with citations are pieces of one sentence, others stand on lines of their own.
    """
    blocks = list(blocks)
    cited = any(look(block, "citations") for block in blocks)
    return ("" if cited else "\n").join(filter(None, map(block_text, blocks)))


def speaker_of(thing: Any, place: str, name: str, *, agent: bool = False) -> str | None:
    """Return who speaks, or nothing if no name is given or it is only a role's.

    Args:
        thing: A message.
        place: Where it stands, for errors.
        name: Under which name it says who speaks.
        agent: It is one of an agent, not of a human.

    Raises:
        InvalidInput: The name cannot be one, for instance because it is too long.
    """
    return check_speaker(text_at(thing, name, place), f"{place}.{name}", agent=agent)


def check_speaker(value: Any, place: str, *, agent: bool = False) -> str | None:
    """Return *value* if it names somebody, or nothing if it is blank or only a role's name.

    Raises:
        InvalidInput: It cannot be a name.
    """
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{place}: must be a text", field=place)
    found = (value or "").strip()
    if not found or found.casefold() in (_NO_AGENT_NAMES if agent else _NO_USER_NAMES):
        return None
    try:
        return check_id(found)
    except ValueError as error:
        raise InvalidInput(f"{place}: {error}", field=place) from None


def read_json(text: Any) -> Any:
    """Return what *text* says as JSON, or itself if it is none."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def show(value: Any) -> str:
    """Return *value* for a reader: a text as it is, an exception's message, data as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, BaseException):
        message = _str(value)
        return f"{type(value).__name__}: {message}" if message else type(value).__name__
    try:
        return json.dumps(value, ensure_ascii=False, skipkeys=True, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"


def opened(value: Any) -> Any:
    """Return the fields of a dataclass or a pydantic object as a mapping; all else as it is."""
    if isinstance(value, type):
        return value
    if is_dataclass(value):
        return {field.name: look(value, field.name) for field in fields(value)}
    dump = look(value, "model_dump")
    if not callable(dump):
        return value
    try:
        return dump(exclude_none=True)
    except Exception:  # noqa: BLE001 - a method of a foreign object may fail in any way
        return f"<{type(value).__name__}>"


def _plain(value: Any) -> Any:
    """Return *value* as something that JSON has."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    found = opened(value)
    return _str(value) if found is value else found


def _str(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - so may what makes a text of it
        return f"<{type(value).__name__}>"
