"""What `status` says of the queue: how much waits, and since when."""

from __future__ import annotations

import pytest

from gralkord.config import Server
from gralkord.daemon import status
from gralkord.daemon.status import QueueStatus
from gralkord.groups import Group
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.items import Item
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox

ADA, BOB = (Group("default", name, "default").id for name in ("ada", "bob"))
STRANGER = Group("other", "ada", "default").id


@pytest.fixture
async def client(queue_socket):
    """A client of an empty queue."""
    client = open_queue(Server(socket=queue_socket))
    yield client
    await client.config_set("maxmemory", 0)
    await client.aclose()


@pytest.fixture
def mailbox(client):
    """The mailboxes."""
    return Mailbox(client, Keys())


async def now_ms(client) -> int:
    """Return the time of the queue."""
    seconds, micros = await client.time()
    return seconds * 1000 + micros // 1000


async def read(client, tenant="default") -> dict:
    """Return the status."""
    return await QueueStatus(client, Keys()).read(tenant)


async def test_an_empty_queue_has_nothing_that_waits(client):
    """Every number is zero and no age is known."""
    found = await read(client)
    assert found["intake"] == {"state": "open", "entries": 0, "oldest_seconds": None}
    nothing = {"items": 0, "oldest_seconds": None, "ready": 0, "leased": 0, "waiting": 0}
    for lane in ("index", "understand"):
        assert found[lane] == nothing | {"complete": True}
    assert (found["sessions_buffered"], found["dead_letters"], found["counters"]) == (0, 0, {})
    assert found["memory"]["bytes"] > 0
    assert found["memory"]["limit"] is found["memory"]["percent"] is None


async def test_intake_is_counted_by_tenant(client):
    """The oldest entry of the tenant's own stream tells since when it waits."""
    old = await now_ms(client) - 65_000
    await client.xadd("gk:intake:default", {"kind": "turn"}, id=f"{old}-0")
    await client.xadd("gk:intake:default", {"kind": "turn"})
    await client.xadd("gk:intake:other", {"kind": "turn"})
    found = (await read(client))["intake"]
    assert found["entries"] == 2
    assert 65 <= found["oldest_seconds"] < 70
    assert (await read(client, "other"))["intake"]["entries"] == 1


async def test_the_age_of_the_oldest_item_stands_in_its_id(client, mailbox):
    """Ids in milliseconds and in microseconds are read; a backfill's has no time."""
    now = await now_ms(client)
    body = {"kind": "barrier"}
    await mailbox.deliver(
        [
            ("index", ADA, Item(f"{now - 9_000}-0", body)),
            ("index", ADA, Item(f"{now}-1", body)),
            ("index", BOB, Item(f"{now - 3_000}-0", body)),
            ("index", STRANGER, Item(f"{now - 99_000}-0", body)),
            ("understand", ADA, Item("backfill-07c1", body)),
            ("understand", BOB, Item(f"{(now - 20_000) * 1000}.1", body)),
        ]
    )
    found = await read(client)
    assert (found["index"]["items"], found["index"]["ready"]) == (3, 2)
    assert 9 <= found["index"]["oldest_seconds"] < 14
    assert (found["understand"]["items"], found["understand"]["ready"]) == (2, 2)
    assert 20 <= found["understand"]["oldest_seconds"] < 25
    assert (await read(client, "other"))["index"]["items"] == 1


async def test_groups_are_ready_leased_or_waiting(client, mailbox):
    """A group that is worked on and one that waits for its next attempt are told from the rest."""
    now = await now_ms(client)
    for group in (ADA, BOB):
        item = Item(f"{now}-0", {"kind": "understand"})
        await mailbox.deliver([("understand", group, item)])
    lease = await mailbox.acquire("understand", ADA, most=1)
    found = (await read(client))["understand"]
    assert (found["ready"], found["leased"], found["waiting"], found["items"]) == (1, 1, 0, 2)
    await mailbox.fail(
        lease, f"{now}-0", verdict="wait", delay_ms=60_000, reason="model_outage", detail=""
    )
    found = (await read(client))["understand"]
    assert (found["ready"], found["leased"], found["waiting"], found["items"]) == (1, 0, 1, 2)


async def test_many_groups_are_not_all_looked_at(client, mailbox, monkeypatch):
    """Beyond the bound the numbers say that they are not the whole."""
    monkeypatch.setattr(status, "MOST_GROUPS", 2)
    now = await now_ms(client)
    for name in ("a", "b", "c"):
        group = Group("default", name, "default").id
        await mailbox.deliver([("index", group, Item(f"{now}-0", {"kind": "barrier"}))])
    found = (await read(client))["index"]
    assert (found["items"], found["complete"]) == (2, False)


async def test_memory_and_closed_intake_are_told(client):
    """Why intake is closed stands beside how full the queue is."""
    await client.set("gk:closed", "the memory of the queue is 71 % full")
    await client.hset("gk:counters", "takeovers", 3)
    await client.config_set("maxmemory", 1_000_000_000)
    found = await read(client)
    assert found["intake"]["state"] == "closed: the memory of the queue is 71 % full"
    assert found["memory"]["limit"] == 1_000_000_000
    assert 0 <= found["memory"]["percent"] < 5
    assert found["counters"] == {"takeovers": 3}
