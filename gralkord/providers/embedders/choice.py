"""The embedders of a process, and which of them fits a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gralkord.errors import ModelOutage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gralkord.providers.base import Embedder


@dataclass(frozen=True, slots=True)
class Embedders:
    """The embedder that the settings name, and those of before that some groups still need.

    Attributes:
        present: Makes vectors for groups that have none, and those that groups are moved to.
        before: Others, for groups that have not been moved yet.
    """

    present: Embedder | None = None
    before: tuple[Embedder, ...] = ()

    @classmethod
    def of(cls, embedders: Embedders | Embedder | None) -> Embedders:
        """Return *embedders*, also where it is a single one or none."""
        return embedders if isinstance(embedders, Embedders) else cls(embedders)

    def __iter__(self) -> Iterator[Embedder]:
        if self.present is not None:
            yield self.present
        yield from self.before

    def fitting(self, fingerprint: str) -> Embedder | None:
        """Return the embedder of the vectors with that fingerprint, if it is at hand.

        Args:
            fingerprint: A group's; empty for one that has no vectors yet.
        """
        if not fingerprint:
            return self.present
        return next((each for each in self if each.fits(fingerprint)), None)

    async def close(self) -> None:
        """Close their connections."""
        for each in self:
            await each.close()


def fingerprint_of(embedder: Embedder | None) -> str:
    """Return the fingerprint of the vectors that *embedder* has made; empty if it has made none."""
    if embedder is None:
        return ""
    try:
        return embedder.fingerprint
    except ModelOutage:
        return ""
