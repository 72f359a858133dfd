"""A retrieval evaluation from conversations to figures: import on the real path, ask, score."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redis.asyncio import Redis

from gralkord.client.client import AsyncClient
from gralkord.client.import_locomo import locomo_turns, read_samples
from gralkord.client.imports import Import
from gralkord.errors import GralkorError, Transient
from gralkord.evaluation.locomo import read_questions
from gralkord.evaluation.retrieval import ask
from gralkord.evaluation.sets import Conversation
from gralkord.evaluation.stack import Stack, temporary_data_dir
from gralkord.evaluation.summary import summarize

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from gralkord.client.import_locomo import Sample
    from gralkord.evaluation.retrieval import Score
    from gralkord.evaluation.sets import Told

AGENT = "evaluation"
# Memories that are added at the same time: they wait for the graph's disk together.
TOLD_AT_ONCE = 32
TELL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What came out.

    Attributes:
        summary: The figures, as `gralkord.evaluation.summary.summarize` makes them.
        left_out: Questions that were not asked, because they name no evidence readably.
        scores: What came of each question.
    """

    summary: dict[str, Any]
    left_out: int
    scores: Sequence[Score] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the machine form: the figures, and what came of each question."""
        return self.summary | {"records": [score.to_dict() for score in self.scores]}


def read_conversations(files: Iterable[Path]) -> list[Conversation]:
    """Return the conversations in *files*, with their questions.

    Raises:
        InvalidInput: A file is not of the format; the message says which and where.
    """
    samples = [sample for file in files for sample in read_samples(file)]
    return [Conversation(sample, tuple(read_questions(sample))) for sample in samples]


async def evaluate(
    conversations: Sequence[Conversation],
    *,
    url: str | None = None,
    data_dir: Path | None = None,
    config: Path | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
    on_kept: Callable[[Path], None] | None = None,
) -> Evaluated:
    """Import *conversations*, each for an operator of its own, and ask all their questions.

    Args:
        conversations: What to import and to ask.
        url: A running daemon; with neither this nor *data_dir*, one is started and stopped again.
        data_dir: The data directory of a running daemon.
        config: Settings of the daemon that is started; it has no language model in any case.
        on_progress: Called with the number of turns imported or questions asked.
        on_kept: If given, the started daemon's data directory is kept, and this is told where.

    Raises:
        GralkorError: A turn was refused, or a part does not work.
    """
    mark = secrets.token_hex(4) if url or data_dir else ""
    scores = []
    async with _client(url, data_dir, config, on_kept) as client:
        for number, conversation in enumerate(conversations):
            operator = "-".join(filter(None, [conversation.sample.id, str(number), mark]))
            await _import(client, conversation.sample, operator, on_progress)
            await _tell(client, conversation, operator, on_progress)
            scores += await ask(client, operator, conversation.asked, on_progress)
    asked = sum(len(conversation.asked) for conversation in conversations)
    names = {"sets": [conversation.sample.id for conversation in conversations]}
    return Evaluated(summarize(scores) | names, asked - len(scores), scores)


async def _import(
    client: AsyncClient, sample: Sample, operator: str, on_progress: Callable[[int], None]
) -> None:
    reasons: list[str] = []
    run = Import(
        client,
        on_progress=on_progress,
        on_rejected=lambda turn: reasons.append(f"{turn.where}: {turn.reason}"),
    )
    await run.run(locomo_turns(sample, operator=operator, agent=AGENT))
    if reasons:
        raise GralkorError(f"{sample.id}: {len(reasons)} turns were not imported: {reasons[0]}")


async def _tell(
    client: AsyncClient,
    conversation: Conversation,
    operator: str,
    on_progress: Callable[[int], None],
) -> None:
    room = asyncio.Semaphore(TOLD_AT_ONCE)

    async def tell(memory: Told) -> None:
        async with room:
            result = await client.add_memory(
                operator,
                memory.text,
                kind=memory.kind,
                event_time=memory.time,
                source=conversation.sample.id,
                offset=memory.id,
                timeout=TELL_SECONDS,
            )
        if not result.complete:
            raise Transient(f"memory {memory.id!r} was not written in {TELL_SECONDS:g} s")
        on_progress(1)

    try:
        async with asyncio.TaskGroup() as telling:
            for memory in conversation.told:
                telling.create_task(tell(memory))
    except* GralkorError as failed:
        raise failed.exceptions[0] from None


@asynccontextmanager
async def _client(
    url: str | None,
    data_dir: Path | None,
    config: Path | None,
    on_kept: Callable[[Path], None] | None,
) -> AsyncIterator[AsyncClient]:
    if url or data_dir:
        async with AsyncClient(url, data_dir=data_dir) as client:
            yield client
        return
    with temporary_data_dir(keep=on_kept is not None) as path:
        options = ["--config", str(config)] if config else []
        async with Stack(path, ["--model", "none", *options]) as stack:
            await _sync_at_once(stack)
            endpoint = stack.endpoint
            async with AsyncClient(endpoint.url, endpoint.token) as client:
                yield client
        if on_kept:
            on_kept(path)


async def _sync_at_once(stack: Stack) -> None:
    """Have the graph sync its file with each write; else each memory waits up to a second."""
    if not stack.graph_socket.exists():
        return  # its configuration names a graph elsewhere, which is set up by others
    async with Redis(unix_socket_path=str(stack.graph_socket)) as graph:
        await graph.config_set("appendfsync", "always")
