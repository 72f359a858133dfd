"""`gralkord doctor`: look at everything that an installation needs, and say what to do.

Nothing is changed, no memory is read, and no secret is told.
"""

from __future__ import annotations

from gralkord.doctor.findings import Finding, Report, State
from gralkord.doctor.run import Doctor, sections

__all__ = ["Doctor", "Finding", "Report", "State", "sections"]
