"""What all workers know together of the models: whose turn it is to ask, and whether one is out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from redis.asyncio import Redis

from gralkord.clock import to_iso
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.scripts import Scripts

OutageReason = Literal["model_outage", "model_misconfigured"]

# Nobody waits longer for a provider that refuses: the item waits in its mailbox instead ...
LONGEST_HOLD_MS: Final = 30_000
# ... nor for a limit that is known beforehand.
LONGEST_WAIT_MS: Final = 600_000
# Who has a place among the calls at once and is not heard of loses it.
PLACE_MS: Final = 10_000
# A hold is told of for so long after a refusal.
TOLD_SECONDS: Final = 10.0

Kind = Literal["turn", "line", "far", "out", "probe"]


class Asked(NamedTuple):
    """A call that asks for a turn.

    Attributes:
        endpoint: Where it goes.
        id: Tells it from every other call.
        tokens: How many it will use.
        most_requests: Calls a minute, as far as the settings limit them; 0: not at all.
        most_tokens: Tokens a minute, likewise.
        most_at_once: Calls at once, likewise.
    """

    endpoint: str
    id: str
    tokens: int = 0
    most_requests: int = 0
    most_tokens: int = 0
    most_at_once: int = 0


class Place(NamedTuple):
    """A place in the queue for one endpoint.

    Attributes:
        wait: Time until the call may be made, in ms; of the kind ``line`` how many stand before it.
        start: That moment, in ms of the queue's clock; 0: no turn is reserved.
        kind: ``turn``: it is that call's turn then; ``line``: others are before it; ``far``: too
            far off to be waited for; ``out``: the endpoint does not answer, and others try it;
            ``probe``: this call tries it.
        held: Whether the outcome has to be told.
        out: The endpoint that holds the understand lane, or nothing.
    """

    wait: int
    start: int
    kind: Kind
    held: bool
    out: str


class Said(NamedTuple):
    """What a provider says of its limits of one minute; -1: it does not say."""

    requests: int = -1
    requests_left: int = -1
    tokens: int = -1
    tokens_left: int = -1


_NOTHING: Final = Said()


@dataclass(frozen=True, slots=True)
class Outage:
    """A model does not answer, or refuses key or model.

    Attributes:
        reason: Which of the two.
        detail: What a call said last.
        since: When the first call failed.
        until: When the next item may try.
        lasted: Seconds since the first call failed, by the queue's clock.
    """

    reason: OutageReason
    detail: str
    since: datetime
    until: datetime
    lasted: float


@dataclass(frozen=True, slots=True)
class ModelState:
    """How the models are doing, for `status`."""

    state: Literal["ok", "rate_limited", "outage", "misconfigured"] = "ok"
    since: datetime | None = None
    until: datetime | None = None
    reason: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """Return the wire form; times as ISO 8601."""
        return {
            "state": self.state,
            "since": to_iso(self.since) if self.since else None,
            "until": to_iso(self.until) if self.until else None,
            "reason": self.reason,
        }


class ModelHolds:
    """The holds on model endpoints, in Redis, so that any number of workers keeps to one.

    An endpoint is named by `gralkord.groups.escape` of its base URL and model.
    """

    def __init__(self, client: Redis, keys: Keys, *, place_ms: int = PLACE_MS) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client, keys.prefix)
        self._place_ms = place_ms

    async def ask(self, call: Asked, reserved: int = 0) -> Place:
        """Ask for a turn, or look again whether the one *reserved* (its start) still holds.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        wait, start, kind, held, out = await self._scripts.call(
            "model_ask",
            call.endpoint,
            call.id,
            reserved,
            call.tokens,
            *call[3:],
            self._place_ms,
            LONGEST_HOLD_MS,
            LONGEST_WAIT_MS,
        )
        return Place(int(wait), int(start), kind.decode(), bool(held), out.decode())

    async def keep(self, call: Asked) -> None:
        """Note that *call* is under way.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        needs_place = int(call.most_at_once > 0)
        await self._scripts.call("model_keep", call.endpoint, call.id, self._place_ms, needs_place)

    async def limited(
        self, call: Asked, start: int, retry_after: float | None, said: Said = _NOTHING
    ) -> None:
        """Note that *call*, whose turn began at *start*, was refused: fewer requests, please.

        Args:
            call: Which was refused.
            start: In ms of the queue's clock.
            retry_after: Seconds that the provider names, if it does.
            said: What it says of its limits.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        wait = -1 if retry_after is None else int(retry_after * 1000)
        await self._scripts.call(
            "model_limited", call.endpoint, call.id, start, call.tokens, wait, *said
        )

    async def answered(
        self,
        call: Asked,
        start: int = 0,
        tokens: int | None = None,
        said: Said = _NOTHING,
        others: Collection[str] = (),
        *,
        lane: bool = True,
    ) -> bool:
        """Note that an endpoint has answered; whether an outage ended by that.

        Args:
            call: What was answered.
            start: When its turn began, in ms of the queue's clock; 0: it had none.
            tokens: How many it took, if that is known.
            said: What the provider says of its limits.
            others: Other endpoints in use: an outage of theirs goes on.
            lane: Whether the understand lane waits for such an endpoint.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        more = 0 if tokens is None else tokens - call.tokens
        return bool(
            await self._scripts.call(
                "model_answered", call.endpoint, call.id, start, more, *said, int(lane), *others
            )
        )

    async def failed(
        self,
        call: Asked,
        reason: OutageReason,
        detail: str,
        retry_after: float | None = None,
        *,
        start: int = 0,
        lane: bool = True,
    ) -> int:
        """Note that an endpoint does not answer, or refuses key or model.

        Args:
            call: Which failed.
            reason: Which of the two.
            detail: What happened, for `status`; no text of memories.
            retry_after: Seconds that the provider names, if it does.
            start: When its turn began, in ms of the queue's clock.
            lane: Whether the understand lane is to wait for it.

        Returns:
            How many tries have failed since the outage began; 0 if this is one of several that
            failed together.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        least = int((retry_after or 0) * 1000)
        told = (call.id, start, call.tokens, int(lane))
        return int(
            await self._scripts.call("model_failed", call.endpoint, reason, detail, least, *told)
        )

    async def withdrawn(self, call: Asked, start: int, *, sent: bool) -> None:
        """Note that nobody waits for *call* any more.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        told = (call.endpoint, call.id, start, call.tokens, int(sent))
        await self._scripts.call("model_withdrawn", *told)

    async def outage(self) -> Outage | None:
        """Return the outage, if there is one.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        with queue_errors():
            pipe = self._client.pipeline(transaction=False)
            pipe.hgetall(self._keys.named("model:outage"))
            pipe.time()
            raw, now = await pipe.execute()
        record = _texts(raw)
        if "since" not in record:
            return None
        return Outage(
            reason="model_outage" if record["reason"] == "model_outage" else "model_misconfigured",
            detail=record["detail"],
            since=_moment(record["since"]),
            until=_moment(record["until"]),
            lasted=now[0] + now[1] / 1e6 - float(record["since"]) / 1000,
        )

    async def state(self, endpoints: Sequence[str]) -> ModelState:
        """Return how the models at *endpoints* are doing.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        outage = await self.outage()
        if outage is not None:
            state: Any = outage.reason.removeprefix("model_")
            return ModelState(state, outage.since, outage.until, outage.detail)
        with queue_errors():
            pipe = self._client.pipeline(transaction=False)
            for endpoint in endpoints:
                pipe.hgetall(self._keys.pace(endpoint))
            pipe.time()
            *raw, (seconds, _) = await pipe.execute()
        paces = [_texts(each) for each in raw]
        # What follows an answer is soon over.
        held = [
            pace
            for pace in paces
            if "since" in pace
            and max(float(pace["until"]), float(pace["limited"])) / 1000 > seconds - TOLD_SECONDS
        ]
        if not held:
            return ModelState()
        longest = max(held, key=lambda pace: float(pace["until"]))
        return ModelState(
            "rate_limited",
            _moment(longest["since"]),
            _moment(longest["until"]),
            f"the provider asks for fewer requests: one each {float(longest['gap']):.0f} ms",
        )


def _texts(raw: Any) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in raw.items()}


def _moment(milliseconds: str) -> datetime:
    return datetime.fromtimestamp(float(milliseconds) / 1000, UTC)
