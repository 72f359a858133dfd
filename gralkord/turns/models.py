"""What a process asks its models through: limits and a ledger that all processes share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from redis.asyncio import Redis

from gralkord.clock import Clock
from gralkord.config import RecallSettings, Settings
from gralkord.errors import ConfigError
from gralkord.mailbox.budgets import Budgets
from gralkord.mailbox.holds import ModelHolds
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.ledger import SpendBook
from gralkord.providers.base import LanguageModel, Reranker
from gralkord.providers.build import Builder
from gralkord.providers.embedders.choice import Embedders
from gralkord.providers.ledger import check_prices
from gralkord.providers.verbose import VerboseModel
from gralkord.turns.holds import SharedLimiter
from gralkord.turns.ledger import SharedLedger


@dataclass(frozen=True, slots=True)
class SharedModels:
    """The models of one process.

    Attributes:
        llm: The language model, or nothing.
        endpoints: What holds call it by.
        embedders: The embedder, and those of before.
        reranker: Puts what was recalled in order; nothing unless recalls are answered here.
        book: The ledger in the queue.
        budgets: What may be spent.
        ledger: What calls are reported to.
    """

    llm: LanguageModel | None
    endpoints: tuple[str, ...]
    embedders: Embedders
    reranker: Reranker | None
    book: SpendBook
    budgets: Budgets
    ledger: SharedLedger

    async def close(self) -> None:
        """Close the connections; tell the ledger what it was not told yet."""
        if self.llm is not None:
            await self.llm.close()
        await self.embedders.close()
        if self.reranker is not None:
            await self.reranker.close()
        await self.ledger.close()


def open_models(
    settings: Settings, environ: Mapping[str, str], queue: Redis, clock: Clock, *, refuse: bool
) -> SharedModels:
    """Return the models that the settings name; nothing is sent yet.

    Args:
        settings: What is configured.
        environ: Environment variables.
        queue: The queue Redis, where limits and ledger are.
        clock: For limits, and for the day of the ledger.
        refuse: Whether calls are refused when a budget is used up: in a worker, for who recalls is
            never refused.

    Raises:
        ConfigError: A model that cannot be, a key that is missing, or a price that is not known
            where there is a budget in dollars.
        StartError: A package that a model needs is missing.
    """
    keys = Keys()
    book, budgets = SpendBook(queue, keys), Budgets(settings.budget)
    ledger = SharedLedger(book, budgets if refuse else None, clock)
    limiter = SharedLimiter(ModelHolds(queue, keys), clock)
    builder = Builder.of(settings.models, environ, limiter, ledger)
    llm = builder.language_model()
    embedders = builder.embedders()
    reranker = None if refuse else _reranker(settings.recall, builder, llm)
    check_prices(settings.budget, builder.built)
    endpoints = llm.endpoints if llm else ()
    told = VerboseModel(llm) if llm and settings.test else llm
    return SharedModels(told, endpoints, embedders, reranker, book, budgets, ledger)


def _reranker(
    settings: RecallSettings, builder: Builder, llm: LanguageModel | None
) -> Reranker | None:
    """Return what recalls have their results put in order by.

    Raises:
        ConfigError: They are to be put in order, and there is no reranker.
    """
    if settings.rerank == "off":
        return None
    reranker = builder.reranker(llm)
    if reranker is None:
        raise ConfigError(
            f"recall.rerank is {settings.rerank}, but models.reranker names none",
            field="models.reranker",
            hint="name one, or set recall.rerank = off",
        )
    return reranker
