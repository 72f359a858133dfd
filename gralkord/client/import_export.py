"""Import an export: its rows go through the public client in batches, in order, repeatably."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

import orjson
import structlog

from gralkord.client.transfer import ExportCheck
from gralkord.errors import GralkorError, InvalidInput, QueryRefused
from gralkord.models.transfer import FORMAT, VERSION, ImportResult, TransferRow
from gralkord.wire import json_fault, read_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

log = structlog.get_logger(__name__)

# One request takes at most 1,000 rows and 2 MiB of JSON.
BATCH_ROWS: Final = 1_000
BATCH_BYTES: Final = 1_000_000
MAX_LINE_BYTES: Final = 1_900_000
# It names all groups, of which there may be very many.
MAX_HEADER_BYTES: Final = 100_000_000
PATIENCE: Final = 120.0
MAX_PAUSE: Final = 5.0

Owner = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class ImportRow:
    """A row of a file: its line, and how many bytes that has."""

    number: int
    row: TransferRow
    size: int

    @property
    def owner(self) -> Owner:
        """Operator and lens; of the shared group neither."""
        return self.row.operator, self.row.lens


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A line that could not be read or was refused, and why."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class RowReport:
    """What an import of an export did.

    Attributes:
        rows: Rows read, those that failed included.
        created: Rows that were new.
        known: Rows that were there already, and stayed as they are.
        skipped: Rows of the shared group that an import for one operator leaves out.
        failed: Lines that could not be read, or rows that were not written.
        fault: What is wrong with the file as a whole.
        lenses: Lenses that are not configured where the rows are now.
        seconds: How long it took.
    """

    rows: int
    created: int
    known: int
    skipped: int
    failed: int
    fault: str | None
    lenses: list[str]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the machine form, seconds to the millisecond."""
        return asdict(self) | {"seconds": round(self.seconds, 3)}


class RowClient(Protocol):
    """What an import of an export needs of a client."""

    async def import_rows(
        self,
        rows: Sequence[TransferRow],
        *,
        tenant: str = "default",
        embedder: str = "",
        as_operator: str | None = None,
    ) -> ImportResult:
        """Have rows written."""
        ...


