"""The default embedder: the mean of wordllama's token vectors, from the weights in its wheel.

Only wordllama's files are used, not its code: importing it switches the root logger to INFO and
pulls in an HTTP client, and its loader looks into `~/.cache` and may download. The vectors are the
same (a test compares them), at half the start-up time.
"""

from __future__ import annotations

import asyncio
import threading
import unicodedata
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import structlog

from gralkord.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gralkord.groups import Group

DIMENSION: Final = 256
FINGERPRINT: Final = f"local:wordllama:l2_supercat:{DIMENSION}"

# Texts up to this many characters in all are embedded on the caller's thread: about 1 ms at most,
# which is less than handing them to another thread and back costs under load.
INLINE_CHARACTERS: Final = 2_000
MEMO_TEXTS: Final = 256
MEMO_CHARACTERS: Final = 500

# Tokens whose vectors are gathered at once: bounds the memory a long text takes to 8 MB.
SLICE_TOKENS: Final = 8_192
BATCH_TEXTS: Final = 256

REINSTALL: Final = "pip install --force-reinstall wordllama"

log = structlog.get_logger(__name__)


class LocalEmbedder:
    """Embeds texts in this process; nothing is downloaded, read from or written to a cache.

    The weights (32 MB in memory) are loaded at the first use. Safe to use from several threads.
    """

    inline = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: _Model | None = None
        self._remembered = lru_cache(maxsize=MEMO_TEXTS)(self._embed_one)

    @property
    def fingerprint(self) -> str:
        """Name of the vector space."""
        return FINGERPRINT

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return DIMENSION

    def fits(self, fingerprint: str) -> bool:
        """Return whether its vectors are of that space."""
        return fingerprint == FINGERPRINT

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    async def load(self) -> None:
        """Load the weights now rather than at the first text.

        Raises:
            StartError: The wordllama package or its files are missing.
        """
        if self._model is None:
            await asyncio.to_thread(self._loaded)

    async def embed(
        self,
        texts: Sequence[str],
        *,
        query: bool = False,  # noqa: ARG002 - questions and answers are in the same words
        group: Group | None = None,  # noqa: ARG002 - it costs nothing
        stage: str = "",  # noqa: ARG002
    ) -> NDArray[np.float32]:
        """Return one row per text, in order.

        Args:
            texts: Any Unicode; may be empty.
            query: Makes no difference.
            group: Makes no difference.
            stage: Makes no difference.

        Returns:
            float32 of shape (len(texts), dimension); each row of length 1, or all zero for a text
            without a visible character.

        Raises:
            StartError: The wordllama package or its files are missing.
        """
        if self._model is not None and sum(map(len, texts)) <= INLINE_CHARACTERS:
            return self.embed_now(texts)
        return await asyncio.to_thread(self.embed_now, texts)

    def embed_now(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Do what :meth:`embed` does on the thread of the caller."""
        rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        if len(texts) == 1 and len(texts[0]) <= MEMO_CHARACTERS:
            rows[0] = self._remembered(texts[0])
            return rows
        model = self._loaded()
        for start in range(0, len(texts), BATCH_TEXTS):
            model.embed_into(texts[start : start + BATCH_TEXTS], rows[start : start + BATCH_TEXTS])
        return rows

    def _embed_one(self, text: str) -> NDArray[np.float32]:
        row = np.zeros(DIMENSION, dtype=np.float32)
        self._loaded().embed_into([text], row.reshape(1, DIMENSION))
        return row

    def _loaded(self) -> _Model:
        if self._model is None:
            with self._lock:
                if self._model is None:
                    self._model = _Model.load(_package_folder())
        return self._model


class _Model:
    """Tokenizer and token vectors of wordllama."""

    def __init__(self, tokenizer: Any, vectors: NDArray[np.float32]) -> None:
        self._tokenizer = tokenizer
        self._vectors = vectors

    @classmethod
    def load(cls, folder: Path) -> _Model:
        """Read the files below *folder*, the folder of the wordllama package.

        Raises:
            StartError: A file is missing or cannot be read.
        """
        # Slow to import, and most commands embed nothing.
        from safetensors import SafetensorError  # noqa: PLC0415
        from safetensors.numpy import load_file  # noqa: PLC0415
        from tokenizers import Tokenizer  # noqa: PLC0415

        weights = folder / "weights" / f"l2_supercat_{DIMENSION}.safetensors"
        vocabulary = folder / "tokenizers" / "l2_supercat_tokenizer_config.json"
        for file in (weights, vocabulary):
            if not file.is_file():
                raise StartError(
                    f"{file} is missing", hint="pip install --force-reinstall wordllama"
                )
        try:
            vectors = load_file(weights)["embedding.weight"].astype(np.float32)
        except (OSError, SafetensorError, KeyError) as error:
            raise StartError(f"{weights} cannot be read: {error}", hint=REINSTALL) from error
        tokenizer = Tokenizer.from_file(str(vocabulary))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        log.debug("embedder_loaded", fingerprint=FINGERPRINT)
        return cls(tokenizer, vectors)

    def embed_into(self, texts: Sequence[str], rows: NDArray[np.float32]) -> None:
        """Write the unit vector of each text into its row; rows of blank texts stay as they are."""
        spoken = [(index, text) for index, raw in enumerate(texts) if (text := _readable(raw))]
        encodings = self._tokenizer.encode_batch_fast(
            [text for _, text in spoken], add_special_tokens=False
        )
        for (index, _), encoding in zip(spoken, encodings, strict=True):
            total = self._sum(np.asarray(encoding.ids, dtype=np.int32))
            length = float(np.linalg.norm(total))
            if length > 0:
                rows[index] = total / length

    def _sum(self, ids: NDArray[np.int32]) -> NDArray[np.float32]:
        # The mean and the sum differ by a factor, which normalising removes.
        total = np.zeros(DIMENSION, dtype=np.float32)
        for start in range(0, len(ids), SLICE_TOKENS):
            total += self._vectors[ids[start : start + SLICE_TOKENS]].sum(axis=0)
        return total


def _readable(text: str) -> str:
    """Return *text* without what the tokenizer refuses, or "" when nothing visible is in it."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    visible = any(not mark.isspace() and unicodedata.category(mark) != "Cc" for mark in text)
    return text if visible else ""


def _package_folder() -> Path:
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise StartError("the package wordllama is not installed", hint="pip install wordllama")
    return Path(spec.submodule_search_locations[0])
