"""The embedder: does it return vectors, and are texts near that mean the same?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gralkord.doctor import role as roles
from gralkord.doctor import samples
from gralkord.doctor.case import Tally
from gralkord.doctor.findings import Finding, of_error
from gralkord.errors import GralkorError, RateLimited
from gralkord.providers.specs import PROVIDERS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from numpy.typing import NDArray

    from gralkord.doctor.case import Case
    from gralkord.providers.base import Embedder

CHECKS: Final = (*roles.BASICS, "vectors", "sense")
# A recall waits for the vector of its question.
SLOW_SECONDS: Final = 2.0
STAGE: Final = "doctor"
# How far the length of a vector may be from 1.
ROUNDING: Final = 1e-3


async def look(case: Case) -> AsyncIterator[Finding]:
    """Yield what is found of the embedder."""
    tally = Tally(whole=case.tally)
    builder = case.builder(tally)
    written, _ = builder.written("embedder")
    if written.partition(":")[0].strip() in PROVIDERS:
        ready = False
        async for found in roles.basics(case, "embedder"):
            yield found
            ready = found.name.endswith(".clock")
        if not ready:
            return
    try:
        embedders = builder.embedders()
    except GralkorError as error:
        yield of_error("embedder.settings", error)
        return
    embedder = embedders.present
    if embedder is None:
        yield Finding("embedder.settings", "skip", roles.NOBODY["embedder"])
        return
    try:
        if written.partition(":")[0].strip() not in PROVIDERS:
            yield Finding("embedder.settings", "ok", f"{written or 'local'}, in this process")
            for name in ("embedder.address", "embedder.clock"):
                yield Finding(name, "ok", "nothing is sent anywhere")
        async for found in _ask(embedder):
            yield found
    finally:
        await embedders.close()


async def _ask(embedder: Embedder) -> AsyncIterator[Finding]:
    try:
        # The first call may load a model, or open a connection.
        rows = await embedder.embed(samples.TEXTS, stage=STAGE)
        began = time.perf_counter()
        question = await embedder.embed([samples.QUESTION], query=True, stage=STAGE)
        seconds = time.perf_counter() - began
    except RateLimited as error:
        yield of_error("embedder.vectors", error, "warn")
        return
    except GralkorError as error:
        yield of_error("embedder.vectors", error)
        return
    yield shape(np.vstack([rows, question]), embedder.fingerprint, seconds)
    yield sense(rows @ question[0])


def shape(rows: NDArray[np.float32], fingerprint: str, seconds: float) -> Finding:
    """Judge vectors by their form.

    Args:
        rows: One for each text.
        fingerprint: The name of their space.
        seconds: How long a question took.
    """
    name = "embedder.vectors"
    known: dict[str, Any] = {
        "dimension": rows.shape[1],
        "fingerprint": fingerprint,
        "milliseconds": round(seconds * 1000, 1),
    }
    lengths = np.linalg.norm(rows, axis=1)
    if not np.isfinite(rows).all() or bool((np.abs(lengths - 1) > ROUNDING).any()):
        mend = "the embedder is not of use; name another"
        return Finding(name, "fail", "its vectors are not of length 1", mend, known)
    found = f"{rows.shape[1]} numbers, {seconds * 1000:.0f} ms for a question ({fingerprint})"
    if seconds > SLOW_SECONDS:
        mend = "recall waits for it: name a nearer or a smaller embedder"
        return Finding(name, "warn", found, mend, known)
    return Finding(name, "ok", found, facts=known)


def sense(scores: NDArray[np.float32]) -> Finding:
    """Judge whether the right text is nearest to the question.

    Args:
        scores: How near each of the sample's texts is.
    """
    name = "embedder.sense"
    known = {"scores": [round(float(score), 3) for score in scores]}
    if int(np.argmax(scores)) == samples.BEST:
        return Finding(name, "ok", "the text that answers the question is nearest", facts=known)
    return Finding(
        name,
        "warn",
        "a text that does not answer the question is nearer than the one that does",
        "check models.options of the embedder: profile, query_prefix and document_prefix",
        known,
    )
