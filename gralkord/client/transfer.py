"""Export and import of rows: what is asked, and the check of what comes, for both clients."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlencode

import httpx
import orjson

from gralkord.client.answers import Failure, failure_of, unexpected
from gralkord.client.calls import Call, reader
from gralkord.client.transport import broken, request_options
from gralkord.errors import BackendUnavailable, rebuild_error
from gralkord.models.transfer import ExportQuery, ImportResult, ImportRows, TransferRow
from gralkord.wire import read_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from gralkord.client.discovery import Endpoint

Answer = TypeVar("Answer")

# A page of rows takes the daemon no longer, else it gives the export up.
_SILENCE_SECONDS: Final = 60.0
# More than the daemon waits until rows are written.
_WRITE_SECONDS: Final = 90.0


@dataclass(slots=True)
class ExportCheck:
    """Takes the lines of an export, and tells whether they are all there.

    Attributes:
        lines: How many lines there were before the trailer.
        trailer: What the trailer says; nothing before it has come.
    """

    lines: int = 0
    trailer: dict[str, Any] | None = None
    _sum: Any = field(default_factory=hashlib.sha256)
    _rest: bytes = b""

    def split(self, piece: bytes) -> list[bytes]:
        """Return the lines that are complete with *piece*, with their line feeds."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return [line + b"\n" for line in lines]

    def take(self, line: bytes) -> None:
        """Count a line.

        Raises:
            GralkorError: It says that the export could not go on.
        """
        if line.startswith(b'{"error":'):
            raise rebuild_error(orjson.loads(line)["error"]) or unexpected("it is no error")
        if line.startswith(b'{"end":'):
            self.trailer = orjson.loads(line)
            return
        self.lines += 1
        self._sum.update(line)

    @property
    def fault(self) -> str | None:
        """What is wrong with the whole, once there are no more lines."""
        if self.trailer is None:
            return "it ends before its end: the last line is missing"
        if self.trailer.get("lines") != self.lines:
            return f"it has {self.lines} lines, and should have {self.trailer.get('lines')}"
        if self.trailer.get("sha256") != self._sum.hexdigest():
            return "its check sum is another one: it was changed since it was written"
        return None


def export(operator: str | None, *, everything: bool, vectors: bool) -> Call[bytes]:
    """Return the call that opens an export.

    Raises:
        InvalidInput: Neither an operator nor everything is asked for, or both.
    """
    given: dict[str, Any] = {} if operator is None else {"operator": operator}
    given |= {"everything": everything, "vectors": vectors}
    read_model(ExportQuery, given)
    words = {} if operator is None else {"operator": operator}
    words |= {name: "true" for name in ("everything", "vectors") if given[name]}
    return Call("GET", f"/v1/export?{urlencode(words)}", bytes, timeout=_SILENCE_SECONDS)


def import_rows(
    rows: Sequence[TransferRow], *, tenant: str, embedder: str, as_operator: str | None
) -> Call[ImportResult]:
    """Return the call that has rows of an export written.

    Raises:
        InvalidInput: There are none or too many, or a name is not acceptable.
    """
    request = read_model(
        ImportRows,
        {"rows": list(rows), "tenant": tenant, "embedder": embedder, "as_operator": as_operator},
    )
    body = request.model_dump_json(exclude_defaults=True).encode()
    return Call("POST", "/v1/import-rows", reader(ImportResult), body, timeout=_WRITE_SECONDS)


class AsyncTransfer:
    """The part of the asynchronous client that moves memories."""

    endpoint: Endpoint
    _http: httpx.AsyncClient
    _timeout: float

    async def export(
        self, operator: str | None = None, *, everything: bool = False, vectors: bool = False
    ) -> AsyncIterator[bytes]:
        """Yield the lines of an export: JSON, each with its line feed.

        It is whole once this has ended without an error: the last line has a check sum.

        Args:
            operator: Whose memories, of all lenses.
            everything: Instead: those of all operators, and what they share.
            vectors: Vectors too; else they are made anew at the import.

        Raises:
            NotFound: The operator has no memories.
            GralkorError: It is not acceptable, or broke off.
        """
        call = export(operator, everything=everything, vectors=vectors)
        check = ExportCheck()
        try:
            async with self._http.stream(**request_options(call, self._timeout)) as answer:
                body = b"" if answer.is_success else await answer.aread()
                _refuse(failure_of(answer.status_code, answer.headers, body))
                async for piece in answer.aiter_bytes():
                    for line in check.split(piece):
                        check.take(line)
                        yield line
        except httpx.RequestError as error:
            raise broken(call, self.endpoint, error).error from error
        _complete(check)

    async def import_rows(
        self,
        rows: Sequence[TransferRow],
        *,
        tenant: str = "default",
        embedder: str = "",
        as_operator: str | None = None,
    ) -> ImportResult:
        """Have rows of an export written. Those that are there already stay as they are.

        Args:
            rows: In the order of the export, at most 1,000.
            tenant: The tenant that they were exported from.
            embedder: Which embedder their vectors are from.
            as_operator: Write them into this operator's memory.

        Raises:
            GralkorError: They are not acceptable, or cannot be written now.
        """
        return await self._send(
            import_rows(rows, tenant=tenant, embedder=embedder, as_operator=as_operator)
        )

    async def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError


class Transfer:
    """The part of the synchronous client that moves memories."""

    endpoint: Endpoint
    _http: httpx.Client
    _timeout: float

    def export(
        self, operator: str | None = None, *, everything: bool = False, vectors: bool = False
    ) -> Iterator[bytes]:
        """Yield the lines of an export: JSON, each with its line feed.

        It is whole once this has ended without an error: the last line has a check sum.

        Args:
            operator: Whose memories, of all lenses.
            everything: Instead: those of all operators, and what they share.
            vectors: Vectors too; else they are made anew at the import.

        Raises:
            NotFound: The operator has no memories.
            GralkorError: It is not acceptable, or broke off.
        """
        call = export(operator, everything=everything, vectors=vectors)
        check = ExportCheck()
        try:
            with self._http.stream(**request_options(call, self._timeout)) as answer:
                body = b"" if answer.is_success else answer.read()
                _refuse(failure_of(answer.status_code, answer.headers, body))
                for piece in answer.iter_bytes():
                    for line in check.split(piece):
                        check.take(line)
                        yield line
        except httpx.RequestError as error:
            raise broken(call, self.endpoint, error).error from error
        _complete(check)

    def import_rows(
        self,
        rows: Sequence[TransferRow],
        *,
        tenant: str = "default",
        embedder: str = "",
        as_operator: str | None = None,
    ) -> ImportResult:
        """Have rows of an export written. Those that are there already stay as they are.

        Args:
            rows: In the order of the export, at most 1,000.
            tenant: The tenant that they were exported from.
            embedder: Which embedder their vectors are from.
            as_operator: Write them into this operator's memory.

        Raises:
            GralkorError: They are not acceptable, or cannot be written now.
        """
        return self._send(
            import_rows(rows, tenant=tenant, embedder=embedder, as_operator=as_operator)
        )

    def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError


def _refuse(failure: Failure | None) -> None:
    if failure is not None:
        raise failure.error


def _complete(check: ExportCheck) -> None:
    if (fault := check.fault) is not None:
        raise BackendUnavailable(f"the export broke off: {fault}", hint="export again")
