"""Items of work and the leases they are taken under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from gralkord.mailbox.keys import Lane


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of work in a mailbox."""

    id: str
    body: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """What is to be done: ``turn``, ``understand``, ``barrier``."""
        return str(self.body.get("kind", ""))

    def encode(self) -> bytes:
        """Return the form in which Redis keeps it: the id, a blank, the body as JSON."""
        return self.id.encode() + b" " + orjson.dumps(dict(self.body))

    @classmethod
    def decode(cls, raw: bytes) -> Item:
        """Undo `encode`."""
        head, _, body = raw.partition(b" ")
        return cls(head.decode(), orjson.loads(body))


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on one group and lane until it is given back, swept, or taken over.

    Attributes:
        epoch: Greater than that of every earlier lease; the graph refuses writes with an older one.
        items: What was taken, in order.
        crashes: How often a holder of these items has ended without a word.
        failures: How often the head has failed in a way that counts.
    """

    lane: Lane
    group: str
    epoch: int
    items: tuple[Item, ...]
    crashes: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep has found in one lane.

    Attributes:
        freed: How many leases had expired.
        groups: The groups to ring.
        due_in_ms: Time until the next group is due that is not yet.
    """

    freed: int
    groups: tuple[str, ...]
    due_in_ms: int | None


@dataclass(frozen=True, slots=True)
class FollowUp:
    """Work that follows from an item; it goes to the front of its mailbox."""

    lane: Lane
    group: str
    item: Item
