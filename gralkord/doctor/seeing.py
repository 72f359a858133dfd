"""The model for images: does it see?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from gralkord.doctor import role as roles
from gralkord.doctor import samples
from gralkord.doctor.case import Tally
from gralkord.doctor.findings import Finding, of_error
from gralkord.errors import GralkorError, RateLimited

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gralkord.doctor.case import Case
    from gralkord.providers.vision import Vision

CHECKS: Final = (*roles.BASICS, "sight")


async def look(case: Case) -> AsyncIterator[Finding]:
    """Yield what is found of the model for images."""
    ready = False
    async for found in roles.basics(case, "vision"):
        yield found
        ready = found.name.endswith(".clock")
    if not ready:
        return
    vision = case.builder(Tally(whole=case.tally)).vision()
    if vision is None:
        return
    try:
        yield await _ask(vision)
    finally:
        await vision.close()


async def _ask(vision: Vision) -> Finding:
    began = time.perf_counter()
    try:
        words = await vision.describe(samples.picture())
    except RateLimited as error:
        return of_error("vision.sight", error, "warn")
    except GralkorError as error:
        hint = error.hint or "does this model take images? Name one that does in models.vision"
        return Finding("vision.sight", "fail", error.message, hint)
    return sight(words, time.perf_counter() - began)


def sight(words: str, seconds: float) -> Finding:
    """Judge what was said of the sample picture.

    Args:
        words: The description.
        seconds: How long that took.
    """
    known = {"seconds": round(seconds, 2)}
    if samples.COLOUR in words.casefold():
        found = f"it sees what the picture shows, after {seconds:.1f} s"
        return Finding("vision.sight", "ok", found, facts=known)
    return Finding(
        "vision.sight",
        "warn",
        f"it does not say that a {samples.COLOUR} picture is {samples.COLOUR}",
        "it may answer without seeing: name another model in models.vision",
        known,
    )
