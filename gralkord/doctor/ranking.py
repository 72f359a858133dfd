"""The reranker: does the text that answers the question come first?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from gralkord.doctor import role as roles
from gralkord.doctor import samples
from gralkord.doctor.case import Tally
from gralkord.doctor.findings import Finding, of_error
from gralkord.errors import GralkorError, RateLimited

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from gralkord.doctor.case import Case
    from gralkord.providers.base import Ranked, Reranker

CHECKS: Final = (*roles.BASICS, "order")
# A recall waits for it.
SLOW_SECONDS: Final = 3.0


async def look(case: Case) -> AsyncIterator[Finding]:
    """Yield what is found of the reranker."""
    ready = False
    async for found in roles.basics(case, "reranker"):
        yield found
        ready = found.name.endswith(".clock")
    if not ready:
        return
    reranker = case.builder(Tally(whole=case.tally)).reranker()
    if reranker is None:
        return
    try:
        yield await _ask(reranker)
    finally:
        await reranker.close()


async def _ask(reranker: Reranker) -> Finding:
    began = time.perf_counter()
    try:
        ranked = await reranker.rank(samples.QUESTION, samples.TEXTS)
    except RateLimited as error:
        return of_error("reranker.order", error, "warn")
    except GralkorError as error:
        return of_error("reranker.order", error)
    return order(ranked, time.perf_counter() - began)


def order(ranked: Sequence[Ranked], seconds: float) -> Finding:
    """Judge the order of the sample's texts.

    Args:
        ranked: The texts, best first.
        seconds: How long that took.
    """
    name = "reranker.order"
    known = {
        "seconds": round(seconds, 2),
        "scores": {str(each.index): round(each.score, 3) for each in ranked},
    }
    if not ranked:
        return Finding(name, "fail", "it scored none of the texts", "name another model", known)
    if ranked[0].index != samples.BEST:
        return Finding(
            name,
            "warn",
            "a text that does not answer the question comes before the one that does",
            "name another reranker, or none: it makes recall worse",
            known,
        )
    found = f"the text that answers the question comes first, after {seconds:.1f} s"
    if seconds > SLOW_SECONDS:
        mend = "recall waits for it: name a nearer or a smaller one"
        return Finding(name, "warn", found, mend, known)
    return Finding(name, "ok", found, facts=known)
