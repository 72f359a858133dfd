"""What the client sends and how it reads the answers: pure functions, shared by both clients."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, cast

import orjson
from pydantic import BaseModel, ValidationError

from gralkord.client.answers import unexpected
from gralkord.errors import GralkorError, InvalidInput, rebuild_error
from gralkord.models import (
    Capture,
    CaptureReceipt,
    FlushRequest,
    FlushResult,
    Message,
    RecallRequest,
    RecallResult,
    Until,
)
from gralkord.models.places import place_turn_id
from gralkord.wire import read_model

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

Answer = TypeVar("Answer")
AnswerModel = TypeVar("AnswerModel", bound=BaseModel)

Turn: TypeAlias = "str | Sequence[Message | Mapping[str, Any]]"
Outcome: TypeAlias = CaptureReceipt | GralkorError

MAX_BATCH: Final = 100
MAX_BATCH_BYTES: Final = 1_500_000

# What a waiting flush may take longer than it was told to wait.
GRACE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """One request, and how to read its answer.

    Attributes:
        method: HTTP method.
        path: Path of the operation.
        read: Makes the answer from the body.
        body: JSON, or nothing.
        timeout: Seconds to wait for the answer; none: as the client is set.
        repeatable: Whether it may be sent again after a failure that leaves open whether it
            was done.
        read_also: A status that is no success, yet has an answer to read.
    """

    method: str
    path: str
    read: Callable[[bytes], Answer]
    body: bytes = b""
    timeout: float | None = None
    repeatable: bool = True
    read_also: int | None = None


@dataclass(slots=True)
class Batch:
    """A part of many captures that fits into one request.

    Attributes:
        outcomes: One place for each capture, already filled where it is refused without being sent.
        bodies: The JSON of the others.
        size: Bytes of those.
    """

    outcomes: list[Outcome | None] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    size: int = 0

    @property
    def waiting(self) -> int:
        """How many captures are to be sent."""
        return len(self.bodies)

    def call(self, places: Sequence[int]) -> Call[list[Outcome]]:
        """Return the call that sends the captures that stand in *places* of `bodies`."""
        body = b'{"captures":[' + b",".join(self.bodies[place] for place in places) + b"]}"
        count = len(places)
        return Call("POST", "/v1/captures", lambda got: _read_batch(got, count), body)

    def fits(self, body: bytes) -> bool:
        """Return whether one more capture may go into the same request."""
        return not self.bodies or self.size + len(body) <= MAX_BATCH_BYTES

    def add(self, body: bytes) -> None:
        """Add a capture."""
        self.outcomes.append(None)
        self.bodies.append(body)
        self.size += len(body) + 1


def capture(
    turn: Turn,
    *,
    lenses: Iterable[str] = (),
    event_time: datetime | str | None = None,
    **fields: Any,
) -> Call[CaptureReceipt]:
    """Return the call that captures one turn. It names the turn, so that repeats are one turn.

    Raises:
        InvalidInput: It is not a capture.
    """
    raw = capture_values(turn, lenses=lenses, event_time=event_time, **fields)
    return Call("POST", "/v1/capture", reader(CaptureReceipt), _capture_body(raw))


def capture_values(
    turn: Turn,
    *,
    lenses: Iterable[str] = (),
    event_time: datetime | str | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return one turn as the values of a capture, which may be none."""
    return {
        **fields,
        "turn": _messages(turn),
        "lenses": names_of(lenses),
        "event_time": event_time,
    }


def capture_all(
    captures: Iterable[Capture | Mapping[str, Any]],
    on_progress: Callable[[int], None] | None = None,
) -> Generator[Call[list[Outcome]], list[Outcome] | GralkorError, list[Outcome]]:
    """Capture many turns in their order: yields calls, is sent their answers, returns the outcomes.

    A failure for now is the outcome of each turn that it met and of all after them, which are not
    sent, so that the order holds when they are sent again.

    Args:
        captures: The turns.
        on_progress: Called with the number of turns handled so far.

    Raises:
        GralkorError: The daemon refuses the caller, not the turns.
    """
    outcomes: list[Outcome] = []
    broken: GralkorError | None = None
    for batch in _batches(captures):
        answer: Sequence[Outcome | None] = [None] * batch.waiting
        if broken is None and batch.waiting:
            answer, broken = yield from _send(batch)
        answer = [known or broken for known in answer]
        answers = iter(answer)
        found = [next(answers) if known is None else known for known in batch.outcomes]
        outcomes += cast("list[Outcome]", found)
        if on_progress:
            on_progress(len(outcomes))
    return outcomes


def _send(
    batch: Batch,
) -> Generator[
    Call[list[Outcome]],
    list[Outcome] | GralkorError,
    tuple[list[Outcome | None], GralkorError | None],
]:
    """Send a batch, and what is refused for now again as long as some of it is taken.

    When all of it is refused that is the call's own failure, which is tried again as any other.

    Returns:
        The outcomes, and the failure for now of those that have none.
    """
    outcomes: list[Outcome | None] = [None] * batch.waiting
    places = list(range(batch.waiting))
    while places:
        answer = yield batch.call(places)
        if isinstance(answer, GralkorError):
            if not answer.retry:
                raise answer
            return outcomes, answer
        refused = {
            place: outcome
            for place, outcome in zip(places, answer, strict=True)
            if isinstance(outcome, GralkorError) and outcome.retry
        }
        for place, outcome in zip(places, answer, strict=True):
            outcomes[place] = None if place in refused else outcome
        if len(refused) == len(places):
            return outcomes, refused[places[0]]
        places = list(refused)
    return outcomes, None


