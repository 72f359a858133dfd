"""Vectors for rows that are about to be written, as far as they can be had without waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray

from gralkord.errors import GralkorError
from gralkord.graph.connection import GraphConnection
from gralkord.graph.vectors import encode
from gralkord.groups import Group, parse_group
from gralkord.providers.base import Embedder
from gralkord.providers.embedders.choice import Embedders, fingerprint_of

log = structlog.get_logger(__name__)

Key = TypeVar("Key", str, int)

_EMBEDDER: Final = "MATCH (m:Meta) RETURN m.embedder"


@dataclass(frozen=True, slots=True)
class Made:
    """Vectors that were made for a write.

    Attributes:
        embedder: Fingerprint of their embedder; empty if there are none.
        embeds: Whether what is written without one is to get it later.
    """

    embedder: str = ""
    embeds: bool = False


async def embedded(
    embedders: Embedders, group: str, space: str, texts: Mapping[Key, str], *, stage: str
) -> tuple[Made, dict[Key, str]]:
    """Return vectors of *texts* in the space of *group*, or none where they will follow.

    Args:
        embedders: Those at hand.
        group: The group id.
        space: Fingerprint of the group's vectors; empty if it has none.
        texts: By whatever tells them apart.
        stage: What is being done, for the ledger.

    Raises:
        GralkorError: The embedder's failure.
    """
    embedder = embedders.fitting(space)
    embeds = embedders.present is not None
    if embedder is None or not embedder.inline or not texts:
        return Made(embeds=embeds), {}
    payer = parse_group(group)
    rows = await embedder.embed(list(texts.values()), group=payer, stage=stage)
    encoded = zip(texts, encode(rows), rows, strict=True)
    found = {key: text for key, text, row in encoded if row.any()}
    # A text that says nothing has no vector, and waits for none.
    return Made(embedder.fingerprint, embeds), found


async def space_of(graph: GraphConnection, group: str) -> str:
    """Return the fingerprint of a group's vectors; empty if it has none.

    Raises:
        BackendUnavailable: The server does not answer.
    """
    found = await graph.read(group, _EMBEDDER)
    return (found[0][0] or "") if found else ""


@dataclass(slots=True)
class LenientEmbedder:
    """An embedder for work that is not begun anew because vectors are missing: they follow.

    Attributes:
        embedder: Who is asked.
        failed: Whether it did not answer; from then on every vector is zero.
    """

    embedder: Embedder
    failed: bool = False

    @property
    def inline(self) -> bool:
        """As the embedder."""
        return self.embedder.inline

    @property
    def fingerprint(self) -> str:
        """As the embedder; empty once it has failed."""
        return "" if self.failed else fingerprint_of(self.embedder)

    @property
    def dimension(self) -> int:
        """As the embedder."""
        return self.embedder.dimension

    def fits(self, fingerprint: str) -> bool:
        """As the embedder."""
        return self.embedder.fits(fingerprint)

    async def close(self) -> None:
        """Do nothing: the embedder is another's."""

    async def embed(
        self,
        texts: Sequence[str],
        *,
        query: bool = False,
        group: Group | None = None,
        stage: str = "",
    ) -> NDArray[np.float32]:
        """Return one row per text; zeros if the embedder fails."""
        if not self.failed:
            try:
                return await self.embedder.embed(texts, query=query, group=group, stage=stage)
            except GralkorError as error:
                log.warning("written_without_vectors", stage=stage, reason=error.message)
                self.failed = True
        return np.zeros((len(texts), 1), dtype=np.float32)
