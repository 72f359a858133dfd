"""A retrieval evaluation from files to figures: import on the real path, ask, score."""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gralkord.client.client import AsyncClient
from gralkord.client.import_locomo import locomo_turns, read_samples
from gralkord.client.imports import Import
from gralkord.errors import GralkorError
from gralkord.evaluation.locomo import Question, read_questions
from gralkord.evaluation.retrieval import ask, summarize
from gralkord.evaluation.stack import Stack, temporary_data_dir

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from gralkord.client.import_locomo import Sample

AGENT = "evaluation"


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation to import and the questions about it."""

    sample: Sample
    asked: tuple[Question, ...]

    @property
    def turns(self) -> int:
        """How many turns will be imported."""
        return self.sample.turns

    @property
    def questions(self) -> int:
        """How many questions will be asked."""
        return sum(bool(question.evidence) for question in self.asked)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What came out.

    Attributes:
        summary: The figures, as `gralkord.evaluation.retrieval.summarize` makes them.
        left_out: Questions that were not asked, because they name no evidence readably.
    """

    summary: dict[str, Any]
    left_out: int


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
    on_progress: Callable[[int], None] = lambda _: None,
    on_kept: Callable[[Path], None] | None = None,
) -> Evaluated:
    """Import *conversations*, each for an operator of its own, and ask all their questions.

    Args:
        conversations: What to import and to ask.
        url: A running daemon; with neither this nor *data_dir*, one is started and stopped again.
        data_dir: The data directory of a running daemon.
        on_progress: Called with the number of turns imported or questions asked.
        on_kept: If given, the started daemon's data directory is kept, and this is told where.

    Raises:
        GralkorError: A turn was refused, or a part does not work.
    """
    mark = secrets.token_hex(4) if url or data_dir else ""
    scores = []
    async with _client(url, data_dir, on_kept) as client:
        for number, conversation in enumerate(conversations):
            operator = "-".join(filter(None, [conversation.sample.id, str(number), mark]))
            await _import(client, conversation.sample, operator, on_progress)
            scores += await ask(client, operator, conversation.asked, on_progress)
    asked = sum(len(conversation.asked) for conversation in conversations)
    return Evaluated(summarize(scores), left_out=asked - len(scores))


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


@asynccontextmanager
async def _client(
    url: str | None, data_dir: Path | None, on_kept: Callable[[Path], None] | None
) -> AsyncIterator[AsyncClient]:
    if url or data_dir:
        async with AsyncClient(url, data_dir=data_dir) as client:
            yield client
        return
    with temporary_data_dir(keep=on_kept is not None) as path:
        async with Stack(path, ["--model", "none"]) as stack:
            endpoint = stack.endpoint
            async with AsyncClient(endpoint.url, endpoint.token) as client:
                yield client
        if on_kept:
            on_kept(path)