def milliseconds(seconds: float) -> int:
    """Return a timeout of so many seconds in ms.

    Raises:
        InvalidInput: It is no finite number.
    """
    if not math.isfinite(seconds):
        raise InvalidInput("timeout: must be a finite number of seconds", field="timeout")
    return round(seconds * 1000)


def flush(
    session: str,
    *,
    operator: str | None,
    until: Until,
    timeout: float | None = None,
) -> Call[FlushResult]:
    """Return the call that flushes a session, and waits for it up to *timeout* seconds if given.

    Raises:
        InvalidInput: A name or the timeout is not acceptable.
    """
    raw: dict[str, Any] = {"session": session, "until": until}
    if operator is not None:
        raw["operator"] = operator
    if timeout is not None:
        raw |= {"wait": True, "timeout_ms": milliseconds(timeout)}
    request = read_model(FlushRequest, raw)
    return Call(
        "POST",
        "/v1/flush",
        reader(FlushResult),
        request.model_dump_json(exclude_none=True).encode(),
        timeout=None if timeout is None else timeout + GRACE_SECONDS,
        repeatable=False,
    )


def recall(operator: str, query: str, **options: Any) -> Call[RecallResult]:
    """Return the call that recalls; *options* are the other fields of `RecallRequest`.

    Raises:
        InvalidInput: A field is not acceptable.
    """
    raw = {name: value for name, value in options.items() if value is not None}
    raw |= {"operator": operator, "query": query}
    raw |= {name: names_of(raw.get(name, ())) for name in ("lenses", "kinds")}
    request = read_model(RecallRequest, raw)
    seconds = None if request.deadline_ms is None else request.deadline_ms / 1000 + GRACE_SECONDS
    body = request.model_dump_json(exclude_none=True).encode()
    return Call("POST", "/v1/recall", reader(RecallResult), body, timeout=seconds)


def backfill(operator: str | None) -> Call[dict[str, Any]]:
    """Return the call that queues what was never understood, of one operator or of all."""
    body = orjson.dumps({} if operator is None else {"operator": operator})
    return Call("POST", "/v1/backfill", read_object, body, repeatable=False)


def status() -> Call[dict[str, Any]]:
    """Return the call that asks what runs where, and how much waits."""
    return Call("GET", "/v1/status", read_object)


def ready() -> Call[dict[str, Any]]:
    """Return the call that asks whether captures can be stored."""
    return Call("GET", "/readyz", read_object, read_also=503)


def reader(model: type[AnswerModel]) -> Callable[[bytes], AnswerModel]:
    """Return a function that reads a *model*; fields of a newer daemon are ignored."""

    def read(body: bytes) -> AnswerModel:
        try:
            return model.model_validate_json(body, extra="ignore")
        except ValidationError as error:
            raise unexpected(f"it is no {model.__name__}") from error

    return read


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in *body*.

    Raises:
        GralkorError: There is none.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise unexpected("it is no JSON") from error
    if not isinstance(value, dict):
        raise unexpected("it is no object")
    return value


def _batches(captures: Iterable[Capture | Mapping[str, Any]]) -> Iterator[Batch]:
    batch = Batch()
    for one in captures:
        try:
            body = _capture_body(one)
        except InvalidInput as error:
            batch.outcomes.append(error)
            continue
        if len(batch.outcomes) >= MAX_BATCH or not batch.fits(body):
            yield batch
            batch = Batch()
        batch.add(body)
    if batch.outcomes:
        yield batch


def _read_batch(body: bytes, count: int) -> list[Outcome]:
    results = read_object(body).get("results")
    if not isinstance(results, list) or len(results) != count:
        raise unexpected(f"it has not one result for each of {count} captures")
    return [_outcome(index, result) for index, result in enumerate(results)]


def _outcome(index: int, result: dict[str, Any]) -> Outcome:
    if (receipt := result.get("receipt")) is not None:
        return CaptureReceipt.model_validate(receipt, extra="ignore")
    error = rebuild_error(result.get("error"))
    if error is None:
        raise unexpected(f"result {index} is neither receipt nor error")
    # The index counts within one request, which the caller has never seen.
    prefix = f"captures.{index}."
    error.message = error.message.removeprefix(prefix)
    error.field = error.field and error.field.removeprefix(prefix)
    return error


def _messages(turn: Any) -> Any:
    """Return the messages of a turn as JSON values; the model refuses what is none."""
    if isinstance(turn, str):
        return [{"role": "user", "content": turn}]
    if not isinstance(turn, Sequence):
        return turn
    return [
        message.model_dump(exclude_none=True) if isinstance(message, Message) else message
        for message in turn
    ]


def names_of(values: Any) -> Any:
    """Return names as a list. A text is left for the model to refuse: its letters are no names."""
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else values


def _capture_body(one: Capture | Mapping[str, Any]) -> bytes:
    return orjson.dumps(read_capture(one)[0])


def read_capture(one: Capture | Mapping[str, Any]) -> tuple[dict[str, Any], Capture]:
    """Return the values of *one* for its JSON, with an id for the turn, and the capture it is.

    The values of a mapping are as they were given, not normalised: a time without a zone is noted.

    Raises:
        InvalidInput: It is not a capture.
    """
    if isinstance(one, Capture):
        raw = one.model_dump(exclude_none=True, exclude_defaults=True)
        return {"turn_id": place_turn_id(one) or uuid.uuid4().hex} | raw, one
    if not isinstance(one, Mapping):
        raise InvalidInput("a capture must be a Capture or a mapping")
    raw = {name: value for name, value in one.items() if value is not None}
    if "turn" in raw:
        raw["turn"] = _messages(raw["turn"])
    capture = read_model(Capture, raw)
    raw.setdefault("turn_id", place_turn_id(capture) or uuid.uuid4().hex)
    return raw, capture
