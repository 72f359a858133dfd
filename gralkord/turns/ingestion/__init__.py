"""Ingestion processes: what is made of the turns that come through a lens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gralkord.turns.ingestion.consolidate import consolidate
from gralkord.turns.ingestion.generalise import generalise
from gralkord.turns.ingestion.index import index
from gralkord.turns.ingestion.store import store
from gralkord.turns.work import Process

__all__ = ["PROCESSES"]

# By their names in the settings; a process of the user's own is run by ``own``.
PROCESSES: Final[Mapping[str, Process]] = {
    "consolidate": consolidate,
    "generalise": generalise,
    "index": index,
    "store": store,
}
