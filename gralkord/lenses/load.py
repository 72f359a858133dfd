"""All lenses that the settings name, each with its ontology, loaded and checked as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from gralkord.errors import ConfigError
from gralkord.groups import DEFAULT_LENS
from gralkord.lenses.ontology import load_ontology
from gralkord.lenses.own import load_process
from gralkord.lenses.registry import LensRegistry

if TYPE_CHECKING:
    from gralkord.config import Settings
    from gralkord.lenses.ontology import Ontology
    from gralkord.lenses.process import OwnProcess

log = structlog.get_logger(__name__)


def load_lenses(settings: Settings) -> LensRegistry:
    """Return the lenses of *settings*.

    Raises:
        ConfigError: Something is wrong with ontologies or processes; the message has all faults,
            with the lenses and the files.
    """
    users: dict[str, list[str]] = {}
    if settings.default_lens.ontology is not None:
        users[settings.default_lens.ontology] = [DEFAULT_LENS]
    for name, lens in settings.lenses.items():
        if lens.ontology is not None:
            users.setdefault(lens.ontology, []).append(name)
    ontologies: dict[str, Ontology] = {}
    faults: list[tuple[str, str]] = []
    for reference, names in users.items():
        keys = [_key(name) for name in names]
        try:
            ontology = load_ontology(reference)
        except ConfigError as error:
            faults.append((keys[0], f"{', '.join(keys)}: {error.message}"))
        else:
            ontologies |= dict.fromkeys(names, ontology)
    processes = _processes(settings, faults)
    if faults:
        lines = "\n".join(fault for _, fault in faults)
        raise ConfigError(lines, field=faults[0][0])
    return LensRegistry(
        settings.lenses, settings.default_lens, ontologies, processes, settings.agents
    )


def _processes(settings: Settings, faults: list[tuple[str, str]]) -> dict[str, OwnProcess]:
    found: dict[str, OwnProcess] = {}
    for name, lens in settings.lenses.items():
        if ":" not in lens.ingestion:
            continue
        try:
            found[name] = load_process(lens.ingestion)
        except ConfigError as error:
            key = f"lenses.{name}.ingestion"
            faults.append((key, f"{key}: {error.message}"))
    return found


def warn_of_ontologies(lenses: LensRegistry) -> None:
    """Log what is allowed in the ontologies and probably not meant, each once."""
    warned: set[tuple[str, str]] = set()
    for name in lenses.names():
        ontology = lenses.lens(name).ontology
        for warning in ontology.warnings if ontology else ():
            assert ontology is not None
            if (ontology.origin, warning) not in warned:
                warned.add((ontology.origin, warning))
                log.warning("ontology_warning", lens=name, file=ontology.origin, warning=warning)


def _key(lens: str) -> str:
    return "default_lens.ontology" if lens == DEFAULT_LENS else f"lenses.{lens}.ontology"
