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

# Nobody waits longer for a turn while holding a lease: the item waits in its mailbox instead.
LONGEST_TURN_MS: Final = 30_000


class Place(NamedTuple):
    """A place in the queue for one endpoint.

    Attributes:
        wait: Time until the call may be made, in ms; beyond `LONGEST_TURN_MS` nothing is reserved.
        start: That moment, in ms of the queue's clock.
        paced: Whether calls are paced at all.
        out: The endpoint that is known to be out, or nothing.
    """

    wait: int
    start: int
    paced: bool
    out: str


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

    An endpoint is named by `gralkord.groups.escape` of its base URL.
    """

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client, keys.prefix)

    async def ask(self, endpoint: str, reserved: int = 0) -> Place:
        """Reserve a turn, or look again whether the one *reserved* (its start) still holds.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        wait, start, paced, out = await self._scripts.call(
            "model_ask", endpoint, LONGEST_TURN_MS, reserved
        )
        return Place(int(wait), int(start), bool(paced), out.decode())

    async def limited(self, endpoint: str, start: int, retry_after: float | None) -> None:
        """Note that the call whose turn began at *start* was refused: fewer requests, please.

        Args:
            endpoint: Who refused it.
            start: In ms of the queue's clock.
            retry_after: Seconds that the provider names, if it does.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        wait = -1 if retry_after is None else int(retry_after * 1000)
        await self._scripts.call("model_limited", endpoint, start, wait)

    async def answered(self, endpoint: str, others: Collection[str] = ()) -> bool:
        """Note that an endpoint has answered; whether an outage ended by that.

        Args:
            endpoint: Who answered.
            others: Other endpoints in use: an outage of theirs goes on.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        return bool(await self._scripts.call("model_answered", endpoint, *others))

    async def failed(
        self, endpoint: str, reason: OutageReason, detail: str, retry_after: float | None = None
    ) -> int:
        """Note that an endpoint does not answer, or refuses key or model.

        Args:
            endpoint: Who fails.
            reason: Which of the two.
            detail: What happened, for `status`; no text of memories.
            retry_after: Seconds that the provider names, if it does.

        Returns:
            How many tries have failed since the outage began; 0 if this is one of several that
            failed together.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        least = int((retry_after or 0) * 1000)
        return int(await self._scripts.call("model_failed", endpoint, reason, detail, least))

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
            paces = [_texts(raw) for raw in await pipe.execute()]
        held = [pace for pace in paces if "since" in pace]
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
