"""From the settings to the models they name, with every mistake found at the start."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

import structlog

from gralkord.errors import ConfigError
from gralkord.providers.endpoint import Endpoint
from gralkord.providers.limiter import LocalLimiter
from gralkord.providers.local import LocalEmbedder
from gralkord.providers.openai import OpenAIModel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from gralkord.config import Models
    from gralkord.providers.base import ChatMessage, Embedder, Usage
    from gralkord.providers.limiter import Limiter

OPENAI_KEY: Final = "OPENAI_API_KEY"
# The name the original program gave to this setting; the setting itself wins over it.
ORIGINAL_NAME: Final = "GRALKOR_LLM_MODEL"
OPENAI_BASE_URL: Final = "https://api.openai.com/v1"
# Chosen when nothing is set but the key: what graphiti-core 0.31 is made for.
OPENAI_DEFAULT: Final = "openai:gpt-6-luna"
SUPPORTED: Final = ("none", "openai:MODEL", "openai-compatible:MODEL@http://HOST:PORT/v1")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model as the settings name it.

    Attributes:
        written: The words themselves.
        source: The setting or variable they stand in.
        provider: Who speaks at the address.
        model: The name of the model there.
        base_url: Where ``/chat/completions`` is appended.
    """

    written: str
    source: str
    provider: Literal["openai", "openai-compatible"]
    model: str
    base_url: str


class SizedModels:
    """Two models as one: the second does the small jobs."""

    def __init__(self, large: OpenAIModel, small: OpenAIModel) -> None:
        self._large = large
        self._small = small

    @property
    def name(self) -> str:
        """The name of the model for everything but small jobs."""
        return self._large.name

    @property
    def endpoints(self) -> tuple[str, ...]:
        """What holds call the addresses that are asked."""
        return tuple(dict.fromkeys(self._large.endpoints + self._small.endpoints))

    @property
    def usage(self) -> Usage:
        """What both have used so far."""
        return self._large.usage + self._small.usage

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        schema: type[BaseModel],
        *,
        small: bool = False,
        max_tokens: int | None = None,
        stage: str = "",
    ) -> dict[str, Any]:
        """Ask the model of that size; see :meth:`LanguageModel.complete`."""
        model = self._small if small else self._large
        return await model.complete(
            messages, schema, small=small, max_tokens=max_tokens, stage=stage
        )

    async def close(self) -> None:
        """Close the connections of both."""
        await self._large.close()
        await self._small.close()


def build_embedder(models: Models) -> Embedder | None:
    """Return the embedder that *models* names; None for ``none``."""
    return LocalEmbedder() if models.embedder == "local" else None


def build_model(
    models: Models, environ: Mapping[str, str], limiter: Limiter | None = None
) -> OpenAIModel | SizedModels | None:
    """Return the language model that the settings name, or None for ``none``.

    With no model named, the key of a provider in *environ* selects that provider's default. Nothing
    is sent yet. The model belongs to the event loop that first uses it.

    Args:
        models: The settings.
        environ: Environment variables.
        limiter: Gives turns after a provider asked for fewer requests; default: one that knows
            this process only.

    Raises:
        ConfigError: A spec that cannot be read, a provider that is not supported, or a key that is
            missing, blank or unreadable; it names the setting or variable and the role.
    """
    main = _main_spec(models, environ)
    small = parse_spec(models.llm_small or "", "models.llm_small")
    if main is None:
        if small is not None:
            raise ConfigError(
                "models.llm_small names a model, but models.llm names none", field="models.llm"
            )
        return None
    shared = asyncio.Semaphore(models.concurrency), limiter or LocalLimiter()
    key, key_source = _key(models, main, environ)
    large = _open(main, key, key_source, models, *shared)
    if small is None or small == main:
        return large
    if (small.provider, small.base_url) != (main.provider, main.base_url):
        # The key of one server is never shown to another.
        key, key_source = _key(models, small, environ, explicit=False)
    return SizedModels(large, _open(small, key, key_source, models, *shared))


