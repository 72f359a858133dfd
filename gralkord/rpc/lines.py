"""Answers that come line by line: JSON for each step, and a last line that says it is whole."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.responses import Response, StreamingResponse

from gralkord.errors import GralkorError
from gralkord.rpc.errors import error_content

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from pydantic import BaseModel

MEDIA_TYPE: Final = "application/x-ndjson"
END: Final = 'The last one is `{"end": true}`, or has an `error`.'

_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def described(lines: str) -> dict[int | str, dict[str, Any]]:
    """Return how the reference describes such an answer."""
    return {200: {"description": f"{lines} {END}", "content": {MEDIA_TYPE: {}}}}


async def line_response(found: AsyncGenerator[BaseModel]) -> Response:
    """Return the answer that tells what *found* yields.

    Raises:
        GralkorError: What it raises before its first step; after that it is the last line.
    """
    first = await anext(found, None)  # so that a refusal is still an answer of its own
    return StreamingResponse(_body(first, found), headers=_HEADERS, media_type=MEDIA_TYPE)


async def _body(first: BaseModel | None, found: AsyncGenerator[BaseModel]) -> AsyncGenerator[bytes]:
    async with aclosing(found):
        if first is not None:
            yield _line(first)
        try:
            async for each in found:
                yield _line(each)
        except GralkorError as error:
            yield orjson.dumps({"error": error_content(error)}) + b"\n"
        else:
            yield b'{"end":true}\n'


def _line(each: BaseModel) -> bytes:
    return each.model_dump_json().encode() + b"\n"