class ExportFile:
    """The lines of an export, read one after the other.

    Args:
        stream: The whole file.

    Attributes:
        tenant: The tenant that it was exported from.
        embedders: Fingerprint of the vectors of each operator and lens.

    Raises:
        InvalidInput: It is no export, or one that this version cannot read.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._check = ExportCheck()
        line = stream.readline(MAX_HEADER_BYTES)
        header = _header(line)
        self._check.take(line)
        try:
            self.tenant = str(header["tenant"])
            self.embedders: Mapping[Owner, str] = {
                (group["operator"], group["lens"]): str(group["embedder"])
                for group in header["groups"]
            }
        except (KeyError, TypeError):
            raise InvalidInput("line 1: not a whole header of an export") from None

    @property
    def operators(self) -> set[str]:
        """The operators whose memories it holds."""
        return {operator for operator, _ in self.embedders if operator is not None}

    @property
    def fault(self) -> str | None:
        """What is wrong with the whole, once all of it has been read."""
        return self._check.fault

    def rows(self) -> Iterator[ImportRow | RejectedRow]:
        """Yield what stands on each line after the header."""
        number = 1
        while line := self._stream.readline(MAX_LINE_BYTES):
            number += 1
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                self._check.take(line + self._skip())
                yield RejectedRow(number, f"longer than {MAX_LINE_BYTES} bytes")
                continue
            late = self._check.trailer is not None
            try:
                self._check.take(line)
            except (GralkorError, ValueError):
                yield RejectedRow(number, "the export broke off here")
                continue
            if late:
                yield RejectedRow(number, "stands behind the end of the export")
            elif self._check.trailer is None:
                yield self._row(number, line)

    def _skip(self) -> bytes:
        rest = b""
        while not rest.endswith(b"\n") and (more := self._stream.readline(MAX_LINE_BYTES)):
            rest += more
        return rest

    def _row(self, number: int, line: bytes) -> ImportRow | RejectedRow:
        try:
            row = ImportRow(number, read_model(TransferRow, orjson.loads(line)), len(line))
        except orjson.JSONDecodeError as error:
            return RejectedRow(number, f"not JSON: {json_fault(line, error, of_one_line=True)}")
        except InvalidInput as error:
            return RejectedRow(number, error.message)
        if row.owner not in self.embedders:
            return RejectedRow(number, "operator and lens are none that the header names")
        return row


@dataclass(slots=True)
class RowImport:
    """One run: reads rows, and has them written batch by batch.

    Attributes:
        client: Where the rows go.
        as_operator: Whose memory they become; default: whose they were.
        on_progress: Called with the number of lines handled, after each batch.
        on_rejected: Called with each line that could not be read or was refused.
        patience: Seconds to go on offering rows that the daemon cannot take for now.
    """

    client: RowClient
    as_operator: str | None = None
    on_progress: Callable[[int], None] = lambda _: None
    on_rejected: Callable[[RejectedRow], None] = lambda _: None
    patience: float = PATIENCE
    _rows: int = 0
    _created: int = 0
    _known: int = 0
    _skipped: int = 0
    _failed: int = 0
    _lenses: set[str] = field(default_factory=set)

    async def run(self, file: ExportFile) -> RowReport:
        """Import *file* and return what was done.

        Raises:
            GralkorError: The daemon refuses everything, or cannot be reached. What was imported
                before stays; running again adds the rest.
        """
        started = time.monotonic()
        for batch in self._batches(file):
            await self._take(file, batch)
            self.on_progress(len(batch))
        return RowReport(
            rows=self._rows,
            created=self._created,
            known=self._known,
            skipped=self._skipped,
            failed=self._failed,
            fault=file.fault,
            lenses=sorted(self._lenses),
            seconds=time.monotonic() - started,
        )

    def _batches(self, file: ExportFile) -> Iterator[list[ImportRow]]:
        """Yield rows of one owner and kind, as many as a request takes."""
        batch: list[ImportRow] = []
        size = 0
        for row in file.rows():
            self._rows += 1
            if isinstance(row, RejectedRow):
                self._reject(row)
                continue
            full = len(batch) == BATCH_ROWS or size + row.size > BATCH_BYTES
            if batch and (full or row.owner != batch[0].owner):
                yield batch
                batch, size = [], 0
            batch.append(row)
            size += row.size
        if batch:
            yield batch

    async def _take(self, file: ExportFile, batch: Sequence[ImportRow]) -> None:
        try:
            result = await self._patiently(file, batch)
        except (InvalidInput, QueryRefused) as error:
            if len(batch) > 1:  # so that the one that is to blame is found, and no other is lost
                middle = len(batch) // 2
                await self._take(file, batch[:middle])
                await self._take(file, batch[middle:])
            else:
                self._reject(RejectedRow(batch[0].number, error.message))
            return
        self._created += result.created
        self._known += result.known
        self._skipped += result.skipped
        self._lenses.update(result.lenses)
        for failure in result.failed:
            self._reject(RejectedRow(batch[failure.index].number, failure.message))

    async def _patiently(self, file: ExportFile, batch: Sequence[ImportRow]) -> ImportResult:
        give_up = time.monotonic() + self.patience
        pause = 0.05
        while True:
            try:
                return await self.client.import_rows(
                    [one.row for one in batch],
                    tenant=file.tenant,
                    embedder=file.embedders[batch[0].owner],
                    as_operator=self.as_operator,
                )
            except GralkorError as error:
                if not error.retry or time.monotonic() > give_up:
                    raise
                pause = min(max(pause * 2, error.retry_after or 0.0), MAX_PAUSE)
                log.debug("import_waits", rows=len(batch), seconds=pause, code=error.code)
                await asyncio.sleep(pause)

    def _reject(self, row: RejectedRow) -> None:
        self._failed += 1
        self.on_rejected(row)


def is_export(line: bytes) -> bool:
    """Return whether a file that begins with *line* is an export, of whatever version."""
    try:
        header = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(header, dict) and header.get("format") == FORMAT


def _header(line: bytes) -> dict[str, Any]:
    if not is_export(line):
        raise InvalidInput("line 1: not the header of an export")
    header: dict[str, Any] = orjson.loads(line)
    if header.get("version") != VERSION:
        raise InvalidInput(
            f"line 1: an export of version {header.get('version')!r}, known is {VERSION}",
            hint="upgrade gralkord",
        )
    return header
