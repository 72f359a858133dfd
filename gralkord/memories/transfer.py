"""Memories out of one system and into another: export and import of rows."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from gralkord import __version__
from gralkord.clock import Clock, to_iso
from gralkord.errors import InvalidInput, NotFound, TooMany, Transient
from gralkord.graph.connection import GraphConnection
from gralkord.graph.export import GroupExport, GroupState, group_state
from gralkord.groups import Group, parse_group
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.requests import Requests
from gralkord.models.transfer import (
    FORMAT,
    VERSION,
    ExportQuery,
    ImportResult,
    ImportRows,
    RowFailure,
    TransferRow,
)

# The kind of request that has rows written.
KIND: Final = "rows"

EXPORTS_AT_ONCE: Final = 4
READ_AT_ONCE: Final = 16
# So much is sent at once: a line by itself would be a packet by itself.
CHUNK_BYTES: Final = 64 * 1024
WRITE_SECONDS: Final = 60.0

_MISSING: Final = "what it refers to is not there; it stands on an earlier line"


@dataclass(frozen=True, slots=True)
class Transfer:
    """Implements `gralkord.rpc.transfer.Transfer`."""

    graph: GraphConnection
    requests: Requests
    lenses: LensRegistry
    clock: Clock
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(EXPORTS_AT_ONCE))

    async def export(self, tenant: str, query: ExportQuery) -> AsyncGenerator[bytes]:
        """Yield an export, in pieces of one or more lines.

        Raises:
            NotFound: The operator has no memories.
            TooMany: As many exports are under way as there may be.
            BackendUnavailable: The graph does not answer in time.
        """
        if self._slots.locked():
            raise TooMany("too many exports are under way", limit=EXPORTS_AT_ONCE, retry_after=5)
        async with self._slots:
            groups = await self._groups(tenant, query)
            lines = _Lines(hashlib.sha256())
            yield lines.add(self._header(tenant, query, groups))
            for group, state in groups.items():
                reading = GroupExport(self.graph, group.id, state.seq, query.vectors, state.tag)
                rows = reading.rows()
                async with aclosing(rows):  # type: ignore[type-var]
                    async for row in rows:
                        if piece := lines.collect(_of(group) | row):
                            yield piece
            yield lines.end()

    async def import_rows(self, tenant: str, request: ImportRows) -> ImportResult:
        """Write rows of an export, through the understand lanes of their groups.

        Raises:
            InvalidInput: Rows of several operators are to become one operator's.
            Transient: They are still being written; sent again, what is there stays as it is.
            QueueFull: Nothing new is taken for now.
        """
        shares, skipped = _shares(tenant, request)
        created, failed = 0, list[RowFailure]()
        for (target, origin), rows in shares.items():
            body = {
                "origin": origin.id,
                "embedder": request.embedder,
                "rows": [row.model_dump(exclude_defaults=True) for _, row in rows],
            }
            reply = await self.requests.ask(tenant, target.id, KIND, body, WRITE_SECONDS)
            if reply.answer is None:
                raise Transient(
                    "the rows are queued and not written yet",
                    hint="is a worker running? sent again, what is there stays as it is",
                    retry_after=5,
                )
            created += reply.answer["created"]
            failed += [
                RowFailure(index=rows[number][0], message=_MISSING)
                for number in reply.answer["missing"]
            ]
        written = len(request.rows) - skipped - len(failed)
        lenses = {target.lens for target, _ in shares if target.lens} - set(self.lenses.names())
        return ImportResult(
            created=created,
            known=written - created,
            skipped=skipped,
            failed=sorted(failed, key=lambda one: one.index),
            lenses=sorted(lenses),
        )

    async def _groups(self, tenant: str, query: ExportQuery) -> Mapping[Group, GroupState]:
        known = [parse_group(name) for name in await self.graph.groups()]
        wanted = [
            group
            for group in known
            if group.tenant == tenant and (query.everything or group.operator == query.operator)
        ]
        found: dict[Group, GroupState] = {}
        for start in range(0, len(wanted), READ_AT_ONCE):
            some = wanted[start : start + READ_AT_ONCE]
            states = await asyncio.gather(*(group_state(self.graph, each.id) for each in some))
            pairs = zip(some, states, strict=True)
            found |= {group: state for group, state in pairs if state is not None}
        if not found and query.operator is not None:
            raise NotFound(f"operator {query.operator!r} has no memories", field="operator")
        return found

    def _header(
        self, tenant: str, query: ExportQuery, groups: Mapping[Group, GroupState]
    ) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "created": to_iso(self.clock.now()),
            "gralkord": __version__,
            "tenant": tenant,
            "operator": query.operator,
            "vectors": query.vectors,
            "groups": [
                _of(group)
                | {
                    "embedder": state.embedder,
                    "seq": state.seq,
                    "passages": state.passages,
                    "waiting": state.waiting,
                }
                for group, state in groups.items()
            ],
        }


@dataclass(slots=True)
class _Lines:
    """The lines of an export as they are sent, counted and summed up."""

    sum: Any
    lines: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    _waiting: list[bytes] = field(default_factory=list)
    _size: int = 0

    def add(self, content: Mapping[str, Any]) -> bytes:
        """Return a line and all that waited before it."""
        line = orjson.dumps(content) + b"\n"
        self.sum.update(line)
        self.lines += 1
        piece = b"".join((*self._waiting, line))
        self._waiting, self._size = [], 0
        return piece

    def collect(self, row: Mapping[str, Any]) -> bytes | None:
        """Take a row; return what waits once it is enough for a piece."""
        self.counts[row["kind"]] += 1
        if self._size >= CHUNK_BYTES:
            return self.add(row)
        line = orjson.dumps(row) + b"\n"
        self.sum.update(line)
        self.lines += 1
        self._waiting.append(line)
        self._size += len(line)
        return None

    def end(self) -> bytes:
        """Return the trailer and all that waited before it."""
        trailer = {
            "end": True,
            "lines": self.lines,
            "counts": dict(sorted(self.counts.items())),
            "sha256": self.sum.hexdigest(),
        }
        return self.add(trailer)


def _of(group: Group) -> dict[str, str | None]:
    return {"operator": group.operator, "lens": group.lens}


def _shares(
    tenant: str, request: ImportRows
) -> tuple[Mapping[tuple[Group, Group], Sequence[tuple[int, TransferRow]]], int]:
    """Return the rows by the group they go to and the one they are from, each with its place.

    Also how many of them go nowhere.
    """
    shares: dict[tuple[Group, Group], list[tuple[int, TransferRow]]] = {}
    skipped = 0
    owners = {row.operator for row in request.rows} - {None}
    if request.as_operator is not None and len(owners) > 1:
        raise InvalidInput(
            "as_operator: these rows are several operators', who must not be mixed",
            field="as_operator",
        )
    for number, row in enumerate(request.rows):
        operator = row.operator and (request.as_operator or row.operator)
        if row.operator is None and request.as_operator is not None:
            skipped += 1
            continue
        target = Group(tenant, operator, row.lens if operator else None)
        origin = Group(request.tenant, row.operator, row.lens if operator else None)
        shares.setdefault((target, origin), []).append((number, row))
    return shares, skipped
