"""Turns of the twin: captured and recallable at once, flushed without a model, followed."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from gralkord.clock import to_iso
from gralkord.errors import InvalidInput, NotFound, SessionConflict
from gralkord.graph.rows import PassageRow
from gralkord.graph.validity import REPLACED
from gralkord.models import Capture, CaptureReceipt, FlushRequest, FlushResult
from gralkord.models.ingest import Ingest, IngestReceipt
from gralkord.models.ingested import Ingested, place_of, read_ingest
from gralkord.models.jobs import Job, JobGroup, Stages, check_entry_id
from gralkord.models.places import content_key, place_key, place_turn_id
from gralkord.testing.twin.shelves import DURABILITY, Session
from gralkord.wire import check_event_time, read_model, zone_notes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gralkord.lenses.registry import Targets
    from gralkord.testing.twin.shelf import Shelf
    from gralkord.testing.twin.shelves import Shelves, Tenant

NO_MODEL: Final = "no_model"

_NEVER: Final = ("", None)
_NAMESPACE: Final = uuid.UUID("0c8f5f5e-5d0e-5a5b-8f5c-2b7f6b1f3f6e")


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of one tenant."""

    shelves: Shelves
    name: str

    @property
    def _tenant(self) -> Tenant:
        return self.shelves.tenant(self.name)

    def capture(self, raw: Mapping[str, Any]) -> CaptureReceipt:
        """Store one turn.

        Raises:
            InvalidInput: It is no capture, or of the far future.
            UnknownLens: It names a lens that is not there.
            SessionConflict: Its session is bound to another operator or agent.
        """
        capture = read_model(Capture, dict(raw))
        now = self.shelves.now()
        targets = self.shelves.lenses.targets(
            self.name, capture.operator, capture.lenses, capture.agent
        )
        check_event_time(capture, now)
        self._check_session(capture)
        turn_id = capture.turn_id or place_turn_id(capture) or uuid.uuid4().hex
        first = self._seen(capture, turn_id)
        receipt = first or self.shelves.new_id()
        if first is None:
            self._keep(capture, turn_id, receipt, targets)
        notes = zone_notes(raw)
        return CaptureReceipt(
            receipt=receipt,
            turn_id=turn_id,
            duplicate=first is not None,
            durability=DURABILITY,
            notes=notes,
        )

    def ingest(self, ingest: Ingest, notes: list[str]) -> IngestReceipt:
        """Store something as a whole, and flush it.

        Raises:
            InvalidInput: It cannot be cut into turns, or is of the far future.
            UnknownLens: It names a lens that is not there.
            SessionConflict: Its session is bound to another operator or agent.
        """
        if ingest.lens is not None:
            self.shelves.lenses.lens(ingest.lens)
        whole = read_ingest(ingest, uuid.uuid4().hex)
        turn = whole.turns[0]
        targets = self.shelves.lenses.targets(self.name, turn.operator, turn.lenses, turn.agent)
        check_event_time(turn, self.shelves.now())
        self._check_session(turn)
        through = self.shelves.lenses.captured(turn.lenses, turn.agent)
        seen, names = self._tenant.seen, _names(whole, through)
        known = [seen[name][0] for name, version in names if seen.get(name, _NEVER)[1] == version]
        receipt = known[0] if known else None
        if receipt is None:
            for each in whole.turns:
                self._keep(each, each.turn_id or "", self.shelves.new_id(), targets, whole)
            self._end(whole, targets)
            receipt = self.flush(FlushRequest(session=whole.session)).flush
            seen |= {name: (receipt, version) for name, version in names}
        return IngestReceipt(
            receipt=receipt,
            session=whole.session,
            turns=len(whole.turns),
            duplicate=bool(known),
            durability=DURABILITY,
            notes=notes,
        )

    def flush(self, request: FlushRequest) -> FlushResult:
        """Hand over what a session has captured since the last flush; nobody understands it.

        Raises:
            SessionConflict: The session is bound to another operator.
        """
        session = self._tenant.sessions.get(request.session)
        if session and request.operator not in {None, session.operator}:
            raise SessionConflict(
                f"session {request.session!r} is bound to operator {session.operator!r}, "
                f"the request names {request.operator!r}",
                field="operator",
            )
        flush, now = self.shelves.new_id(), self.shelves.now_iso()
        turns = len(session.waiting) if session else 0
        if session:
            session.waiting.clear()
        self._tenant.jobs[flush] = Job(
            id=flush,
            kind="flush",
            state="indexed",
            reason=NO_MODEL,
            session=request.session,
            stages=Stages(received=now, routed=now, indexed=now),
            turns=turns,
            open={"index": 0, "understand": 0},
        )
        if not request.wait:
            return FlushResult(flush=flush, state="queued", complete=False)
        reason = NO_MODEL if request.until == "understood" else None
        return FlushResult(flush=flush, state="indexed", complete=True, reason=reason, turns=turns)

    def job(self, job: str) -> Job:
        """Return what has become of a turn or a flush.

        Raises:
            InvalidInput: It is no id of one.
            NotFound: There is none of it.
        """
        check_entry_id(job)
        if job not in self._tenant.jobs:
            raise NotFound(
                f"no turn or flush has the receipt {job!r}",
                field="id",
                hint="receipts are kept for 7 days",
            )
        return self._tenant.jobs[job]

    def _check_session(self, capture: Capture) -> None:
        session = self._tenant.sessions.get(capture.session)
        if session and (session.operator, session.agent) != (capture.operator, capture.agent):
            raise SessionConflict(
                f"session {capture.session!r} is bound to operator {session.operator!r} and agent "
                f"{session.agent!r}; the turn names operator {capture.operator!r} and agent "
                f"{capture.agent!r}",
                field="session",
                hint="use another session id, or the operator and agent that it began with",
            )

    def _seen(self, capture: Capture, turn_id: str) -> str | None:
        """Return the receipt of the turn if it was taken before."""
        receipt, turn = self._tenant.seen.get(_mark(capture, turn_id), ("", ""))
        return receipt if turn == turn_id else None

    def _end(self, whole: Ingested, targets: Targets) -> None:
        """Withdraw what an earlier version has more than this one."""
        last, now = whole.turns[-1], self.shelves.now_iso()
        if last.source is None:
            return
        for shelf in map(self.shelves.shelf, targets.homes):
            by = _uuid(shelf.group, last.turn_id or "", "0")
            number = len(whole.turns) + 1
            while rows := shelf.of_source(*place_of(last.source, whole.offset, number)):
                for row in rows:
                    if row.withdrawn_at is None:
                        ended = row._replace(withdrawn_at=now, withdrawn_reason=REPLACED)
                        shelf.put(ended._replace(replaced_by=by))
                number += 1

    def _keep(
        self,
        capture: Capture,
        turn_id: str,
        receipt: str,
        targets: Targets,
        whole: Ingested | None = None,
    ) -> None:
        tenant, now = self._tenant, self.shelves.now_iso()
        session = tenant.sessions.setdefault(
            capture.session, Session(capture.operator, capture.agent)
        )
        counts: dict[str, int] = {}
        for home in targets.homes:
            shelf = self.shelves.shelf(home)
            rows = self._rows(shelf, capture, turn_id, session.ordinal)
            if whole:
                form, description = whole.kind, whole.description
                rows = [row._replace(form=form, description=description) for row in rows]
            for row in rows:
                if row.uuid not in shelf.passages:
                    shelf.passages.put(row)
            _settle(shelf, capture, rows, now)
            counts[home.id] = len(rows)
        session.ordinal += len(capture.turn)
        session.waiting.append(turn_id)
        tenant.seen[_mark(capture, turn_id)] = (receipt, turn_id)
        understood = [group for home in targets.homes for group in targets.understood[home]]
        tenant.jobs[receipt] = Job(
            id=receipt,
            kind="turn",
            state="indexed",
            reason=NO_MODEL,
            operator=capture.operator,
            session=capture.session,
            turn_id=turn_id,
            stages=Stages(received=now, routed=now, indexed=now),
            groups=[
                JobGroup(
                    group=group.id,
                    lens=group.lens or group.scope,
                    state="indexed",
                    passages=counts.get(group.id, 0),
                )
                for group in dict.fromkeys([*targets.homes, *understood])
            ],
        )

    def _rows(self, shelf: Shelf, capture: Capture, turn_id: str, start: int) -> list[PassageRow]:
        now = self.shelves.now()
        happened = capture.event_time or now
        metadata = orjson.dumps(capture.metadata).decode() if capture.metadata else None
        return [
            PassageRow(
                uuid=_uuid(shelf.group, turn_id, str(index)),
                text=message.content,
                speaker=message.speaker
                or (capture.user if message.role == "user" else capture.agent),
                role=message.role,
                agent=capture.agent,
                session=capture.session,
                ordinal=start + index,
                part=0,
                event_time=to_iso(happened),
                event_ms=int(happened.timestamp() * 1000),
                turn_id=turn_id,
                source=capture.source,
                offset=capture.offset,
                created_ms=int(now.timestamp() * 1000),
                waiting=True,
                episode=None,
                invalid_at=None,
                seq=0,
                metadata=metadata,
            )
            for index, message in enumerate(capture.turn)
            if message.content.strip()
        ]


