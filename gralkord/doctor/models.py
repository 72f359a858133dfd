"""The sections of the roles."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from gralkord.doctor import language, ranking, seeing, vectors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from gralkord.doctor.case import Case
    from gralkord.doctor.findings import Finding
    from gralkord.providers.specs import Role

CHECKS: Final[dict[Role, tuple[str, ...]]] = {
    "llm": language.CHECKS,
    "llm_small": language.CHECKS,
    "embedder": vectors.CHECKS,
    "reranker": ranking.CHECKS,
    "vision": seeing.CHECKS,
}

LOOKS: Final[dict[Role, Callable[[Case], AsyncIterator[Finding]]]] = {
    "llm": partial(language.look, role="llm"),
    "llm_small": partial(language.look, role="llm_small"),
    "embedder": vectors.look,
    "reranker": ranking.look,
    "vision": seeing.look,
}
