"""What the client asks of receipts and dead letters: pure functions, shared by both clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import orjson

from gralkord.client.answers import Failure, unexpected
from gralkord.client.calls import Call, milliseconds, reader
from gralkord.errors import BackendUnavailable, rebuild_error
from gralkord.models.jobs import Job, check_entry_id
from gralkord.models.letters import DeadLetter, DeadPage, DeadQuery, DeadResult, DeadSelection
from gralkord.wire import read_model

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_STREAM: Final = 600.0
# Twice what the daemon lets pass without a sign of life.
_SILENCE_SECONDS: Final = 30.0

_JOB: Final = reader(Job)


@dataclass(slots=True)
class Watch:
    """A job that is followed over streams of server-sent events, one after the other.

    Attributes:
        job: Its id.
        end: When it is followed no more, by the monotonic clock.
        last: What was said last.
    """

    job: str
    end: float
    last: Job | None = None
    _event: str = ""
    _data: list[str] = field(default_factory=list)

    def call(self, now: float) -> Call[bytes]:
        """Return the call that opens the next stream."""
        seconds = min(max(self.end - now, 0.001), LONGEST_STREAM)
        path = f"{_job_path(self.job)}/events?timeout_ms={max(milliseconds(seconds), 1)}"
        self._event, self._data = "", []
        return Call("GET", path, bytes, timeout=_SILENCE_SECONDS)

    def over(self, now: float) -> bool:
        """Whether there is nothing more to be told; one state is, however short the time."""
        return self.last is not None and (now >= self.end or self.last.final)

    def take(self, line: str) -> Job | None:
        """Take one line of the stream in; return the job if the line completes a new state.

        Raises:
            GralkorError: The daemon says that it cannot go on.
        """
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        elif not line:
            return self._complete()
        return None

    def _complete(self) -> Job | None:
        event, data = self._event, "\n".join(self._data).encode()
        self._event, self._data = "", []
        if event == "error":
            raise rebuild_error(orjson.loads(data)) or unexpected("it is no error")
        if event != "state":
            return None
        job = _JOB(data)
        if job == self.last:  # said again by the next stream
            return None
        self.last = job
        return job


def job(job_id: str) -> Call[Job]:
    """Return the call that asks for a job.

    Raises:
        InvalidInput: It is no id of one.
    """
    return Call("GET", _job_path(job_id), _JOB)


def ended(call: Call[Any]) -> Failure:
    """Return the failure of a stream that ended before its time."""
    error = BackendUnavailable("the daemon has ended the stream")
    return Failure(error, again=call.repeatable)


def dead_letters(**query: Any) -> Call[DeadPage]:
    """Return the call that lists dead letters.

    Raises:
        InvalidInput: A filter or the limit is not acceptable.
    """
    given = {name: value for name, value in query.items() if value is not None}
    read_model(DeadQuery, given)
    return Call("GET", f"/v1/dead?{urlencode(given)}", reader(DeadPage))


def dead_letter(letter: str) -> Call[DeadLetter]:
    """Return the call that shows one dead letter.

    Raises:
        InvalidInput: It is no id of one.
    """
    return Call("GET", f"/v1/dead/{check_entry_id(letter)}", reader(DeadLetter))


def retry_dead(letters: Iterable[str], **wanted: Any) -> Call[DeadResult]:
    """Return the call that puts dead letters back to work."""
    return _handle("retry", letters, wanted)


def drop_dead(letters: Iterable[str], **wanted: Any) -> Call[DeadResult]:
    """Return the call that deletes dead letters."""
    return _handle("drop", letters, wanted)


def _handle(what: str, letters: Iterable[str], wanted: dict[str, Any]) -> Call[DeadResult]:
    if isinstance(letters, str):  # its letters are no ids
        letters = [letters]
    given = {name: value for name, value in wanted.items() if value is not None}
    selection = read_model(DeadSelection, {"ids": list(letters), **given})
    # Sent twice, the second answer would say that there is no such letter.
    return Call(
        "POST",
        f"/v1/dead/{what}",
        reader(DeadResult),
        selection.model_dump_json(exclude_none=True).encode(),
        repeatable=False,
    )


def _job_path(job_id: str) -> str:
    return f"/v1/jobs/{check_entry_id(job_id)}"
