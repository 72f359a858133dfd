"""The settings."""

from __future__ import annotations

from gralkord.config.base import (
    Place,
    Section,
)
from gralkord.config.lenses import (
    PROCESSES,
    Agent,
    Consolidate,
    DefaultLens,
    Generalise,
    Lens,
    LensSearch,
)
from gralkord.config.load import (
    ENV_PREFIX,
    NOT_SETTINGS,
    load_settings,
)
from gralkord.config.models import (
    Budget,
    BudgetLimits,
    ModelOptions,
    Models,
    Price,
)
from gralkord.config.sections import (
    DEFAULT_PORT,
    CaptureSettings,
    Graph,
    Leases,
    Queue,
    RecallSettings,
    Rpc,
    Server,
    Settings,
    Worker,
)

__all__ = [
    "DEFAULT_PORT",
    "ENV_PREFIX",
    "NOT_SETTINGS",
    "PROCESSES",
    "Agent",
    "Budget",
    "BudgetLimits",
    "CaptureSettings",
    "Consolidate",
    "DefaultLens",
    "Generalise",
    "Graph",
    "Leases",
    "Lens",
    "LensSearch",
    "ModelOptions",
    "Models",
    "Place",
    "Price",
    "Queue",
    "RecallSettings",
    "Rpc",
    "Section",
    "Server",
    "Settings",
    "Worker",
    "load_settings",
]
