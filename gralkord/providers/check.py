"""Look at every role before anything starts, so that each mistake is told at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from gralkord.providers.build import Builder
from gralkord.providers.ledger import check_prices
from gralkord.providers.specs import ROLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gralkord.config import Settings
    from gralkord.providers.specs import Role

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a role has.

    Attributes:
        spec: As it is written, or as it follows from what is written; ``none``: nothing.
        model: The name of the model alone.
    """

    spec: str = "none"
    model: str = "none"


def check_roles(settings: Settings, environ: Mapping[str, str]) -> dict[Role, Chosen]:
    """Return what each role has.

    Every role is built as it will be, so that what is wrong with its spec, its key, its options,
    its price or its packages is found. Nothing is sent.

    Args:
        settings: What is configured.
        environ: Environment variables.

    Raises:
        ConfigError: A role cannot be filled as it is written, or the price of a model is not known
            where there is a budget in dollars; the setting or variable is named.
        StartError: A package or a file that a role needs is missing.
    """
    builder = Builder.of(settings.models, environ)
    model = builder.language_model()
    builder.embedders()
    builder.reranker(model)
    builder.vision()
    builder.reranker()
    builder.vision()
    check_prices(settings.budget, builder.built)
    for written in idle_options(builder):
        log.warning("model_options_of_no_role", spec=written)
    found = {role: _chosen(builder, role) for role in ROLES}
    if found["llm_small"] == Chosen():
        found["llm_small"] = found["llm"]
    return found


def idle_options(builder: Builder) -> list[str]:
    """Return the entries of `models.options` that are of no model which *builder* has built."""
    used = {name for each in builder.built for name in (each.spec, each.ledger_name)}
    used |= {builder.written("embedder")[0].strip() or "local", *builder.models.embedders_before}
    return [written for written in builder.models.options if written not in used]


def _chosen(builder: Builder, role: Role) -> Chosen:
    written = builder.written(role)[0].strip()
    if role == "embedder" and not written:
        written = "local"
    if written in {"", "none"}:
        return Chosen()
    if role == "embedder" and written.partition(":")[0] in {"local", "onnx", "fastembed"}:
        return Chosen(written, written)
    if role in {"reranker", "vision"} and written == "llm":
        return Chosen(written, written)
    spec = builder.spec(role)
    return Chosen(written, spec.model) if spec else Chosen()
