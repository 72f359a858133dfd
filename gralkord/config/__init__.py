"""The settings."""

from __future__ import annotations

from gralkord.config.base import (
    Place,
    Section,
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
    DefaultLens,
    Graph,
    Leases,
    Lens,
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
    "Budget",
    "BudgetLimits",
    "CaptureSettings",
    "DefaultLens",
    "Graph",
    "Leases",
    "Lens",
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