def parse_spec(written: str, source: str) -> ModelSpec | None:
    """Read ``provider:model[@base_url]``; None for ``none`` and for a blank.

    A base URL without a path gets ``/v1``; one with a path is taken as it is.

    Args:
        written: The spec.
        source: The setting or variable it stands in, for messages.

    Raises:
        ConfigError: It is not such a spec.
    """
    written = written.strip()
    if written in {"", "none"}:
        return None
    provider, _, rest = written.partition(":")
    if provider not in {"openai", "openai-compatible"}:
        raise ConfigError(
            f"{source} is {written!r}: supported are {', '.join(SUPPORTED)}", field=source
        )
    at = re.search(r"@https?://", rest)
    model, address = (rest[: at.start()], rest[at.start() + 1 :]) if at else (rest, "")
    if not model.strip():
        raise ConfigError(f"{source} is {written!r}: the model's name is missing", field=source)
    if provider == "openai":
        base_url = _base_url(address, written, source) if address else OPENAI_BASE_URL
        return ModelSpec(written, source, "openai", model.strip(), base_url)
    if not address:
        raise ConfigError(
            f"{source} is {written!r}: the address is missing; write {SUPPORTED[-1]}", field=source
        )
    base_url = _base_url(address, written, source)
    return ModelSpec(written, source, "openai-compatible", model.strip(), base_url)


def _main_spec(models: Models, environ: Mapping[str, str]) -> ModelSpec | None:
    if models.llm is not None and models.llm.strip():
        return parse_spec(models.llm, "models.llm")
    if environ.get(ORIGINAL_NAME, "").strip():
        return parse_spec(environ[ORIGINAL_NAME], ORIGINAL_NAME)
    if environ.get(OPENAI_KEY, "").strip():
        log.info("model_selected", spec=OPENAI_DEFAULT, because=f"{OPENAI_KEY} is set")
        return parse_spec(OPENAI_DEFAULT, OPENAI_KEY)
    return None


def _base_url(address: str, written: str, source: str) -> str:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{source} is {written!r}: {error}", field=source) from None
    if "@" in parts.netloc:
        # Not repeated in the message: it holds a password.
        raise ConfigError(
            f"{source}: an address may not hold a user or password; use models.api_key",
            field=source,
        )
    if (
        not parts.hostname
        or parts.query
        or parts.fragment
        or re.search(r"\s", address)
        or port == 0
    ):
        raise ConfigError(f"{source} is {written!r}: not an address of a server", field=source)
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return f"{parts.scheme}://{parts.netloc}{path or '/v1'}"


def _key(
    models: Models, spec: ModelSpec, environ: Mapping[str, str], *, explicit: bool = True
) -> tuple[str | None, str]:
    """Return the key for *spec* and the name of the place it comes from."""
    if explicit and models.api_key is not None and models.api_key_file is not None:
        raise ConfigError("give models.api_key or models.api_key_file, not both")
    if explicit and models.api_key is not None:
        key, source = models.api_key.get_secret_value(), "models.api_key"
    elif explicit and models.api_key_file is not None:
        source = f"models.api_key_file {models.api_key_file}"
        try:
            key = models.api_key_file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{source} cannot be read: {error}", field="models.api_key_file"
            ) from error
    elif spec.provider == "openai":
        key, source = environ.get(OPENAI_KEY, ""), OPENAI_KEY
    else:
        return None, "models.api_key"
    key = key.strip()
    if not key:
        state = "blank" if source != OPENAI_KEY or OPENAI_KEY in environ else "not set"
        raise ConfigError(
            f"{spec.source} is {spec.written!r}, but {source}, which holds its key, is {state}",
            field=source,
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigError(f"{source}, the key for {spec.source}, holds more than a key")
    return key, source


def _open(
    spec: ModelSpec,
    key: str | None,
    key_source: str,
    models: Models,
    slots: asyncio.Semaphore,
    limiter: Limiter,
) -> OpenAIModel:
    endpoint = Endpoint(
        spec=spec.written,
        model=spec.model,
        base_url=spec.base_url,
        key=key,
        key_source=key_source,
        options=_options(spec),
        limit_name="max_completion_tokens" if spec.provider == "openai" else "max_tokens",
    )
    if key and spec.base_url.startswith("http:") and not endpoint.loopback:
        log.warning("model_key_unencrypted", spec=spec.written)
    return OpenAIModel(
        endpoint, slots=slots, timeout_seconds=models.timeout_seconds, limiter=limiter
    )


def _options(spec: ModelSpec) -> dict[str, Any]:
    """Return the fields that keep answers short and steady, as far as this model takes them."""
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?", spec.model)
    if spec.provider == "openai" and version:
        number = (int(version[1]), int(version[2] or 0))
        if number >= (5, 0):
            return {"reasoning_effort": "none" if number >= (5, 1) else "minimal"}
    if spec.provider == "openai" and re.match(r"o\d", spec.model):
        return {}
    return {"temperature": 0}
