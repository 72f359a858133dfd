"""Read JSON lines: one turn a line, in the form of a capture request."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import orjson

from gralkord.client.imports import ImportTurn, RejectedTurn, operator_tag
from gralkord.errors import InvalidInput
from gralkord.models import Capture
from gralkord.wire import json_fault, read_model

if TYPE_CHECKING:
    from collections.abc import Iterator

# A turn's text has at most 256 KiB, and JSON may spend six bytes on one.
MAX_LINE_BYTES: Final = 2 * 1024 * 1024

_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a line gets for a field that it leaves out.

    Attributes:
        operator: Whose memory a turn becomes.
        agent: The agent that its session is bound to.
        user: Whom the agent talks to; none: each line must say.
    """

    operator: str
    agent: str
    user: str | None = None


def jsonl_turns(
    stream: BinaryIO, *, name: str, defaults: Defaults
) -> Iterator[ImportTurn | RejectedTurn]:
    """Yield the turns in *stream*, in order; blank lines are skipped.

    A line without a ``turn_id`` gets one made of *name*, its number and its words, so that reading
    the same file again gives the same ids.

    Args:
        stream: Lines of UTF-8, each a JSON object.
        name: What the turns come from; their ``source`` unless a line names its own.
        defaults: Fields for lines that leave them out.
    """
    for number, line in _lines(stream):
        where = f"line {number}"
        if len(line) > MAX_LINE_BYTES:
            limit = MAX_LINE_BYTES // (1024 * 1024)
            yield RejectedTurn(where, f"the line is longer than {limit} MiB")
        elif line.strip():
            yield _turn(line, where, name, number, defaults)


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield line number and line; of a line over the limit, only a beginning that is over it."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        yield number, line.removeprefix(_BOM) if number == 1 else line
        while not line.endswith(b"\n") and len(line) > MAX_LINE_BYTES:
            line = stream.readline(MAX_LINE_BYTES + 1)


def _turn(
    line: bytes, where: str, name: str, number: int, defaults: Defaults
) -> ImportTurn | RejectedTurn:
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return RejectedTurn(where, f"not JSON: {json_fault(line, error, of_one_line=True)}")
    if not isinstance(fields, dict):
        return RejectedTurn(where, "must be a JSON object, a turn")
    fields = _with_defaults(fields, defaults)
    if fields.get("turn_id") is None:
        fields["turn_id"] = _turn_id(name, number, line, fields["operator"])
    if fields.get("source") is None and fields.get("offset") is None:
        fields |= {"source": name, "offset": str(number)}
    try:
        return ImportTurn(where, read_model(Capture, fields))
    except InvalidInput as error:
        hint = "name one with --user" if error.message == "user: is missing" else error.hint
        return RejectedTurn(where, f"{error.message} ({hint})" if hint else error.message)


def _with_defaults(fields: dict[str, Any], defaults: Defaults) -> dict[str, Any]:
    given = {"operator": defaults.operator, "agent": defaults.agent}
    if defaults.user is not None:
        given["user"] = defaults.user
    return given | {key: value for key, value in fields.items() if value is not None}


def _turn_id(name: str, number: int, line: bytes, operator: Any) -> str:
    words = hashlib.blake2s(line.strip(), digest_size=12).hexdigest()
    source = hashlib.blake2s(name.encode(), digest_size=4).hexdigest()
    return f"jsonl:{source}:{number}:{words}@{operator_tag(str(operator))}"
