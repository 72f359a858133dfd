"""Which models a daemon's recalls may ask, by its settings."""

from __future__ import annotations

import pytest

from gralkord.clock import SystemClock
from gralkord.config import Settings
from gralkord.daemon.build import build_daemon
from gralkord.errors import ConfigError, NoModel
from gralkord.mailbox.connection import open_queue
from gralkord.testing.twin.clients import InMemoryClient
from gralkord.turns.models import open_models

AT = "openai-compatible:m@http://127.0.0.1:1"


def settings(models, **recall):
    return Settings.model_validate(
        {
            "queue": {"host": "127.0.0.1"},
            "graph": {"host": "127.0.0.1"},
            "models": {"embedder": "none", **models},
            "recall": recall,
        }
    )


def test_what_cannot_be_interpreted_is_found_at_the_start():
    """`on` without a model would fail each recall."""
    with pytest.raises(ConfigError) as refusal:
        build_daemon(settings({"llm": "none"}, interpret="on"), {})
    assert refusal.value.field == "recall.interpret"


def test_an_order_needs_a_reranker():
    """To have results put in order by nobody is refused at the start, by name."""
    with pytest.raises(ConfigError) as refusal:
        build_daemon(settings({"llm": AT}, rerank="full_reorder"), {})
    assert refusal.value.field == "models.reranker"


@pytest.mark.parametrize(
    ("recall", "refuse", "there"),
    [
        ({}, False, False),
        ({"rerank": "full_reorder"}, True, False),
        ({"rerank": "relevant_only"}, False, True),
    ],
)
async def test_a_reranker_is_opened_where_it_is_asked(recall, refuse, there):
    """In a daemon that reranks, and not in workers."""
    chosen = settings({"llm": AT, "reranker": "llm"}, **recall)
    queue = open_queue(chosen.queue)
    models = open_models(chosen, {}, queue, SystemClock(), refuse=refuse)
    assert (models.reranker is not None) is there
    await models.close()
    await queue.aclose()


async def test_the_twin_has_no_model():
    """It says so to who insists, as a daemon without one does."""
    async with InMemoryClient() as memory:
        with pytest.raises(NoModel):
            await memory.recall("ann", "boat", interpret="on")
        assert (await memory.recall("ann", "boat", interpret="auto")).interpreted is False
