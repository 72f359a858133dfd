"""The same tests on fakeredis and on a real server."""

from __future__ import annotations

import fakeredis
import pytest

from gralkord.clock import SystemClock
from gralkord.config import CaptureSettings, Server
from gralkord.config import Lens as LensSettings
from gralkord.intake.plan import Planner
from gralkord.intake.producer import Producer
from gralkord.intake.router import Router
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox import scripts
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.durability import Durability
from gralkord.mailbox.flushes import Flushes
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox


@pytest.fixture(params=["fake", "real"])
async def queue(request, monkeypatch):
    """A client of an empty queue Redis."""
    if request.param == "fake":
        # fakeredis does not know the first line by which a script states its flags.
        whole = scripts.source.__wrapped__
        monkeypatch.setattr(
            scripts, "source", lambda name: whole(name).removeprefix("#!lua flags=allow-oom\n")
        )
        client = fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer())
    else:
        socket = request.getfixturevalue("queue_socket")
        client = open_queue(Server(socket=socket))
    yield client
    await client.aclose()


@pytest.fixture
def keys():
    """The key names."""
    return Keys()


@pytest.fixture
def mailbox(queue, keys):
    """The mailboxes."""
    return Mailbox(queue, keys)


@pytest.fixture
def flushes(queue, keys):
    """The flush records."""
    return Flushes(queue, keys, SystemClock())


@pytest.fixture
def lenses():
    """Two lenses besides the default one."""
    return LensRegistry({"work": LensSettings(), "shared": LensSettings(scope="global")})


@pytest.fixture
def producer(queue, keys, lenses):
    """Writes to the intake stream."""
    return Producer(queue, keys, lenses, SystemClock(), Durability(queue, "always"))


@pytest.fixture
async def make_router(queue, keys, lenses):
    """Make a router that leads, for the tenants ``default`` and ``other``."""

    async def make(owner="one", *, understanding=True, **capture):
        planner = Planner(lenses, CaptureSettings(**capture), understanding=understanding)
        router = Router(queue, keys, planner, ["default", "other"], owner=owner)
        await router.lead()
        return router

    return make


class Rings(list):
    """Collects the doorbells that were rung."""

    async def __call__(self, rings):
        """Take note of *rings*."""
        self.extend(rings)


@pytest.fixture
def rings():
    """The doorbells that were rung."""
    return Rings()
