"""Vectors from the package fastembed, computed in this process."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gralkord.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gralkord.providers.embedders.embedder import Purpose

INSTALL: Final = "pip install 'gralkord[fastembed]'"


class FastembedSource:
    """Implements `gralkord.providers.embedders.embedder.Source` on fastembed.

    The package fetches the model when it is first used, into a directory of its own choice.

    Args:
        model: Name of the model, as fastembed lists it.
        source: The setting that names it, for messages.

    Raises:
        StartError: The package is not installed.
    """

    most_texts = 256
    most_characters = 200_000

    def __init__(self, model: str, source: str) -> None:
        try:
            import fastembed  # noqa: F401, PLC0415 - so that it is missed at the start
        except ImportError:
            raise StartError(
                f"{source} needs the package fastembed, which is not installed", hint=INSTALL
            ) from None
        self._model_name = model
        self._lock = threading.Lock()
        self._model: Any = None

    async def vectors(self, texts: Sequence[str], purpose: Purpose) -> NDArray[np.float32]:  # noqa: ARG002
        """Return one row per text.

        Raises:
            StartError: There is no such model, or it cannot be fetched.
        """
        return await asyncio.to_thread(self._compute, list(texts))

    async def close(self) -> None:
        """Forget the model."""
        self._model = None

    def _compute(self, texts: list[str]) -> NDArray[np.float32]:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            return np.stack(list(self._model.embed(texts))).astype(np.float32)

    def _load(self) -> Any:
        from fastembed import TextEmbedding  # noqa: PLC0415 - slow to import

        try:
            return TextEmbedding(self._model_name)
        except Exception as error:
            raise StartError(f"fastembed:{self._model_name} cannot be used: {error}") from error
