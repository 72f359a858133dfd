"""The configured lenses, and which groups a turn or a question reaches through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gralkord import config
from gralkord.errors import ConfigError, UnknownLens
from gralkord.groups import DEFAULT_LENS, Group, Scope
from gralkord.lenses.ontology import Ontology
from gralkord.lenses.process import OwnProcess

GLOBAL: Final = "global"
_SEARCH: Final = config.LensSearch()


@dataclass(frozen=True, slots=True)
class Lens:
    """A named channel into memory.

    Attributes:
        ontology: What is looked for in what comes through it; with none, anything.
        reference: Where that is written.
        ingestion: Name of the process that makes something of it.
        process: The process itself, where it is the user's own.
        timeout_seconds: Limit of one run of that.
        distil: Whether what the agent did is summed up.
        learn: Of which turns lessons are drawn.
        search: How it is searched.
    """

    name: str
    scope: Scope
    ontology: Ontology | None = None
    reference: str | None = None
    ingestion: str = "store"
    process: OwnProcess | None = None
    timeout_seconds: float = 120.0
    distil: bool = True
    learn: Literal["behaviour", "every", "never"] = "never"
    search: config.LensSearch = _SEARCH

    @property
    def keeps_words(self) -> bool:
        """Whether turns are kept in its group also where they have another home."""
        return self.scope != GLOBAL and self.ingestion in {"store", "index"}


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

    def through(self) -> dict[str, list[str]]:
        """Return the lenses that words are understood through, by the ids of their homes.

        Homes whose words are understood through their own lens alone, or not at all, are left out.
        """
        found: dict[str, list[str]] = {}
        for home, groups in self.understood.items():
            names = [
                name for group in groups for name in ([group.lens] if group.lens else self.shared)
            ]
            if names and names != [home.lens]:
                found[home.id] = names
        return found


@dataclass(frozen=True, slots=True)
class Reached:
    """A group that a question reaches.

    Attributes:
        search: How it is searched, where the question says nothing else.
    """

    group: Group
    search: config.LensSearch = _SEARCH

    @property
    def lens(self) -> str:
        """Name that its memories are told with; ``global`` for what global lenses share."""
        return self.group.lens or self.group.scope


class LensRegistry:
    """All lenses of a deployment; ``default`` always exists.

    `gralkord.lenses.load.load_lenses` makes one from the settings, with its ontologies.

    Args:
        lenses: Those besides ``default``, by name.
        default: The one that always exists.
        ontologies: By the names of lenses.
        processes: Ingestion processes that are the user's own, likewise.
        agents: Agents that have lenses of their own, by name.

    Raises:
        ConfigError: A lens has a name that is taken, or an ontology belongs to none.
    """

    def __init__(
        self,
        lenses: Mapping[str, config.Lens],
        default: config.DefaultLens | None = None,
        ontologies: Mapping[str, Ontology] | None = None,
        processes: Mapping[str, OwnProcess] | None = None,
        agents: Mapping[str, config.Agent] | None = None,
    ) -> None:
        found, own = dict(ontologies or {}), processes or {}
        default = default or config.DefaultLens()
        self._agents = dict(agents or {})
        for name in lenses:
            if not name.strip() or name in {DEFAULT_LENS, GLOBAL}:
                raise ConfigError(f"lenses: no lens can be named {name[:64]!r}", field="lenses")
        ours = Lens(
            DEFAULT_LENS,
            "operator",
            found.pop(DEFAULT_LENS, None),
            default.ontology,
            distil=default.distil,
            learn=default.learn,
            search=default.search,
        )
        self._lenses = {DEFAULT_LENS: ours} | {
            name: Lens(
                name,
                lens.scope,
                found.pop(name, None),
                lens.ontology,
                ingestion=lens.ingestion,
                process=own.get(name),
                timeout_seconds=lens.timeout_seconds,
                distil=lens.distil,
                search=lens.search,
            )
            for name, lens in lenses.items()
        }
        if found:
            raise ConfigError(f"lenses: none is named {next(iter(found))[:64]!r}", field="lenses")

    def names(self) -> tuple[str, ...]:
        """Return the names of all lenses, ``default`` first."""
        return tuple(self._lenses)

    def lens(self, name: str, field: str = "lens") -> Lens:
        """Return the lens of that name.

        Args:
            name: Its name.
            field: Of a request, where the name stands; for the error.

        Raises:
            UnknownLens: None has it.
        """
        try:
            return self._lenses[name]
        except KeyError:
            raise UnknownLens(
                f"no lens is named {name!r}",
                field=field,
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

    def keeps_only_words(self, group: Group) -> bool:
        """Whether what is in *group* is never understood."""
        lens = self._lenses.get(group.lens or "")
        return lens is not None and group.operator is not None and lens.ingestion == "index"

    def group(self, tenant: str, operator: str, lens: Lens) -> Group:
        """Return the group that *lens* writes to for *operator*."""
        if lens.scope == GLOBAL:
            return Group(tenant)
        return Group(tenant, operator, lens.name)

    def memory(self, tenant: str, operator: str, name: str) -> Group:
        """Return the group of the one lens that a request names.

        ``global`` may be named like a lens: it is the memory that all global lenses share.

        Raises:
            UnknownLens: The name is not configured.
        """
        return Group(tenant) if name == GLOBAL else self.group(tenant, operator, self.lens(name))

    def captured(self, names: Sequence[str], agent: str | None = None) -> tuple[str, ...]:
        """Return the lenses that a turn goes through.

        Args:
            names: Those that it names; with none it goes through the agent's own.
            agent: Who captures; what it is told goes through its lens for generalising, too.
        """
        mine = self._agents.get(agent or "")
        chosen = tuple(dict.fromkeys(names))
        if not chosen:
            chosen = ((mine.default_lens if mine else None) or DEFAULT_LENS,)
        more = mine.generalise_lens if mine else None
        return chosen if more is None or more in chosen else (*chosen, more)

    def targets(
        self, tenant: str, operator: str, names: Sequence[str], agent: str | None = None
    ) -> Targets:
        """Return where a turn captured through *names* goes, see `captured`.

        A global group holds no passages, so a turn that names global lenses only keeps its words in
        the operator's default group. A lens that makes something else of turns than to store them
        keeps their words only where they would have no home without it.

        Raises:
            UnknownLens: A name is not configured.
        """
        lenses = [self.lens(name, "lenses") for name in self.captured(names, agent)]
        own = [lens for lens in lenses if lens.scope != GLOBAL]
        keeping = [lens for lens in own if lens.keeps_words] or own[:1]
        more = [self.group(tenant, operator, lens) for lens in own if lens not in keeping]
        through = tuple(lens.name for lens in lenses if lens.scope == GLOBAL)
        if through:
            more.append(Group(tenant))
        if not keeping:
            home = self.group(tenant, operator, self.lens(DEFAULT_LENS))
            return Targets((home,), {home: tuple(more)}, through)
        understood: dict[Group, tuple[Group, ...]] = {}
        for lens in keeping:
            home = self.group(tenant, operator, lens)
            understood[home] = () if lens.ingestion == "index" else (home,)
        homes = tuple(understood)
        understood[homes[0]] += tuple(more)
        return Targets(homes, understood, through)

    def searched(
        self, tenant: str, operator: str, names: Sequence[str], agent: str | None = None
    ) -> list[Group]:
        """Return the groups that a question reaches, see `reached`."""
        return [each.group for each in self.reached(tenant, operator, names, agent)]

    def alone(self, tenant: str, operator: str, name: str) -> list[Reached]:
        """Return what a question of one lens alone reaches.

        Raises:
            UnknownLens: The name is not configured.
        """
        return self._reached(tenant, operator, [name], "lens")

    def reached(
        self, tenant: str, operator: str, names: Sequence[str], agent: str | None = None
    ) -> list[Reached]:
        """Return the groups that a question searches, each once, and how.

        ``default`` first, then the lens that the agent writes to, then the named ones, or where
        none is named those that the agent searches. ``global`` may be named like a lens: it is the
        memory that all global lenses share.

        Raises:
            UnknownLens: A name is not configured.
        """
        mine = self._agents.get(agent or "")
        own = [mine.default_lens] if mine and mine.default_lens else []
        more = names or (mine.search_lenses if mine else ())
        return self._reached(tenant, operator, [DEFAULT_LENS, *own, *more], "lenses")

    def _reached(
        self, tenant: str, operator: str, names: Sequence[str], field: str
    ) -> list[Reached]:
        found: dict[Group, config.LensSearch] = {}
        for name in names:
            lens = Lens(GLOBAL, GLOBAL) if name == GLOBAL else self.lens(name, field)
            group = self.group(tenant, operator, lens)
            found[group] = _wider(found[group], lens.search) if group in found else lens.search
        return [Reached(group, search) for group, search in found.items()]


def _wider(one: config.LensSearch, other: config.LensSearch) -> config.LensSearch:
    """Return what lets through whatever either does: two lenses that share a memory are named."""
    most = (one.max_results, other.max_results)
    kinds = (one.kinds, other.kinds)
    return config.LensSearch(
        max_results=None if None in most else max(each for each in most if each),
        kinds=None if None in kinds else [*dict.fromkeys(k for some in kinds for k in some or ())],
    )
