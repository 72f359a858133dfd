"""A process that holds mailboxes and freezes itself at given places, as SIGSTOP would there.

Standard input is a JSON list of mailboxes: ``{"lane", "group", "place", "items"}``. It delivers the
items and works on them as daemon and worker do. When every mailbox has come to its place it stops:
``before_write`` (the write is built, not yet sent to the graph) or ``before_commit`` (the write is
done, the mailbox does not know). Continued with SIGCONT, it goes on as it would have. It says on
standard output what happens, one JSON object a line.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys

from gralkord import log
from gralkord.config import load_settings
from gralkord.daemon import build
from gralkord.errors import LeaseLost
from gralkord.graph.connection import GraphConnection
from gralkord.mailbox.items import Item
from gralkord.mailbox.mailbox import Mailbox
from gralkord.turns import parts
from gralkord.turns.understand import understand

# What only the lane's own write, of passages or of a whole episode, has in it.
MARKS = {"MERGE (p:Passage": "index", "MERGE (ep:Episodic": "understand"}

boxes = json.load(sys.stdin)
places = {(box["lane"], box["group"]): box["place"] for box in boxes}
arrived: set[tuple[str, str]] = set()
thawed = asyncio.Event()
writes: list[asyncio.Task] = []


def say(event: str, lane: str = "", group: str = "", **more: object) -> None:
    """Write one line."""
    line = json.dumps({"event": event, "lane": lane, "group": group, **more})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def arrive(lane: str, group: str, epoch: int) -> None:
    """Wait here for the others; the last one to come stops the process until it is continued."""
    say("arrived", lane, group, epoch=epoch)
    arrived.add((lane, group))
    if len(arrived) == len(places):
        os.kill(os.getpid(), signal.SIGSTOP)
        thawed.set()
    await thawed.wait()


class FreezingGraph(GraphConnection):
    """A connection that freezes before a write, and tells what became of it."""

    async def write(self, group, query, params=None, **options):
        """Write, also if the caller gives up meanwhile: it may have been sent before that."""
        lane = next((lane for mark, lane in MARKS.items() if mark in query), None)
        if lane is None:
            return await super().write(group, query, params, **options)
        if places[lane, group] == "before_write":
            await arrive(lane, group, params["epoch"])
        write = super().write(group, query, params, **options)

        async def told():
            rows = await write
            say("written", lane, group, rows=len(rows))
            return rows

        writes.append(asyncio.create_task(told()))
        return await asyncio.shield(writes[-1])


class FreezingMailbox(Mailbox):
    """A mailbox that freezes before a commit, and tells what became of it."""

    async def commit(self, lease, done, *rest, **options):
        """Commit."""
        if places[lease.lane, lease.group] == "before_commit":
            await arrive(lease.lane, lease.group, lease.epoch)
        try:
            return await super().commit(lease, done, *rest, **options)
        except LeaseLost:
            say("commit_refused", lease.lane, lease.group)
            raise


async def hold() -> None:
    """Work on all mailboxes."""
    daemon = build.build_daemon(load_settings(), os.environ)
    worker = parts.open_understand(load_settings(), os.environ)
    importlib.import_module("gralkord.graph.understanding")  # holds everything up for a second
    episodes = []
    for box in boxes:
        lane, group = box["lane"], box["group"]
        await daemon.graph.ensure_group(group)
        items = [Item(**item) for item in box["items"]]
        await daemon.services.mailbox.deliver((lane, group, item) for item in items)
        if lane == "index":
            daemon.index.ring(group)
        else:
            episodes.append(asyncio.create_task(understand(worker.parts, group)))
    await thawed.wait()
    await asyncio.gather(*episodes)
    await daemon.index.close()
    await asyncio.gather(*writes)


for module in (build, parts):
    module.GraphConnection, module.Mailbox = FreezingGraph, FreezingMailbox
log.configure(console=False)
asyncio.run(hold())
say("ended")
