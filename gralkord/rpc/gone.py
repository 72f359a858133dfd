"""Work that nobody waits for any more is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.requests import ClientDisconnect

if TYPE_CHECKING:
    from starlette.requests import Request

Answer = TypeVar("Answer")

# What takes no longer needs nobody who looks whether the client is still there.
QUICK_SECONDS: Final = 0.05


async def unless_gone(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Return what *work* returns; it is cancelled when the client goes away.

    Args:
        request: The request, its body read.
        work: What is to be done for it.

    Raises:
        ClientDisconnect: There is nobody to answer.
    """
    task = asyncio.ensure_future(work)
    watch: asyncio.Future[Any] | None = None
    try:
        done, _ = await asyncio.wait({task}, timeout=QUICK_SECONDS)
        if not done:
            watch = asyncio.ensure_future(_gone(request))
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        left = [each for each in (task, watch) if each is not None and not each.done()]
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def _gone(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
