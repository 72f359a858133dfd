"""An embedder over any source of vectors: prepares texts, sends each once, checks what comes."""

from __future__ import annotations

import asyncio
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np

from gralkord.errors import ConfigError, MalformedOutput, ModelOutage
from gralkord.providers.embedders.memo import Memo

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from gralkord.groups import Group
    from gralkord.providers.embedders.profiles import Profile

Outcome = TypeVar("Outcome")

# No embedder reads more of a text, and some refuse what is longer.
MOST_TEXT: Final = 20_000

_OTHER_MODEL: Final = (
    "another model answers at that address now; bring back the one before, or restart and "
    "`gralkord reembed`"
)
_NOT_SHORTENED: Final = (
    "the model cannot make the `dimension` that its options ask for; leave it out"
)


@dataclass(frozen=True, slots=True)
class Purpose:
    """What vectors are asked for.

    Attributes:
        query: Whether the texts are questions.
        group: On whose account.
        stage: What is being done, for the ledger.
    """

    query: bool = False
    group: Group | None = None
    stage: str = ""


class Source(Protocol):
    """Makes vectors of texts that are prepared already."""

    @property
    def most_texts(self) -> int:
        """How many texts it takes at once."""
        ...

    @property
    def most_characters(self) -> int:
        """How long they may be together."""
        ...

    async def vectors(self, texts: Sequence[str], purpose: Purpose) -> NDArray[np.float32]:
        """Return one row per text, of any length but zero.

        Raises:
            GralkorError: As `gralkord.providers.base.Embedder.embed`.
        """
        ...

    async def close(self) -> None:
        """Free what it holds."""
        ...


class SourceEmbedder:
    """Implements `gralkord.providers.base.Embedder` on a source of vectors.

    Args:
        source: Makes the vectors.
        name: Provider and model, as in ``openai:text-embedding-3-small``.
        profile: How the model wants texts.
        dimension: Length of the vectors, where that is known before the first one has come.
        memo: Where vectors are remembered; default: one of its own.
    """

    inline = False

    def __init__(
        self,
        source: Source,
        name: str,
        profile: Profile,
        *,
        dimension: int | None = None,
        memo: Memo | None = None,
    ) -> None:
        self.name = name
        self._source = source
        self._profile = profile
        self._dimension = dimension
        self._set = dimension is not None
        self._memo = memo or Memo()

    @property
    def fingerprint(self) -> str:
        """Name of the vector space.

        Raises:
            ModelOutage: No vector has come yet, so its dimension is not known.
        """
        return f"{self._stem}:{self.dimension}"

    @property
    def dimension(self) -> int:
        """Length of each vector.

        Raises:
            ModelOutage: No vector has come yet.
        """
        if self._dimension is None:
            raise ModelOutage(f"{self.name} has not answered yet, so its dimension is not known")
        return self._dimension

    def fits(self, fingerprint: str) -> bool:
        """Return whether its vectors are of that space, as far as is known by now."""
        stem, _, dimension = fingerprint.rpartition(":")
        return stem == self._stem and self._dimension in {None, _number(dimension)}

    async def embed(
        self,
        texts: Sequence[str],
        *,
        query: bool = False,
        group: Group | None = None,
        stage: str = "",
    ) -> NDArray[np.float32]:
        """Return one row per text; see `gralkord.providers.base.Embedder`.

        Raises:
            MalformedOutput: A vector has numbers that are none, or there are too few vectors.
            ConfigError: Vectors are of another length than before.
            GralkorError: The failure of the source.
        """
        sent = [self._prepared(text, query=query) for text in texts]
        found: dict[str, NDArray[np.float32]] = {}
        for text in dict.fromkeys(filter(None, sent)):
            # A question and a document of the same words differ where the request tells them apart.
            if (row := self._memo.get(self._key(text, query=query))) is not None:
                found[text] = row
        missing = [text for text in dict.fromkeys(filter(None, sent)) if text not in found]
        purpose = Purpose(query, group, stage)
        for made in await together(self._made(each, purpose) for each in self._batches(missing)):
            found |= made
        result = np.zeros((len(texts), self._dimension or 1), dtype=np.float32)
        for number, text in enumerate(sent):
            if text:
                result[number] = found[text]
        return result

    async def close(self) -> None:
        """Free what the source holds."""
        await self._source.close()

    async def _made(self, texts: Sequence[str], purpose: Purpose) -> dict[str, NDArray[np.float32]]:
        """Return the vectors of one batch; they are remembered, also if another batch fails."""
        rows = self._checked(await self._source.vectors(texts, purpose), len(texts))
        for text, row in zip(texts, rows, strict=True):
            self._memo.put(self._key(text, query=purpose.query), row)
        return dict(zip(texts, rows, strict=True))

    @property
    def _stem(self) -> str:
        return f"{self.name}:{self._profile.label}"

    def _key(self, text: str, *, query: bool) -> str:
        return f"{'q' if query and self._profile.tasks else 'd'}{text}"

    def _prepared(self, text: str, *, query: bool) -> str:
        """Return what is sent for a text; nothing for one without a visible character."""
        text = text[:MOST_TEXT]
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode()
        if not any(not mark.isspace() and unicodedata.category(mark) != "Cc" for mark in text):
            return ""
        return self._profile.prepare(text, query=query)

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        size = 0
        for text in texts:
            full = len(batch) >= self._source.most_texts
            if batch and (full or size + len(text) > self._source.most_characters):
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += len(text)
        if batch:
            yield batch

    def _checked(self, rows: NDArray[np.float32], wanted: int) -> NDArray[np.float32]:
        """Return vectors of length 1, and note their dimension."""
        if rows.ndim != 2 or len(rows) != wanted or not rows.shape[1]:
            raise MalformedOutput(f"{self.name} returned {len(rows)} vectors for {wanted} texts")
        if not np.isfinite(rows).all():
            raise MalformedOutput(f"{self.name} returned a vector with numbers that are none")
        if self._dimension not in {None, rows.shape[1]}:
            raise ConfigError(
                f"{self.name} returns vectors of {rows.shape[1]} numbers, not {self._dimension}",
                hint=_NOT_SHORTENED if self._set else _OTHER_MODEL,
            )
        self._dimension = rows.shape[1]
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: NDArray[np.float32] = np.divide(
            rows, lengths, out=np.zeros_like(rows), where=lengths > 0
        )
        return unit


async def together(calls: Iterable[Coroutine[Any, Any, Outcome]]) -> list[Outcome]:
    """Return what some calls return; after the first failure none of them goes on."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else -1
