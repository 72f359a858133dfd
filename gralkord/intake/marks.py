"""What erasures cover of an intake stream: entries under a mark are not routed any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from gralkord.errors import UnknownLens
from gralkord.groups import Group
from gralkord.lenses.registry import LensRegistry
from gralkord.models import Capture
from gralkord.models.erasure import EraseScope

_VERSION: Final = b"version"


@dataclass(frozen=True, slots=True)
class Mark:
    """What one erasure covers.

    Attributes:
        upto: The last entry id that it covers.
        until_ms: While it is under way: the time up to which it covers entries that are still to
            come; else 0.
        scope: Of those entries, which.
    """

    upto: tuple[int, int]
    until_ms: int
    scope: EraseScope

    @classmethod
    def read(cls, text: bytes) -> Self:
        """Return the mark that ``erase_mark.lua`` has written."""
        upto, until_ms, scope = text.split(b" ", 2)
        return cls(entry_order(upto.decode()), int(until_ms), EraseScope.model_validate_json(scope))

    def reaches(self, entry: str) -> bool:
        """Whether the entry is early enough to be covered."""
        order = entry_order(entry)
        return order <= self.upto or order[0] <= self.until_ms


@dataclass(frozen=True, slots=True)
class Marks:
    """All marks of a tenant, as of one version of them."""

    version: bytes = b""
    marks: tuple[Mark, ...] = field(default=())

    @classmethod
    def read(cls, fields: Mapping[bytes, bytes]) -> Self:
        """Return what stands in the hash of marks."""
        marks = tuple(Mark.read(text) for name, text in fields.items() if name != _VERSION)
        return cls(fields.get(_VERSION, b""), marks)

    def cover(self, entry: str, capture: Capture, turn_id: str) -> bool:
        """Whether an entry is erased as a whole."""
        return any(
            mark.scope.covers(
                capture.operator, session=capture.session, turn=turn_id, source=capture.source
            )
            for mark in self.marks
            if mark.reaches(entry)
        )

    def groups(self, entry: str, tenant: str, operator: str, lenses: LensRegistry) -> set[str]:
        """Return the groups that an entry of *operator* must not reach any more."""
        return {
            lens_group(lenses, tenant, mark.scope).id
            for mark in self.marks
            if mark.scope.kind == "lens" and mark.scope.operator == operator and mark.reaches(entry)
        }


def lens_group(lenses: LensRegistry, tenant: str, scope: EraseScope) -> Group:
    """Return the group of a scope's lens, also of one that is not configured any more."""
    operator, name = scope.operator or "", scope.lens or ""
    try:
        return lenses.group(tenant, operator, lenses.lens(name))
    except UnknownLens:
        return Group(tenant, operator, name)


def entry_order(entry: str) -> tuple[int, int]:
    """Return an entry's id as numbers, in whose order entries stand."""
    milliseconds, _, number = entry.partition("-")
    return int(milliseconds), int(number or 0)
