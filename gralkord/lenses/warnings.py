"""What is allowed in the settings of lenses, and probably not meant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gralkord.config import Lens, Settings
    from gralkord.lenses.registry import LensRegistry


@dataclass(frozen=True, slots=True)
class LensWarning:
    """One of them.

    Attributes:
        lens: Name of the lens, if it is one's.
        agent: Name of the agent, if it is one's.
        file: The ontology, if it is in there.
    """

    warning: str
    lens: str | None = None
    agent: str | None = None
    file: str | None = None

    @property
    def line(self) -> str:
        """All of it, for a person."""
        owner = f"agent {self.agent}" if self.agent is not None else self.lens
        return ": ".join(part for part in (owner, self.file, self.warning) if part)


def find_warnings(settings: Settings, lenses: LensRegistry) -> list[LensWarning]:
    """Return what is probably not meant, of lenses in their order, then of agents."""
    found = []
    for name in lenses.names():
        if ontology := lenses.lens(name).ontology:
            found += [
                LensWarning(warning, lens=name, file=ontology.origin)
                for warning in ontology.warnings
            ]
        if lens := settings.lenses.get(name):
            found += [LensWarning(text, lens=name) for text in _of_lens(settings, name, lens)]
    for name, agent in settings.agents.items():
        if agent.default_lens is None:
            found.append(LensWarning("has no settings", agent=name))
        known = {"default", agent.default_lens}
        found += [
            LensWarning(f"search_lenses: {each!r} is searched in any case", agent=name)
            for each in agent.search_lenses
            if each in known
        ]
    return found


def _of_lens(settings: Settings, name: str, lens: Lens) -> Iterator[str]:
    own = ":" in lens.ingestion
    if lens.ingestion == "generalise" and name not in _written(settings):
        yield "no agent writes to it: it gets only what turns send to it by its name"
    if lens.ingestion == "index" and lens.ontology is not None:
        yield "ontology: has no effect, for `index` understands nothing"
    if not own and "timeout_seconds" in lens.model_fields_set:
        yield "timeout_seconds: has no effect, for the process is not your own"


def _written(settings: Settings) -> set[str | None]:
    return {
        lens
        for agent in settings.agents.values()
        for lens in (agent.default_lens, agent.generalise_lens)
    }
