"""Vectors from an ONNX model in a directory, computed in this process.

The directory holds ``model.onnx`` (or ``onnx/model.onnx``) and ``tokenizer.json``, as exports of
sentence-transformers do. ``1_Pooling/config.json``, if it is there, tells how vectors of words
become one of the text; without it they are averaged.
"""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gralkord.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gralkord.providers.embedders.embedder import Purpose

INSTALL: Final = "pip install 'gralkord[onnx]'"
MODELS: Final = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_int8.onnx")
MOST_TOKENS: Final = 512
# Rows computed at once: they are padded to the longest of them.
ROWS: Final = 16
THREADS: Final = 2
_POOLINGS: Final = {"pooling_mode_cls_token": "first", "pooling_mode_lasttoken": "last"}


class OnnxSource:
    """Implements `gralkord.providers.embedders.embedder.Source` on an ONNX model.

    Args:
        folder: Where its files are.
        source: The setting that names it, for messages.

    Raises:
        StartError: A package or a file is missing.
    """

    most_texts = 256
    most_characters = 200_000

    def __init__(self, folder: Path, source: str) -> None:
        try:
            import onnxruntime  # noqa: F401, PLC0415 - so that it is missed at the start
        except ImportError:
            raise StartError(
                f"{source} needs the package onnxruntime, which is not installed", hint=INSTALL
            ) from None
        self._folder = folder.expanduser()
        found = next((f for name in MODELS if (f := self._folder / name).is_file()), None)
        if found is None or not (self._folder / "tokenizer.json").is_file():
            raise StartError(
                f"{source}: {self._folder} holds no model.onnx with a tokenizer.json",
                hint="name the directory of an exported sentence-transformers model",
            )
        self.file = found
        self._pooling = _pooling(self._folder)
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    async def vectors(self, texts: Sequence[str], purpose: Purpose) -> NDArray[np.float32]:  # noqa: ARG002
        """Return one row per text.

        Raises:
            StartError: The model cannot be read.
        """
        return await asyncio.to_thread(self._compute, list(texts))

    async def close(self) -> None:
        """Forget the model."""
        self._loaded = None

    def _compute(self, texts: list[str]) -> NDArray[np.float32]:
        with self._lock:  # the model uses all the threads it may
            session, tokenizer = self._loaded or self._load()
            encodings = tokenizer.encode_batch(texts)
            # Of like lengths together, so that little is padded.
            order = sorted(range(len(texts)), key=lambda row: len(encodings[row].ids))
            found: list[Any] = [None] * len(texts)
            for start in range(0, len(order), ROWS):
                some = order[start : start + ROWS]
                rows = self._run(session, [encodings[row] for row in some])
                for place, row in zip(some, rows, strict=True):
                    found[place] = row
            return np.stack(found).astype(np.float32)

    def _run(self, session: Any, encodings: Sequence[Any]) -> NDArray[np.float32]:
        longest = max(len(each.ids) for each in encodings)
        ids = np.zeros((len(encodings), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, each in enumerate(encodings):
            ids[row, : len(each.ids)] = each.ids
            mask[row, : len(each.ids)] = each.attention_mask
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        known = {each.name for each in session.get_inputs()}
        (out, *_) = session.run(None, {name: inputs[name] for name in inputs if name in known})
        if out.ndim == 2:  # pooled by the model itself
            return np.asarray(out)
        if self._pooling == "first":
            return np.asarray(out[:, 0])
        if self._pooling == "last":
            return np.asarray(out[np.arange(len(out)), mask.sum(axis=1) - 1])
        weights = mask[:, :, None].astype(np.float32)
        return np.asarray((out * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-9))

    def _load(self) -> tuple[Any, Any]:
        import onnxruntime  # noqa: PLC0415 - slow to import
        from tokenizers import Tokenizer  # noqa: PLC0415

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        try:
            session = onnxruntime.InferenceSession(
                str(self.file), options, providers=["CPUExecutionProvider"]
            )
            tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        except Exception as error:
            raise StartError(f"{self.file} cannot be read: {error}") from error
        tokenizer.enable_truncation(MOST_TOKENS)
        tokenizer.no_padding()
        self._loaded = (session, tokenizer)
        return self._loaded


def _pooling(folder: Path) -> str:
    try:
        config = json.loads((folder / "1_Pooling" / "config.json").read_bytes())
    except (OSError, ValueError):
        return "mean"
    return next((how for name, how in _POOLINGS.items() if config.get(name)), "mean")
