"""From the spec of an embedder to the embedder."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gralkord.config import ModelOptions
from gralkord.errors import ConfigError
from gralkord.providers.embedders.embedder import SourceEmbedder
from gralkord.providers.embedders.fast import FastembedSource
from gralkord.providers.embedders.onnx import OnnxSource
from gralkord.providers.embedders.profiles import profile_of
from gralkord.providers.embedders.remote import RemoteSource
from gralkord.providers.local import LocalEmbedder
from gralkord.providers.specs import parse_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gralkord.config import Models
    from gralkord.providers.base import Embedder
    from gralkord.providers.endpoint import Endpoint
    from gralkord.providers.ledger import Ledger
    from gralkord.providers.limiter import Limiter
    from gralkord.providers.specs import ModelSpec

LOCAL: Final = "local"
# A machine of one's own may have to load the model first.
OLLAMA_SECONDS: Final = 180.0
# Of a model's file so much at both ends tells it from others.
_TOLD_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class EmbedderBuilder:
    """Builds the embedders of one process.

    Attributes:
        models: The settings.
        environ: Environment variables.
        limiter: Gives turns at providers.
        ledger: Keeps account of the calls.
        endpoint: Returns where a spec is reached, with its key.
        slots: Limits their calls under way; those of language models are counted apart, so that
            no question waits behind an episode.
    """

    models: Models
    environ: Mapping[str, str]
    limiter: Limiter
    ledger: Ledger
    endpoint: Callable[[ModelSpec], Endpoint]
    slots: asyncio.Semaphore = field(repr=False)

    def build(self, written: str, source: str) -> Embedder | None:
        """Return the embedder that *written* names; None for ``none``.

        Args:
            written: A spec, ``local`` or nothing, which means the same, or ``none``.
            source: The setting or variable it stands in, for messages.

        Raises:
            ConfigError: It is no spec of an embedder, or its key is missing.
            StartError: A package or a file that it needs is missing.
        """
        written = written.strip()
        if written in {"", LOCAL}:
            return LocalEmbedder()
        kind, _, rest = written.partition(":")
        if kind in {"onnx", "fastembed"}:
            return self._in_process(kind, rest.strip(), written, source)
        spec = parse_spec(written, source, "embedder", self.environ)
        return None if spec is None else self._remote(spec)

    def _remote(self, spec: ModelSpec) -> Embedder:
        options = self._options(spec.written, spec.name)
        endpoint = self.endpoint(spec)
        if spec.provider.name == "ollama" and options.timeout_seconds is None:
            seconds = max(endpoint.timeout_seconds, OLLAMA_SECONDS)
            endpoint = replace(endpoint, timeout_seconds=seconds)
        profile = profile_of(spec.model, options, spec.source)
        remote = RemoteSource(
            endpoint,
            slots=self.slots,
            dimension=options.dimension,
            tasks=profile.tasks and spec.provider.name == "google",
            limiter=self.limiter,
            ledger=self.ledger,
        )
        return SourceEmbedder(remote, spec.name, profile, dimension=options.dimension)

    def _in_process(self, kind: str, rest: str, written: str, source: str) -> Embedder:
        if not rest:
            what = "directory" if kind == "onnx" else "model"
            raise ConfigError(f"{source} is {written!r}: the {what} is missing", field=source)
        options = self._options(written)
        profile = profile_of(Path(rest).name if kind == "onnx" else rest, options, source)
        if kind == "fastembed":
            return SourceEmbedder(FastembedSource(rest, source), written, profile)
        model = OnnxSource(Path(rest), source)
        # By what it is, not by where it is.
        name = f"onnx:{Path(rest).name}-{_told(model.file)}"
        return SourceEmbedder(model, name, profile)

    def _options(self, *names: str) -> ModelOptions:
        found = (self.models.options.get(name) for name in names)
        return next((each for each in found if each is not None), ModelOptions())


def _told(file: Path) -> str:
    size = file.stat().st_size
    with file.open("rb") as opened:
        told = hashlib.blake2b(f"{size} ".encode() + opened.read(_TOLD_BYTES), digest_size=4)
        opened.seek(max(0, size - _TOLD_BYTES))
        told.update(opened.read())
    return told.hexdigest()
