"""The process ``index``: words are kept and found; no model reads them."""

from __future__ import annotations

from collections.abc import Sequence

from gralkord.mailbox.items import FollowUp
from gralkord.turns.work import Work


async def index(work: Work) -> Sequence[FollowUp]:
    """Do nothing: what was queued was so before the lens kept words only."""
    del work
    return ()
