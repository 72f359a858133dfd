"""Settings of models: which there are, what they cost, and what may be spent on them."""

from __future__ import annotations

import json
from datetime import date
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, StringConstraints

from gralkord.config.base import MOST_WAITING, Place, Section, several
from gralkord.models import Identifier


def _sendable(value: dict[str, Any]) -> dict[str, Any]:
    """Refuse what TOML can say and a request cannot."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("must be JSON, which has no dates, times, `inf` or `nan`") from None
    return value


_FieldName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Price(Section):
    """What a model costs, in US dollars per million tokens."""

    input: float = Field(ge=0, le=1e6, description="Price of tokens sent.")
    output: float = Field(0.0, ge=0, le=1e6, description="Price of tokens written.")
    cached: float | None = Field(
        None,
        ge=0,
        le=1e6,
        description="Price of tokens sent that the provider had cached; default: as `input`.",
    )
    since: date | None = Field(None, description="The day from which this price holds.")


class ModelOptions(Section):
    """How one model is used. What is not set is left to the provider, or not limited."""

    requests_per_minute: int | None = Field(
        None, gt=0, le=MOST_WAITING, description="Calls a minute, of all processes together."
    )
    tokens_per_minute: int | None = Field(
        None, gt=0, le=MOST_WAITING, description="Tokens a minute, of all processes together."
    )
    concurrency: int | None = Field(
        None, gt=0, le=1_024, description="Calls at once, of all processes together."
    )
    timeout_seconds: float | None = Field(
        None, gt=0, le=3_600, description="Limit of one call; default: `models.timeout_seconds`."
    )
    thinking: bool = Field(
        False,
        description="Whether the model may think before it answers, where that can be chosen.",
    )
    fields: Annotated[dict[str, Any], AfterValidator(_sendable)] = Field(
        default_factory=dict, description="More fields of each request, as the provider names them."
    )
    rename: dict[_FieldName, _FieldName] = Field(
        default_factory=dict,
        description="Fields of each request that this server names otherwise; one inside another "
        "is named with a dot, as `options.num_predict`.",
    )
    drop: list[_FieldName] = Field(
        default_factory=list,
        description="Fields of each request that this server refuses, named likewise.",
    )
    price: Price | None = Field(None, description="What it costs; default: nothing is known.")
    profile: str | None = Field(
        None,
        description="How an embedder wants texts: `plain`, `e5`, `e5-instruct`, `qwen3` …; "
        "default: by the model's name.",
    )
    query_prefix: str | None = Field(None, description="Put before questions, over the profile's.")
    document_prefix: str | None = Field(
        None, description="Put before what is remembered, over the profile's."
    )
    dimension: int | None = Field(
        None, gt=0, le=16_384, description="Length of vectors to ask the embedder for."
    )


class Models(Section):
    """Which models do the work, one for each role, chosen independently."""

    llm: str | None = Field(
        None,
        description="Language model that understands: `PROVIDER:MODEL[@BASE_URL]` or `none`; "
        "default: that of the one provider whose key is set, else `none`.",
    )
    llm_small: str | None = Field(None, description="For small jobs; default: the same as `llm`.")
    embedder: str | None = Field(
        None,
        description="`local` (wordllama, nothing is downloaded), `PROVIDER:MODEL[@BASE_URL]`, "
        "`onnx:DIRECTORY`, `fastembed:MODEL` or `none`; default: `local`.",
    )
    embedders_before: Annotated[list[str], BeforeValidator(several)] = Field(
        default_factory=list,
        description="Embedders whose vectors some groups may still have, until `gralkord reembed`.",
    )
    reranker: str | None = Field(
        None,
        description="`llm`, `openai-compatible:MODEL@BASE_URL` or `none`; default: `none`. Recall "
        "asks it where `recall.rerank` says so.",
    )
    vision: str | None = Field(
        None,
        description="Model that describes images; `llm` is the language model's; default: `none`.",
    )
    api_key: SecretStr | None = Field(
        None, description="Key for `llm`, and for roles at the same address."
    )
    api_key_file: Place | None = Field(None, description="File that holds the key.")
    embedder_api_key: SecretStr | None = Field(None, description="Key for `embedder`.")
    embedder_api_key_file: Place | None = Field(None, description="File that holds that key.")
    reranker_api_key: SecretStr | None = Field(None, description="Key for `reranker`.")
    reranker_api_key_file: Place | None = Field(None, description="File that holds that key.")
    vision_api_key: SecretStr | None = Field(None, description="Key for `vision`.")
    vision_api_key_file: Place | None = Field(None, description="File that holds that key.")
    timeout_seconds: float = Field(120, gt=0, le=3_600, description="Limit of one model call.")
    concurrency: int = Field(8, gt=0, le=1_024, description="Model calls at once, per process.")
    options: dict[str, ModelOptions] = Field(
        default_factory=dict, description="How single models are used, by their spec."
    )


class BudgetLimits(Section):
    """What may be spent on models in one day, UTC."""

    usd: float | None = Field(None, ge=0, le=1e9, description="US dollars a day.")
    tokens: int | None = Field(None, ge=0, le=10**15, description="Tokens a day, both ways.")


class Budget(Section):
    """Daily budgets: one that is spent pauses understanding until midnight UTC, nothing else."""

    tenant: BudgetLimits = Field(default_factory=BudgetLimits, description="Of each tenant.")
    operator: BudgetLimits = Field(default_factory=BudgetLimits, description="Of each operator.")
    tenants: dict[Identifier, BudgetLimits] = Field(
        default_factory=dict, description="Of single tenants, instead."
    )
    operators: dict[Identifier, BudgetLimits] = Field(
        default_factory=dict, description="Of single operators, instead."
    )

    @property
    def in_dollars(self) -> bool:
        """Whether any of them is in dollars, so that prices have to be known."""
        several = (*self.tenants.values(), *self.operators.values())
        return any(each.usd is not None for each in (self.tenant, self.operator, *several))
