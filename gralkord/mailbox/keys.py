"""Every key in the queue Redis: its type, its meaning, how long it lives.

Tenant, operator, session and turn ids are escaped (`gralkord.groups.escape`), so a colon in an id
never makes two keys one. The Lua scripts build the same names from the prefix; ``KEY_TABLE`` is the
contract of both, and a test finds keys that are in neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gralkord.groups import escape
from gralkord.models import Capture
from gralkord.models.ingested import Ingested
from gralkord.models.places import place_key, place_turn_id

Lane = Literal["index", "understand"]
LANES: Final[tuple[Lane, ...]] = ("index", "understand")


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """One row of the key table."""

    pattern: str
    type: str
    meaning: str
    lifetime: str


KEY_TABLE: Final = (
    KeyInfo("intake:{tenant}", "stream", "what producers wrote", "an entry until it is routed"),
    KeyInfo("router", "hash", "lease of the router: owner, epoch, expires", "for good"),
    KeyInfo("epoch", "string", "the last epoch given to any lease", "for good"),
    KeyInfo(
        "seen:{tenant}:{operator}:{turn}",
        "string",
        "entry id of a turn already taken; of a place, with the id of its turn; the same of what "
        "was ingested",
        "24 hours",
    ),
    KeyInfo(
        "session:{tenant}:{session}",
        "hash",
        "operator, agent, last ordinal, bytes buffered, groups and shared groups written to",
        "30 days after the last flush",
    ),
    KeyInfo("buffer:{tenant}:{session}", "list", "turns to be flushed", "until flushed"),
    KeyInfo("idle", "zset", "session by the time (ms) at which it is flushed", "until flushed"),
    KeyInfo("box:{lane}:{group}", "list", "items that wait, in order", "until taken"),
    KeyInfo("run:{lane}:{group}", "list", "items taken under the current lease", "until committed"),
    KeyInfo(
        "meta:{lane}:{group}",
        "hash",
        "epoch, items given under it, crashes, failures, the last failure, last sign of life",
        "until the mailbox is empty",
    ),
    KeyInfo("ready:{lane}", "zset", "group by due time (ms)", "until leased"),
    KeyInfo("leased:{lane}", "zset", "group by lease expiry (ms)", "until given back"),
    KeyInfo("bell:{lane}:{group}", "string", "a doorbell is under way", "3 seconds"),
    KeyInfo("depth", "hash", "items in all mailboxes of a lane", "for good"),
    KeyInfo("flush:{tenant}:{flush}", "hash", "how far a flush has come", "7 days"),
    KeyInfo("open:{lane}:{tenant}:{flush}", "set", "items that a flush waits for", "7 days"),
    KeyInfo("result:{tenant}:{request}", "string", "what a request is answered with", "7 days"),
    KeyInfo("events", "stream", "flushes that got further; a hint, not a record", "last 10,000"),
    KeyInfo("jobs:{tenant}:{hour}", "hash", "entry id to what a receipt is asked for", "7 days"),
    KeyInfo("dead", "stream", "dead letters with their reason", "until dropped"),
    KeyInfo("answers", "hash", "dead letter to the unusable answer of a model", "as its letter"),
    KeyInfo("buried", "hash", "group and turn to dead letter", "until retried or dropped"),
    KeyInfo(
        "erased:{tenant}",
        "hash",
        "erasure to what it covers, and a version that grows with each change",
        "7 days after the last erasure",
    ),
    KeyInfo("erasing:{tenant}", "string", "id of the erasure under way", "10 seconds, renewed"),
    KeyInfo(
        "erasures:{tenant}",
        "hash",
        "id to an erasure's scope, times and counts, without words",
        "for good",
    ),
    KeyInfo("graves", "zset", "emptied group by when (ms) it was erased", "24 hours"),
    KeyInfo("counters", "hash", "takeovers, dead letters; since the queue was made", "for good"),
    KeyInfo("closed", "string", "why nothing new is taken", "5 seconds, renewed"),
    KeyInfo(
        "model:pace:{endpoint}",
        "hash",
        "a provider asks for fewer requests: since, until, gap (ms), last turn, when it was "
        "limited, since when it only refuses, when it answered",
        "until some seconds after it answers, at most 10 minutes after the hold",
    ),
    KeyInfo(
        "model:window:{endpoint}",
        "hash",
        "calls (r) and tokens (t) by second, within the last minute and reserved; last turn; "
        "limits of a minute that the provider announces",
        "2 minutes after the last reservation, 10 after the last announcement",
    ),
    KeyInfo(
        "model:line:{endpoint}",
        "zset",
        "call by when (µs) it came; the first ones are under way, as many as may be at once",
        "until the calls have ended",
    ),
    KeyInfo(
        "model:places:{endpoint}",
        "zset",
        "call by when (ms) it loses its place in the line",
        "10 seconds, renewed",
    ),
    KeyInfo(
        "model:breaker:{endpoint}",
        "hash",
        "an endpoint does not answer: tries, until, the call that probes",
        "until it answers, at most 10 minutes",
    ),
    KeyInfo(
        "model:outage",
        "hash",
        "a model is out: since, until, tries, reason, detail, endpoint, whether one probes",
        "until it answers",
    ),
    KeyInfo(
        "spend:{tenant}:{day}",
        "hash",
        "role, model, stage and lens to calls, tokens (prompt, cached of them, completion), ms, "
        "nano-dollars, unpriced calls; the day since 1970, or `all`",
        "400 days; `all` for good",
    ),
    KeyInfo(
        "spenders:{tenant}:{day}",
        "hash",
        "the same by operator (`-`: shared, `*`: others)",
        "400 days, or as many as 100,000 rows hold",
    ),
    KeyInfo(
        "spent:{tenant}:{day}",
        "hash",
        "operator, or `*` for the tenant, to nano-dollars and tokens of a day",
        "2 days",
    ),
    KeyInfo(
        "budget:{day}",
        "hash",
        "account (a tenant, an operator of it) whose budget is spent: next try (ms), since",
        "until the end of the next day",
    ),
    KeyInfo(
        "ledger:{writer}", "string", "number of the last delivery of a process's ledger", "1 hour"
    ),
    KeyInfo("probe", "string", "whether the queue takes writes", "1 second"),
    KeyInfo("dramatiq:*", "several", "Dramatiq's own: doorbells and heartbeats", "Dramatiq's"),
)


@dataclass(frozen=True, slots=True)
class Keys:
    """Builds key names under one prefix."""

    prefix: str = "gk:"

    def intake(self, tenant: str) -> str:
        """Stream of what the producers of *tenant* wrote."""
        return f"{self.prefix}intake:{escape(tenant)}"

    def session(self, tenant: str, session: str) -> str:
        """Hash of what a session is bound to."""
        return f"{self.prefix}session:{session_name(tenant, session)}"

    def buffer(self, tenant: str, session: str) -> str:
        """List of a session's turns that wait for a flush."""
        return f"{self.prefix}buffer:{session_name(tenant, session)}"

    def flush(self, tenant: str, flush: str) -> str:
        """Hash of one flush."""
        return f"{self.prefix}flush:{escape(tenant)}:{flush}"

    def result(self, tenant: str, request: str) -> str:
        """Text of the answer to one request."""
        return f"{self.prefix}result:{escape(tenant)}:{request}"

    def erased(self, tenant: str) -> str:
        """Hash of what erasures cover of the intake stream."""
        return f"{self.prefix}erased:{escape(tenant)}"

    def erasing(self, tenant: str) -> str:
        """Id of the erasure of *tenant* that is under way."""
        return f"{self.prefix}erasing:{escape(tenant)}"

    def erasures(self, tenant: str) -> str:
        """Hash of all erasures of *tenant* so far."""
        return f"{self.prefix}erasures:{escape(tenant)}"

    def box(self, lane: Lane, group: str) -> str:
        """List of the items that wait for one group."""
        return f"{self.prefix}box:{lane}:{group}"

    def run(self, lane: Lane, group: str) -> str:
        """List of the items taken under the current lease."""
        return f"{self.prefix}run:{lane}:{group}"

    def pace(self, endpoint: str) -> str:
        """Hash of the pace at which a model endpoint is asked."""
        return f"{self.prefix}model:pace:{endpoint}"

    def spent(self, tenant: str, day: int) -> str:
        """Hash of what a tenant and its operators have used up on a day."""
        return f"{self.prefix}spent:{escape(tenant)}:{day}"

    def ledger(self, name: str, tenant: str, day: int | str) -> str:
        """Hash of a day's model calls, in the ledger *name*."""
        return f"{self.prefix}{name}:{escape(tenant)}:{day}"

    def named(self, name: str) -> str:
        """Return a key that has no variable part."""
        return self.prefix + name


