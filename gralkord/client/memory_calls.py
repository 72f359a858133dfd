"""Single memories and sources: what is asked of the daemon, as pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from gralkord.client.calls import Call, reader
from gralkord.errors import InvalidInput
from gralkord.models.memories import (
    ChangeResult,
    HistoryQuery,
    InvalidateRequest,
    MemoryHistory,
    MemoryQuery,
    ReactivateRequest,
    StoredMemory,
    UndoRequest,
)
from gralkord.models.sources import SourceContent, SourcePage, SourceQuery, SourcesQuery
from gralkord.wire import read_model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel

_CHANGE: Final = reader(ChangeResult)
_HISTORY: Final = reader(MemoryHistory)


def show(operator: str, memory: str) -> Call[StoredMemory]:
    """Return the call that shows one memory.

    Raises:
        InvalidInput: A name is not acceptable.
    """
    return Call("GET", _path(memory, MemoryQuery, operator=operator), reader(StoredMemory))


def history(operator: str, memory: str, *, text: bool) -> Call[MemoryHistory]:
    """Return the call that asks for the history of one memory.

    Raises:
        InvalidInput: A name is not acceptable.
    """
    path = _path(memory, HistoryQuery, "/history", operator=operator, text=text)
    return Call("GET", path, _HISTORY)


def invalidate(ids: Iterable[str], **wanted: Any) -> Call[ChangeResult]:
    """Return the call that says that memories do not hold any more.

    Raises:
        InvalidInput: A field is not acceptable.
    """
    return Call("POST", "/v1/memories/invalidate", _CHANGE, _body(InvalidateRequest, ids, wanted))


def reactivate(ids: Iterable[str], **wanted: Any) -> Call[ChangeResult]:
    """Return the call that says that memories hold after all.

    Raises:
        InvalidInput: A field is not acceptable.
    """
    return Call("POST", "/v1/memories/reactivate", _CHANGE, _body(ReactivateRequest, ids, wanted))


def undo(operator: str, fact: str, by: str | None) -> Call[MemoryHistory]:
    """Return the call that says that a fact was not superseded.

    Raises:
        InvalidInput: A name is not acceptable.
    """
    request = read_model(UndoRequest, {"operator": operator, "id": fact, "by": by})
    body = request.model_dump_json(exclude_none=True).encode()
    return Call("POST", "/v1/memories/undo", _HISTORY, body)


def sources(**query: Any) -> Call[SourcePage]:
    """Return the call that lists sources.

    Raises:
        InvalidInput: A field is not acceptable.
    """
    return Call("GET", f"/v1/sources?{_query(SourcesQuery, query)}", reader(SourcePage))


def source(name: str, **query: Any) -> Call[SourceContent]:
    """Return the call that asks what stands in a source.

    Raises:
        InvalidInput: A field is not acceptable.
    """
    path = f"/v1/sources/{path_segment(name, 'source')}?{_query(SourceQuery, query)}"
    return Call("GET", path, reader(SourceContent))


def _path(memory: str, model: type[BaseModel], tail: str = "", **query: Any) -> str:
    return f"/v1/memories/{path_segment(memory, 'id')}{tail}?{_query(model, query)}"


def path_segment(name: str, field: str) -> str:
    """Return a name as a part of a path.

    Raises:
        InvalidInput: It is blank, or a place in the path.
    """
    if not isinstance(name, str):
        raise InvalidInput(f"{field}: must be a text", field=field)
    if not name.strip("./"):  # blank, or a place in the path that is no name
        raise InvalidInput(f"{field}: {name[:64]!r} cannot be asked for by a path", field=field)
    return quote(name, safe="")


def _query(model: type[BaseModel], query: dict[str, Any]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    read_model(model, given)
    return urlencode(
        {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in given.items()
        }
    )


def _body(model: type[BaseModel], ids: Iterable[str], wanted: dict[str, Any]) -> bytes:
    if isinstance(ids, str):  # its letters are no ids
        ids = [ids]
    given = {name: value for name, value in wanted.items() if value is not None}
    request = read_model(model, {"ids": list(ids), **given})
    return request.model_dump_json(exclude_none=True).encode()
