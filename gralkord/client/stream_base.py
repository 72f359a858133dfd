"""What the synchronous and the asynchronous direct producer share."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson
from pydantic import SecretStr, ValidationError

from gralkord.client.answers import Failure
from gralkord.client.entries import DURABILITY, OnePart, command_start
from gralkord.client.ingest import ingest_values
from gralkord.client.sockets import PRODUCER_USER, find_queue_socket
from gralkord.client.transport import Retry
from gralkord.config import Server
from gralkord.errors import ConfigError, GralkorError
from gralkord.groups import DEFAULT_TENANT
from gralkord.mailbox.connection import connection_options
from gralkord.mailbox.keys import Keys
from gralkord.models import FlushRequest
from gralkord.models.base import check_id
from gralkord.models.ingest import IngestReceipt
from gralkord.wire import check_event_time, read_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gralkord.client.calls import Outcome
    from gralkord.models import CaptureReceipt
    from gralkord.models.ingested import Ingested

_DEFAULT_PORT: Final = 6379


class Part(Protocol):
    """What is written together."""

    @property
    def replies(self) -> int:
        """How many replies it gets."""
        ...

    def packed(self) -> bytes:
        """Return the commands that write what is not written yet."""
        ...

    def take(self, replies: Sequence[Any]) -> GralkorError | None:
        """Take note of the replies; return why something is still not written, or nothing."""
        ...


class Stream:
    """Where the stream is, and what is said to it; the connection is its heirs'."""

    def __init__(
        self,
        host: str | None = None,
        port: int = _DEFAULT_PORT,
        *,
        socket: Path | str | None = None,
        username: str | None = None,
        password: str | None = None,
        tls: bool = False,
        tls_ca: Path | str | None = None,
        data_dir: Path | str | None = None,
        tenant: str = DEFAULT_TENANT,
        retry: Retry | None = None,
    ) -> None:
        if host is None and socket is None:
            socket = find_queue_socket(data_dir, os.environ)
            username = username or PRODUCER_USER
        try:
            server = Server(
                host=host,
                port=port,
                socket=Path(socket) if socket else None,
                username=username,
                password=SecretStr(password) if password else None,
                tls=tls,
                tls_ca=Path(tls_ca) if tls_ca else None,
            )
        except ValidationError as error:
            reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
            raise ConfigError(f"the address of the queue: {reason}") from None
        try:
            stream = Keys().intake(check_id(tenant))
        except ValueError as error:
            raise ConfigError(f"tenant: {error}", field="tenant") from None
        self._retry = retry or Retry()
        self._turn = command_start(stream, "turn")
        self._flush = command_start(stream, "flush")
        self._ingest = command_start(stream, "ingest")
        self._open(connection_options(server))

    def _open(self, options: dict[str, Any]) -> None:
        raise NotImplementedError

    def _flush_part(self, session: str) -> OnePart:
        asked = read_model(FlushRequest, {"session": session})
        return OnePart(self._flush, orjson.dumps({"session": asked.session}))

    def _ingest_part(self, content: Any, fields: dict[str, Any]) -> tuple[OnePart, Ingested]:
        raw, whole = ingest_values(content, **fields)
        check_event_time(whole.turns[0], datetime.now(UTC))
        return OnePart(self._ingest, orjson.dumps(raw)), whole

    def _pause(self, error: GralkorError, tried: int, waited: float) -> float | None:
        # Every turn has an id, so that what was written after all is known when it comes again.
        return self._retry.pause(Failure(error, again=error.retry), tried=tried, waited=waited)


def ingest_receipt(part: OnePart, whole: Ingested) -> IngestReceipt:
    """Return the receipt of something ingested, once it is written."""
    return IngestReceipt(
        receipt=part.entry,
        session=whole.session,
        turns=len(whole.turns),
        durability=DURABILITY,
    )


def only(outcomes: list[Outcome]) -> CaptureReceipt:
    """Return the one receipt in *outcomes*.

    Raises:
        GralkorError: It is an error.
    """
    [outcome] = outcomes
    if isinstance(outcome, GralkorError):
        raise outcome
    return outcome