def session_name(tenant: str, session: str) -> str:
    """Return the member of ``idle`` and the tail of the keys of one session."""
    return f"{escape(tenant)}:{escape(session)}"


def seen_name(tenant: str, capture: Capture) -> tuple[str, str]:
    """Return the tail of the key that marks a turn as taken, and what tells turns of a place apart.

    A turn that is known by its place and its words has a key with all turns of that place, so that
    words which come back after others are taken again.
    """
    turn_id = capture.turn_id or ""
    if turn_id and turn_id == place_turn_id(capture):
        # No turn's own id has a control character.
        place = place_key(capture.source or "", capture.offset or "")
        return turn_name(tenant, capture.operator, f"\x00{place}"), turn_id
    return turn_name(tenant, capture.operator, turn_id), ""


def ingest_names(tenant: str, ingested: Ingested, lenses: Sequence[str]) -> list[tuple[str, str]]:
    """Return the tails of the keys that mark something ingested as taken, and which version it is.

    One tells of its id, and one of its source; by that other words are another version.

    Args:
        tenant: Whose stream it is.
        ingested: What came.
        lenses: Those that it goes through; the same words may come through others, too.
    """
    turn, names = ingested.turns[0], list[tuple[str, str]]()
    if ingested.id is not None:
        names.append((f"\x00ingest {ingested.id}", ""))
    if turn.source is not None:
        place = place_key(turn.source, "\x00".join([ingested.offset, *lenses]))
        names.append((f"\x00ingest@{place}", ingested.version))
    return [(turn_name(tenant, turn.operator, name), version) for name, version in names]


def turn_name(tenant: str, operator: str, turn_id: str) -> str:
    """Return the tail of the key that marks a turn as taken."""
    return f"{escape(tenant)}:{escape(operator)}:{escape(turn_id)}"
