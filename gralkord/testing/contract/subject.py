"""A client under test, asked without `await` whichever kind it is."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import (
    AsyncGenerator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
)
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gralkord.models import RecallResult
    from gralkord.models.jobs import Job

# What a loaded machine may need until a turn is recallable.
PATIENCE_SECONDS: Final = 30.0


class Subject:
    """A client, its own or an asynchronous one, with names that nobody else uses.

    Its methods are those of the client: what they return is waited for, and what they yield comes
    as a list.

    Args:
        client: An object with the methods of `gralkord.Client` or `gralkord.AsyncClient`.

    Attributes:
        ada: An operator.
        bob: Another one.
        session: A session; it becomes one of `ada`'s by `say`.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._runner: asyncio.Runner | None = None
        self.ada, self.bob, self.session = (self.new_name(name) for name in ("ada", "bob", "talk"))

    @staticmethod
    def new_name(name: str) -> str:
        """Return a name that begins so and that no other test uses, on a daemon that is kept."""
        return f"{name}-{uuid.uuid4().hex[:12]}"

    def say(self, turn: Any, operator: str | None = None, **more: Any) -> Any:
        """Capture a turn of `ada`, or of *operator* in a session of its own, and wait for it.

        Returns:
            The receipt; what was said is recallable.
        """
        session = self.session if operator is None else f"talk-of-{operator}"
        receipt = self.capture(session, operator or self.ada, "helper", "Ada", turn, **more)
        self.settle(receipt, session)
        return receipt

    def hand_over(self, content: Any, operator: str | None = None, **more: Any) -> Any:
        """Ingest something of `ada`, or of *operator*, and wait until it is recallable.

        Returns:
            The receipt.
        """
        receipt = self.ingest(operator or self.ada, content, "a note", **more)
        self.settle(receipt)
        return receipt

    def settle(self, receipt: Any, session: str | None = None) -> None:
        """Wait until what a receipt is for is recallable.

        Args:
            receipt: Of a capture or an ingest.
            session: The session; that of an ingest stands in its receipt.
        """
        if hasattr(
            self._client, "watch_job"
        ):  # it tells sooner than a flush, which waits for disks
            self._settle(self._client.watch_job(receipt.receipt, PATIENCE_SECONDS), _recallable)
        else:
            flushed = self.flush_and_await(session or receipt.session, PATIENCE_SECONDS, "indexed")
            assert flushed.complete, f"not recallable after {PATIENCE_SECONDS} s: {flushed}"

    def ask(self, query: str, operator: str | None = None, **more: Any) -> RecallResult:
        """Return the whole answer to a question of `ada`, or of *operator*."""
        found: RecallResult = self.recall(operator or self.ada, query, **more)
        return found

    def texts(self, query: str, operator: str | None = None, **more: Any) -> list[str]:
        """Return the texts that are recalled, in their order."""
        return [memory.text for memory in self.ask(query, operator, **more).results]

    def close(self) -> None:
        """Close the client."""
        self.__getattr__("close")()
        if self._runner is not None:
            self._runner.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        return lambda *args, **named: self._settle(method(*args, **named))

    def _settle(self, value: Any, enough: Callable[[Any], bool] = lambda _: False) -> Any:
        """Return what a method returned or, of what it yields, all up to the first *enough*."""
        if isinstance(value, AsyncGenerator):
            return self._run(_gather(value, enough))
        if isinstance(value, Generator):
            with closing(value):
                return list(_upto(value, enough))
        return self._run(_await(value)) if inspect.isawaitable(value) else value

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(work)


def _recallable(job: Job) -> bool:
    assert job.state != "dead", f"it cannot be kept: {job.last_error}"
    return job.state in {"indexed", "understood"}


def _upto(values: Iterable[Any], enough: Callable[[Any], bool]) -> Iterator[Any]:
    for value in values:
        yield value
        if enough(value):
            return


async def _await(value: Any) -> Any:
    return await value


async def _gather(values: AsyncGenerator[Any], enough: Callable[[Any], bool]) -> list[Any]:
    found = []
    async with aclosing(values):
        async for value in values:
            found.append(value)
            if enough(value):
                break
    return found
