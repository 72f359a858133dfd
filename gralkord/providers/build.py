"""From the settings to the models they name, with every mistake found at the start."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import structlog

from gralkord.config import ModelOptions
from gralkord.errors import ConfigError
from gralkord.providers.endpoint import Endpoint, Limits
from gralkord.providers.ledger import Ledger, NoLedger
from gralkord.providers.limiter import Limiter, LocalLimiter
from gralkord.providers.local import LocalEmbedder
from gralkord.providers.openai import OpenAIModel
from gralkord.providers.secrets import find_key, has_key
from gralkord.providers.sized import SizedModels
from gralkord.providers.specs import PROVIDERS, ModelSpec, Role, parse_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gralkord.config import Models
    from gralkord.providers.base import Embedder

# The names the original program gave to these settings; the settings themselves win over them.
ORIGINAL_NAMES: Final[Mapping[Role, str]] = {
    "llm": "GRALKOR_LLM_MODEL",
    "embedder": "GRALKOR_EMBEDDER_MODEL",
}

log = structlog.get_logger(__name__)


def build_model(
    models: Models,
    environ: Mapping[str, str],
    limiter: Limiter | None = None,
    ledger: Ledger | None = None,
) -> OpenAIModel | SizedModels | None:
    """Return the language model that the settings name, or None for ``none``.

    With no model named, the key of one provider in *environ* selects that provider's default.
    Nothing is sent yet. The model belongs to the event loop that first uses it.

    Args:
        models: The settings.
        environ: Environment variables.
        limiter: Gives turns at providers; default: one that knows this process only.
        ledger: Keeps account of the calls; default: nobody does.

    Raises:
        ConfigError: A spec that cannot be read, a provider that is not supported, or a key that is
            missing, blank or unreadable; it names the setting or variable and the role.
    """
    return Builder.of(models, environ, limiter, ledger).language_model()


def build_embedder(
    models: Models,
    environ: Mapping[str, str] | None = None,
    limiter: Limiter | None = None,
    ledger: Ledger | None = None,
) -> Embedder | None:
    """Return the embedder that *models* names; None for ``none``.

    Raises:
        ConfigError: As `build_model`.
    """
    return Builder.of(models, environ or {}, limiter, ledger).embedder()


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds the models of one process; they share its slots, limiter and ledger."""

    models: Models
    environ: Mapping[str, str]
    limiter: Limiter
    ledger: Ledger
    slots: asyncio.Semaphore = field(repr=False)

    @classmethod
    def of(
        cls,
        models: Models,
        environ: Mapping[str, str],
        limiter: Limiter | None = None,
        ledger: Ledger | None = None,
    ) -> Builder:
        """Return a builder; see `build_model`."""
        slots = asyncio.Semaphore(models.concurrency)
        return cls(models, environ, limiter or LocalLimiter(), ledger or NoLedger(), slots)

    def language_model(self) -> OpenAIModel | SizedModels | None:
        """Return the language model; see `build_model`."""
        main = self.spec("llm")
        small = self.spec("llm_small")
        if main is None:
            if small is not None:
                raise ConfigError(
                    "models.llm_small names a model, but models.llm names none", field="models.llm"
                )
            return None
        large = self._chat_model(main)
        if small is None or (small.name, small.base_url) == (main.name, main.base_url):
            return large
        return SizedModels(large, self._chat_model(small))

    def embedder(self) -> Embedder | None:
        """Return the embedder; see `build_embedder`."""
        written = (self.models.embedder or "").strip()
        return None if written == "none" else LocalEmbedder()

    def spec(self, role: Role) -> ModelSpec | None:
        """Return what the settings name for *role*; None for ``none``.

        Raises:
            ConfigError: It is no spec.
        """
        written, source = self._written(role)
        return parse_spec(written, source, role, self.environ)

    def endpoint(self, spec: ModelSpec) -> Endpoint:
        """Return where *spec* is reached.

        Raises:
            ConfigError: Its key is missing, blank or unreadable.
        """
        key = find_key(spec, self.models, self.environ, shares=self._shares(spec))
        options = self.models.options.get(spec.written) or self.models.options.get(spec.name)
        options = options or ModelOptions()
        endpoint = Endpoint(
            spec=spec.written,
            model=spec.model,
            base_url=spec.base_url,
            provider=spec.provider.name,
            key=key.text,
            key_source=key.source,
            options=_usual(spec) | options.fields,
            rename=options.rename,
            drop=frozenset(options.drop),
            thinking=options.thinking,
            limit_name=(
                "max_completion_tokens" if spec.provider.name == "openai" else "max_tokens"
            ),
            timeout_seconds=options.timeout_seconds or self.models.timeout_seconds,
            limits=Limits(
                options.requests_per_minute, options.tokens_per_minute, options.concurrency
            ),
            price=options.price,
        )
        if key.text and spec.base_url.startswith("http:") and not endpoint.loopback:
            log.warning("model_key_unencrypted", spec=spec.written)
        return endpoint

    def _chat_model(self, spec: ModelSpec) -> OpenAIModel:
        endpoint = self.endpoint(spec)
        return OpenAIModel(
            endpoint,
            slots=self.slots,
            timeout_seconds=endpoint.timeout_seconds,
            limiter=self.limiter,
            ledger=self.ledger,
        )

    def _written(self, role: Role) -> tuple[str, str]:
        """Return the spec of *role*, and where it stands."""
        setting = getattr(self.models, role)
        if setting is not None and setting.strip():
            return setting, f"models.{role}"
        original = ORIGINAL_NAMES.get(role, "")
        if original and self.environ.get(original, "").strip():
            return self.environ[original], original
        if role == "llm":
            return self._of_lone_key()
        return "", f"models.{role}"

    def _of_lone_key(self) -> tuple[str, str]:
        """Return the default model of the one provider whose key is there."""
        keyed = [
            each
            for each in PROVIDERS.values()
            if each.default_llm and has_key(each.key_variables, self.environ)
        ]
        if len(keyed) > 1:
            names = " and ".join(each.key_variable for each in keyed)
            raise ConfigError(
                f"models.llm is not set, and {names} are",
                field="models.llm",
                hint=f"name one, as in models.llm = {self._default(keyed[0].name)!r}, or `none`",
            )
        if not keyed:
            return "", "models.llm"
        spec = self._default(keyed[0].name)
        log.info("model_selected", spec=spec, because=f"{keyed[0].key_variable} is set")
        return spec, keyed[0].key_variable

    def _default(self, provider: str) -> str:
        return f"{provider}:{PROVIDERS[provider].default_llm}"

    def _shares(self, spec: ModelSpec) -> bool:
        """Return whether *spec* may be shown the key of the language model."""
        if spec.role == "llm":
            return True
        try:
            main = self.spec("llm")
        except ConfigError:
            return False
        return main is not None and (main.provider, main.base_url) == (spec.provider, spec.base_url)


def _usual(spec: ModelSpec) -> dict[str, Any]:
    """Return the fields that keep answers short and steady, as far as this model takes them."""
    if spec.role in {"embedder", "reranker"}:
        return {}
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?", spec.model)
    if spec.provider.name == "openai" and version:
        number = (int(version[1]), int(version[2] or 0))
        if number >= (5, 0):
            return {"reasoning_effort": "none" if number >= (5, 1) else "minimal"}
    if spec.provider.name == "openai" and re.match(r"o\d", spec.model):
        return {}
    return {"temperature": 0}
