"""Turn entries of the intake stream into the steps that ``route.lua`` carries out.

Everything that needs judgement is decided here (is it readable, where does it go); everything that
needs atomicity is decided there (was it seen, whose session is it, which ordinal).
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import orjson
import structlog

from gralkord.clock import Clock, SystemClock, to_iso
from gralkord.config import CaptureSettings
from gralkord.errors import GralkorError, InternalError
from gralkord.intake.envelope import Entry, FlushEntry, read
from gralkord.intake.marks import Marks
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.keys import ingest_names, seen_name, session_name
from gralkord.models import Capture
from gralkord.models.ingest import Ingest
from gralkord.models.ingested import Ingested, read_ingest
from gralkord.models.places import place_turn_id
from gralkord.wire import check_event_time

log = structlog.get_logger(__name__)

Step = Mapping[str, Any]

EPISODE_TURNS: Final = 20
EPISODE_BYTES: Final = 12_000
EPISODE_GAP_MS: Final = 6 * 3600 * 1000

_NO_MARKS: Final = Marks()


@dataclass(frozen=True, slots=True)
class _Part:
    """A turn of something that is ingested: which one, of what, and whether it is the last."""

    number: int
    whole: Ingested

    def body(self) -> Mapping[str, Any]:
        """Return what the index lane has to know of it besides its words."""
        turn = self.whole.turns[self.number - 1]
        told = {"form": self.whole.kind, "description": self.whole.description}
        if turn.source is None or self.number < len(self.whole.turns):
            return told
        return told | {"ends": {"offset": self.whole.offset, "turns": self.number}}


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes the steps for one tenant's entries.

    Attributes:
        understanding: Whether a language model is configured; without one nothing is queued for it.
    """

    lenses: LensRegistry
    capture: CaptureSettings
    understanding: bool
    clock: Clock = field(default_factory=SystemClock)

    def limits(self) -> Mapping[str, int]:
        """How much one episode holds: turns, bytes, and the gap (ms) that starts a new one."""
        return {"turns": EPISODE_TURNS, "bytes": EPISODE_BYTES, "gap": EPISODE_GAP_MS}

    def step(self, tenant: str, entry: Entry, marks: Marks = _NO_MARKS) -> Step:
        """Return the step for one entry; an entry that cannot be read becomes a dead letter.

        Args:
            tenant: Whose stream it is.
            entry: The entry.
            marks: What erasures cover; it is not routed.
        """
        names: Sequence[tuple[str, str]] = ()
        try:
            said = read(entry)
            if isinstance(said, FlushEntry):
                return self._flush(tenant, entry, said.session)
            if isinstance(said, Ingest):
                whole = read_ingest(said, f"entry-{entry.id}")
                first = whole.turns[0]
                lenses = self.lenses.captured(first.lenses, first.agent)
                names = ingest_names(tenant, whole, lenses)
                return self._ingest(tenant, entry, whole, names, marks)
            if said.turn_id is None and (derived := place_turn_id(said)):
                said = said.model_copy(update={"turn_id": derived})
            names = [seen_name(tenant, said)] if said.turn_id else []
            return self._turn(tenant, entry, said, marks)
        except GralkorError as error:
            refusal = error
        except Exception as error:  # noqa: BLE001 - a fault of ours, but all others wait behind it
            places = "".join(traceback.format_tb(error.__traceback__))  # its text may hold memories
            log.error("entry_crashed", entry=entry.id, error=type(error).__name__, places=places)  # noqa: TRY400
            refusal = InternalError()
        return {
            "id": entry.id,
            "act": "dead",
            "reason": refusal.code,
            "detail": refusal.message,
            "marks": names,
        }

    def _ingest(
        self,
        tenant: str,
        entry: Entry,
        whole: Ingested,
        names: Sequence[tuple[str, str]],
        marks: Marks,
    ) -> Step:
        first = whole.turns[0]
        steps = [
            self._turn(tenant, entry, turn, marks, _Part(number, whole))
            for number, turn in enumerate(whole.turns, 1)
        ]
        return {
            **self._flush(tenant, entry, first.session),
            "act": "ingest",
            "operator": first.operator,
            "agent": first.agent,
            "marks": names,
            "turns": [step for step in steps if step["act"] == "turn"],
        }

    def _turn(
        self,
        tenant: str,
        entry: Entry,
        capture: Capture,
        marks: Marks,
        part: _Part | None = None,
    ) -> Step:
        # Who names an id of its own may name any time, and all ids after it are later still.
        now = self.clock.now()
        received_ms = min(entry.received_ms, int(now.timestamp() * 1000))
        received = datetime.fromtimestamp(received_ms / 1000, UTC)
        check_event_time(capture, received)
        happened = capture.event_time or received
        targets = self.lenses.targets(tenant, capture.operator, capture.lenses, capture.agent)
        turn_id = capture.turn_id or f"entry-{entry.id}"
        names = [seen_name(tenant, capture)] if capture.turn_id else []
        known: Step = {"marks": names}
        if part:  # what is ingested is known as a whole
            known = {"place": names[0]} if capture.source else {}
        body = {
            "kind": "turn",
            "turn_id": turn_id,
            "session": capture.session,
            "operator": capture.operator,
            "agent": capture.agent,
            "user": capture.user,
            "event_time": to_iso(happened),
            "received_ms": received_ms,
            "source": capture.source,
            "offset": capture.offset,
            "metadata": capture.metadata,
            "shared": list(targets.shared),
            "through": targets.through(),
            "messages": [message.model_dump(exclude_none=True) for message in capture.turn],
            **(part.body() if part else {}),
        }
        size = sum(len(message.content.encode()) for message in capture.turn)
        gone = marks.groups(entry.id, tenant, capture.operator, self.lenses) if marks.marks else ()
        homes = [home.id for home in targets.homes if home.id not in gone]
        # In a group that lenses share the lens itself is named: there is an episode for each.
        pairs = [
            [group.id, home.id, *through]
            for home in targets.homes
            for group in targets.understood[home]
            for through in ([[]] if group.scope == "operator" else [[n] for n in targets.shared])
            if not {group.id, home.id} & set(gone)
        ]
        if not homes or (marks.marks and marks.cover(entry.id, capture, turn_id)):
            return {"id": entry.id, "act": "erased", **known}
        buffered = {
            "id": turn_id,
            "at": int(happened.timestamp() * 1000),
            # What is withdrawn takes its episode along, and nothing else.
            "bytes": EPISODE_BYTES if part and part.whole.kind != "conversation" else size,
            "targets": pairs,
        }
        job = [
            capture.operator,
            capture.session,
            turn_id,
            int(now.timestamp() * 1000),
            homes,
            list(dict.fromkeys(pair[0] for pair in pairs)),
        ]
        return {
            "id": f"{entry.id}.{part.number}" if part else entry.id,
            "act": "turn",
            "job": orjson.dumps(job).decode(),
            **known,
            "name": session_name(tenant, capture.session),
            "session": capture.session,
            "operator": capture.operator,
            "agent": capture.agent,
            "messages": len(capture.turn),
            "bytes": size,
            "items": [[home, orjson.dumps(body).decode()] for home in homes],
            "groups": homes,
            "shared": list(dict.fromkeys(pair[0] for pair in pairs if pair[0] not in homes)),
            "buffered": orjson.dumps(buffered).decode(),
            "idle_ms": int(self.capture.idle_seconds * 1000),
            "flush_turns": self.capture.flush_turns,
            "flush_bytes": self.capture.flush_bytes,
            "understand": self.understanding,
            "limits": self.limits(),
        }

    def _flush(self, tenant: str, entry: Entry, session: str) -> Step:
        return {
            "id": entry.id,
            "act": "flush",
            "name": session_name(tenant, session),
            "session": session,
            "understand": self.understanding,
            "reason": "no_model",
            "limits": self.limits(),
        }
