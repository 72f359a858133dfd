"""Keep a lease while its work is under way."""

from __future__ import annotations

import asyncio

from gralkord.clock import Clock
from gralkord.errors import BackendUnavailable, LeaseLost
from gralkord.mailbox.items import Lease
from gralkord.mailbox.mailbox import Mailbox

RETRY_SECONDS = 0.2


async def keep(mailbox: Mailbox, lease: Lease, clock: Clock) -> None:
    """Renew *lease* at a quarter of its time, until cancelled.

    Raises:
        LeaseLost: It is not held any more, or the queue has not answered for as long as it lasts.
    """
    seconds = mailbox.lease_ms[lease.lane] / 1000
    expires = clock.monotonic() + seconds
    pause = seconds / 4
    while True:
        await asyncio.sleep(pause)
        asked = clock.monotonic()
        try:
            await mailbox.renew(lease)
        except BackendUnavailable:
            if clock.monotonic() > expires:
                raise LeaseLost from None
            pause = RETRY_SECONDS
        else:
            expires, pause = asked + seconds, seconds / 4
