"""From the settings to the models they name, with every mistake found at the start."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import structlog

from gralkord.config import ModelOptions
from gralkord.errors import ConfigError
from gralkord.providers.chat import ChatModel
from gralkord.providers.embedders.build import EmbedderBuilder
from gralkord.providers.embedders.choice import Embedders
from gralkord.providers.endpoint import Endpoint, Limits
from gralkord.providers.formats.base import merged
from gralkord.providers.formats.usual import usual_options
from gralkord.providers.ledger import FREE, CalledRole, Ledger, NoLedger
from gralkord.providers.limiter import Limiter, LocalLimiter
from gralkord.providers.rerank import JudgingReranker, RemoteReranker
from gralkord.providers.secrets import find_key, has_key
from gralkord.providers.sized import SizedModels
from gralkord.providers.specs import PROVIDERS, ModelSpec, Role, parse_spec
from gralkord.providers.vision import Vision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gralkord.config import Models
    from gralkord.providers.base import Embedder, LanguageModel, Reranker

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
) -> ChatModel | SizedModels | None:
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


def build_embedders(
    models: Models,
    environ: Mapping[str, str],
    limiter: Limiter | None = None,
    ledger: Ledger | None = None,
) -> Embedders:
    """Return the embedder that *models* names, and those whose vectors groups may still have.

    Raises:
        ConfigError: As `build_model`.
        StartError: A package or a file that one of them needs is missing.
    """
    return Builder.of(models, environ, limiter, ledger).embedders()


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds the models of one process; they share its slots, limiter and ledger.

    Attributes:
        built: Where the models that were built so far are reached.
    """

    models: Models
    environ: Mapping[str, str]
    limiter: Limiter
    ledger: Ledger
    slots: asyncio.Semaphore = field(repr=False)
    built: list[Endpoint] = field(default_factory=list, repr=False)

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

    def language_model(self) -> ChatModel | SizedModels | None:
        """Return the language model; see `build_model`."""
        main = self.spec("llm")
        small = self.spec("llm_small")
        if main is None:
            if small is not None:
                raise ConfigError(
                    "models.llm_small names a model, but models.llm names none", field="models.llm"
                )
            return None
        if main.source in main.provider.key_variables:
            log.info("model_selected", spec=main.written, because=f"{main.source} is set")
        large = self._chat_model(main)
        if small is None or (small.name, small.base_url) == (main.name, main.base_url):
            return large
        return SizedModels(large, self._chat_model(small))

    def embedder(self) -> Embedder | None:
        """Return the embedder; see `build_embedder`."""
        return self._embedders().build(*self.written("embedder"))

    def embedders(self) -> Embedders:
        """Return the embedder and those of before; see `build_embedders`."""
        builder = self._embedders()
        before = [
            builder.build(written, "models.embedders_before")
            for written in self.models.embedders_before
        ]
        known = tuple(each for each in before if each is not None)
        return Embedders(builder.build(*self.written("embedder")), known)

    def reranker(self, model: LanguageModel | None = None) -> Reranker | None:
        """Return the reranker; None for ``none``.

        Args:
            model: The language model, if it is built already; ``llm`` means that one.

        Raises:
            ConfigError: As `build_model`.
        """
        if self._is_language_model("reranker"):
            return JudgingReranker(model or self._needed("reranker"))
        spec = self.spec("reranker")
        if spec is None:
            return None
        return RemoteReranker(
            self.endpoint(spec), slots=self.slots, limiter=self.limiter, ledger=self.ledger
        )

    def vision(self) -> Vision | None:
        """Return what describes images; None for ``none``.

        Raises:
            ConfigError: As `build_model`.
        """
        borrowed = self._is_language_model("vision")
        spec = self.spec("llm" if borrowed else "vision")
        if spec is None and borrowed:
            self._needed("vision")
        return Vision(self._chat_model(spec, "vision")) if spec else None

    def _is_language_model(self, role: Role) -> bool:
        return self.written(role)[0].strip() == "llm"

    def _needed(self, role: Role) -> LanguageModel:
        """Return the language model, which *role* takes for its own."""
        model = self.language_model()
        if model is None:
            raise ConfigError(
                f"models.{role} is 'llm', but models.llm names none", field=f"models.{role}"
            )
        return model

    def _embedders(self) -> EmbedderBuilder:
        slots = asyncio.Semaphore(self.models.concurrency)
        return EmbedderBuilder(
            self.models, self.environ, self.limiter, self.ledger, self.endpoint, slots
        )

    def spec(self, role: Role) -> ModelSpec | None:
        """Return what the settings name for *role*; None for ``none``.

        Raises:
            ConfigError: It is no spec.
        """
        written, source = self.written(role)
        return parse_spec(written, source, role, self.environ)

    def written(self, role: Role) -> tuple[str, str]:
        """Return the spec of *role*, empty for none, and the setting or variable it stands in.

        Raises:
            ConfigError: Nothing is named, and the keys of several providers are there.
        """
        setting = getattr(self.models, role)
        if setting is not None and setting.strip():
            return setting, f"models.{role}"
        original = ORIGINAL_NAMES.get(role, "")
        if original and self.environ.get(original, "").strip():
            return self.environ[original], original
        if role == "llm":
            return self._of_lone_key()
        return "", f"models.{role}"

    def endpoint(self, spec: ModelSpec) -> Endpoint:
        """Return where *spec* is reached.

        Raises:
            ConfigError: Its key is missing, blank or unreadable.
        """
        key = find_key(
            spec, self.models, self.environ, shares=self._shares(spec), own=self._owns(spec)
        )
        options = self.models.options.get(spec.written) or self.models.options.get(spec.name)
        options = options or ModelOptions()
        endpoint = Endpoint(
            spec=spec.written,
            model=spec.model,
            base_url=spec.base_url,
            provider=spec.provider.name,
            key=key.text,
            key_source=key.source,
            options=merged(usual_options(spec, thinking=options.thinking), options.fields),
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
        if endpoint.price is None and endpoint.loopback:
            endpoint = replace(endpoint, price=FREE)
        if endpoint not in self.built:
            self.built.append(endpoint)
            if key.text and spec.base_url.startswith("http:") and not endpoint.loopback:
                log.warning("model_key_unencrypted", spec=spec.written)
        return endpoint

    def _chat_model(self, spec: ModelSpec, role: CalledRole = "llm") -> ChatModel:
        endpoint = self.endpoint(spec)
        return ChatModel(
            endpoint,
            slots=self.slots,
            limiter=self.limiter,
            ledger=self.ledger,
            role=role,
        )

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
        return self._default(keyed[0].name), keyed[0].key_variable

    def _default(self, provider: str) -> str:
        return f"{provider}:{PROVIDERS[provider].default_llm}"

    def _owns(self, spec: ModelSpec) -> bool:
        """Return whether the key of its role's setting is meant for *spec*."""
        if spec.source != "models.embedders_before":
            return True
        try:
            present = self.spec("embedder")
        except ConfigError:  # it is none that has a key
            return False
        return present is not None and _same_place(present, spec)

    def _shares(self, spec: ModelSpec) -> bool:
        """Return whether *spec* may be shown the key of the language model."""
        if spec.role == "llm":
            return True
        try:
            main = self.spec("llm")
        except ConfigError:
            return False
        return main is not None and _same_place(main, spec)


def _same_place(one: ModelSpec, other: ModelSpec) -> bool:
    return (one.provider, one.base_url) == (other.provider, other.base_url)
