"""The configured lenses, and which groups a turn or a question reaches through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gralkord import config
from gralkord.errors import UnknownLens
from gralkord.groups import DEFAULT_LENS, Group, Scope

GLOBAL: Final = "global"


@dataclass(frozen=True, slots=True)
class Lens:
    """A named channel into memory."""

    name: str
    scope: Scope


@dataclass(frozen=True, slots=True)
class Targets:
    """Where a turn goes.

    Attributes:
        homes: Groups that keep its passages; never a global one.
        understood: For each home, the groups in which its episodes are written.
    """

    homes: tuple[Group, ...]
    understood: Mapping[Group, tuple[Group, ...]]


class LensRegistry:
    """All lenses of a deployment; ``default`` always exists."""

    def __init__(self, lenses: Mapping[str, config.Lens]) -> None:
        self._lenses = {DEFAULT_LENS: Lens(DEFAULT_LENS, "operator")} | {
            name: Lens(name, lens.scope) for name, lens in lenses.items()
        }

    def names(self) -> tuple[str, ...]:
        """Return the names of all lenses, ``default`` first."""
        return tuple(self._lenses)

    def lens(self, name: str) -> Lens:
        """Return the lens of that name.

        Raises:
            UnknownLens: None has it.
        """
        try:
            return self._lenses[name]
        except KeyError:
            raise UnknownLens(
                f"no lens is named {name!r}",
                field="lenses",
                hint="known: " + ", ".join(self._lenses),
            ) from None

    def group(self, tenant: str, operator: str, lens: Lens) -> Group:
        """Return the group that *lens* writes to for *operator*."""
        if lens.scope == GLOBAL:
            return Group(tenant)
        return Group(tenant, operator, lens.name)

    def targets(self, tenant: str, operator: str, names: Sequence[str]) -> Targets:
        """Return where a turn captured through *names* goes; through none means ``default``.

        A global group holds no passages, so a turn that names global lenses only keeps its words in
        the operator's default group.

        Raises:
            UnknownLens: A name is not configured.
        """
        lenses = [self.lens(name) for name in dict.fromkeys(names or (DEFAULT_LENS,))]
        homes = [self.group(tenant, operator, lens) for lens in lenses if lens.scope != GLOBAL]
        shared = [Group(tenant)] if any(lens.scope == GLOBAL for lens in lenses) else []
        if not homes:
            home = self.group(tenant, operator, self.lens(DEFAULT_LENS))
            return Targets((home,), {home: tuple(shared)})
        understood: dict[Group, tuple[Group, ...]] = {home: (home,) for home in homes}
        understood[homes[0]] = (homes[0], *shared)
        return Targets(tuple(homes), understood)

    def searched(self, tenant: str, operator: str, names: Sequence[str]) -> list[Group]:
        """Return the groups a question searches: ``default`` first, then the named ones, each once.

        ``global`` may be named like a lens: it is the memory that all global lenses share.

        Raises:
            UnknownLens: A name is not configured.
        """
        groups = [Group(tenant, operator, DEFAULT_LENS)]
        for name in names:
            lens = Lens(GLOBAL, GLOBAL) if name == GLOBAL else self.lens(name)
            groups.append(self.group(tenant, operator, lens))
        return list(dict.fromkeys(groups))
