"""The configured lenses, and which groups a turn or a question reaches through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gralkord import config
from gralkord.errors import ConfigError, UnknownLens
from gralkord.groups import DEFAULT_LENS, Group, Scope
from gralkord.lenses.ontology import Ontology

GLOBAL: Final = "global"


@dataclass(frozen=True, slots=True)
class Lens:
    """A named channel into memory.

    Attributes:
        ontology: What is looked for in what comes through it; with none, anything.
        reference: Where that is written.
    """

    name: str
    scope: Scope
    ontology: Ontology | None = None
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Targets:
    """Where a turn goes.

    Attributes:
        homes: Groups that keep its passages; never a global one.
        understood: For each home, the groups in which its episodes are written.
        shared: The global lenses that it is understood through into the group they share, one
            episode each.
    """

    homes: tuple[Group, ...]
    understood: Mapping[Group, tuple[Group, ...]]
    shared: tuple[str, ...] = ()


class LensRegistry:
    """All lenses of a deployment; ``default`` always exists.

    `gralkord.lenses.load.load_lenses` makes one from the settings, with its ontologies.

    Args:
        lenses: Those besides ``default``, by name.
        default: The one that always exists.
        ontologies: By the names of lenses.

    Raises:
        ConfigError: A lens has a name that is taken, or an ontology belongs to none.
    """

    def __init__(
        self,
        lenses: Mapping[str, config.Lens],
        default: config.DefaultLens | None = None,
        ontologies: Mapping[str, Ontology] | None = None,
    ) -> None:
        found = dict(ontologies or {})
        for name in lenses:
            if not name.strip() or name in {DEFAULT_LENS, GLOBAL}:
                raise ConfigError(f"lenses: no lens can be named {name[:64]!r}", field="lenses")
        reference = default.ontology if default else None
        ours = Lens(DEFAULT_LENS, "operator", found.pop(DEFAULT_LENS, None), reference)
        self._lenses = {DEFAULT_LENS: ours} | {
            name: Lens(name, lens.scope, found.pop(name, None), lens.ontology)
            for name, lens in lenses.items()
        }
        if found:
            raise ConfigError(f"lenses: none is named {next(iter(found))[:64]!r}", field="lenses")

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

    def through(self, group: Group, named: str | None) -> Lens | None:
        """Return the lens that something is understood through into a group.

        Args:
            group: Where its episode is written.
            named: The lens that stands in the work, for a group that lenses share; where none
                stands there it is the only one that there is.

        Returns:
            None, if it is not configured any more or cannot be told.
        """
        if group.scope == GLOBAL:
            shared = [lens.name for lens in self._lenses.values() if lens.scope == GLOBAL]
            name = named or (shared[0] if len(shared) == 1 else None)
        else:
            name = group.lens or DEFAULT_LENS
        lens = self._lenses.get(name or "")
        return lens if lens and lens.scope == group.scope else None

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
        through = tuple(lens.name for lens in lenses if lens.scope == GLOBAL)
        shared = [Group(tenant)] if through else []
        if not homes:
            home = self.group(tenant, operator, self.lens(DEFAULT_LENS))
            return Targets((home,), {home: tuple(shared)}, through)
        understood: dict[Group, tuple[Group, ...]] = {home: (home,) for home in homes}
        understood[homes[0]] = (homes[0], *shared)
        return Targets(tuple(homes), understood, through)

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