def read_flush(raw: Mapping[str, Any]) -> FlushRequest:
    """Return the flush that is asked for.

    Raises:
        InvalidInput: It is none.
    """
    return read_model(FlushRequest, dict(raw))


def check_batch(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the captures of a request with many.

    Raises:
        InvalidInput: It is none.
    """
    captures = raw.get("captures")
    if not isinstance(captures, list):
        raise InvalidInput("captures: must be a list", field="captures")
    return captures


def _settle(shelf: Shelf, capture: Capture, rows: list[PassageRow], now: str) -> None:
    """Withdraw other words at the place of a turn, and bring back those that it says again."""
    if capture.source is None or capture.offset is None:
        return
    content = content_key([message.model_dump() for message in capture.turn])
    shelf.contents |= {row.uuid: content for row in rows}
    for old in shelf.of_source(capture.source, capture.offset):
        same = shelf.contents.get(old.uuid) == content
        if same and old.replaced_by is not None:
            shelf.put(old._replace(withdrawn_at=None, withdrawn_reason=None, replaced_by=None))
        elif not same and old.withdrawn_at is None:
            by = rows[0].uuid
            shelf.put(old._replace(withdrawn_at=now, withdrawn_reason=REPLACED, replaced_by=by))


def _names(whole: Ingested, lenses: Sequence[str]) -> list[tuple[tuple[str, str], str]]:
    """Return what something ingested is known by, and which version of that it is."""
    turn, names = whole.turns[0], list[tuple[tuple[str, str], str]]()
    if whole.id is not None:
        names.append(((turn.operator, f"\x00ingest {whole.id}"), ""))
    if turn.source is not None:
        place = place_key(turn.source, "\x00".join([whole.offset, *lenses]))
        names.append(((turn.operator, f"\x00ingest@{place}"), whole.version))
    return names


def _mark(capture: Capture, turn_id: str) -> tuple[str, str]:
    """Return what a turn is known by: its id, or with all other words of its place that place."""
    if turn_id == place_turn_id(capture):
        place = place_key(capture.source or "", capture.offset or "")
        return capture.operator, f"\x00{place}"
    return capture.operator, turn_id


def _uuid(*parts: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, "\x00".join(parts)))
