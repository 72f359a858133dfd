"""All that the twin remembers, of every tenant, and who it belongs to."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gralkord import config
from gralkord.clock import Clock, SystemClock, to_iso
from gralkord.graph.validity import view_at
from gralkord.lenses.registry import LensRegistry
from gralkord.testing.twin.shelf import Shelf

if TYPE_CHECKING:
    from datetime import datetime

    from gralkord.graph.validity import View
    from gralkord.groups import Group, Scope
    from gralkord.models.erasure import Erasure
    from gralkord.models.jobs import Job
    from gralkord.models.results import Result

DURABILITY: Final = "none"
# A scope, or the settings of a lens as a configuration file has them.
LensSettings: TypeAlias = "Scope | Mapping[str, Any]"


@dataclass(slots=True)
class Session:
    """A session: whose it is, and what it holds.

    Attributes:
        ordinal: Place of its next message.
        waiting: Ids of the turns since it was flushed last.
    """

    operator: str
    agent: str
    ordinal: int = 0
    waiting: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Tenant:
    """What is kept for one tenant besides the groups.

    Attributes:
        seen: The receipt and the id of the turn that was taken last, by operator and id or place.
    """

    sessions: dict[str, Session] = field(default_factory=dict)
    seen: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)
    erasures: dict[str, Erasure] = field(default_factory=dict)


class Shelves:
    """The memory behind twins. Several twins may share it, each for its tenant.

    Args:
        lenses: The lenses besides ``default``, by name: ``operator`` or ``global``, or settings as
            a configuration file has them.
        clock: What tells the time; default: the clock of this machine.
        agents: Agents that have lenses of their own, by name, with such settings.

    Raises:
        ConfigError: A lens or an agent is not acceptable.
    """

    def __init__(
        self,
        lenses: Mapping[str, LensSettings] | None = None,
        clock: Clock | None = None,
        agents: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        named = {
            name: {"scope": lens} if isinstance(lens, str) else dict(lens)
            for name, lens in (lenses or {}).items()
        }
        own = {name: dict(agent) for name, agent in (agents or {}).items()}
        settings = config.load_settings(None, {}, {"lenses": named, "agents": own})
        self.lenses = LensRegistry(
            settings.lenses, settings.default_lens, None, None, settings.agents
        )
        self.clock: Clock = clock or SystemClock()
        self.lock = threading.RLock()
        self._shelves: dict[Group, Shelf] = {}
        self._tenants: dict[str, Tenant] = {}
        self._ids = 0

    def clear(self) -> None:
        """Forget everything, of all tenants."""
        with self.lock:
            self._shelves.clear()
            self._tenants.clear()

    def tenant(self, name: str) -> Tenant:
        """Return what is kept for a tenant."""
        return self._tenants.setdefault(name, Tenant())

    def shelf(self, group: Group) -> Shelf:
        """Return the memory of a group, made if need be."""
        return self._shelves.setdefault(group, Shelf(group))

    def known(self, group: Group) -> Shelf | None:
        """Return the memory of a group if there is any."""
        return self._shelves.get(group)

    def of_operator(self, tenant: str, operator: str) -> list[Shelf]:
        """Return all that an operator may see: its lenses, and what global lenses share."""
        named = [self.lenses.lens(name) for name in self.lenses.names()]
        groups = dict.fromkeys(self.lenses.group(tenant, operator, lens) for lens in named)
        return [self._shelves[group] for group in groups if group in self._shelves]

    def of_tenant(self, tenant: str) -> list[Shelf]:
        """Return the memory of all groups of a tenant."""
        return [shelf for group, shelf in self._shelves.items() if group.tenant == tenant]

    def drop(self, shelf: Shelf) -> None:
        """Forget a group."""
        self._shelves.pop(shelf.owner, None)

    def now(self) -> datetime:
        """Return the time."""
        return self.clock.now()

    def now_iso(self) -> str:
        """Return the time, ISO 8601."""
        return to_iso(self.now())

    def view(self) -> View:
        """Return the view of what holds now."""
        return view_at(self.now())

    def new_id(self) -> str:
        """Return an id as entries of a stream have it: receipts, flushes, requests, erasures."""
        self._ids += 1
        return f"{int(self.now().timestamp() * 1000)}-{self._ids}"
