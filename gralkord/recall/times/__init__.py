"""Which stretches of time a text names: a grammar of English dates, and how moments fit them."""

from gralkord.recall.times.find import find_periods
from gralkord.recall.times.period import Period, closeness

__all__ = ["Period", "closeness", "find_periods"]
