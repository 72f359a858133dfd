"""The understand lane: from the passages of one item to an episode, one item a group at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from gralkord.errors import BackendUnavailable, ConfigError, GralkorError, LeaseLost, Permanent
from gralkord.groups import DEFAULT_LENS, parse_group
from gralkord.mailbox.items import FollowUp, Item, Lease
from gralkord.turns.drafting import (
    configured_lens,
    draft_episode,
    episode_uuid,
    waiting_passages,
)
from gralkord.turns.generalise.requests import generalisation_of
from gralkord.turns.ingestion.store import store
from gralkord.turns.lease import RETRY_SECONDS, keep
from gralkord.turns.retry import fail_item
from gralkord.turns.work import UnderstandParts, Work

log = structlog.get_logger(__name__)

OWN = "own"


async def understand(parts: UnderstandParts, group: str) -> bool:
    """Do the next item of *group*, if it is due and nobody else holds the group.

    Returns:
        Whether there was one to do.
    """
    lease = await parts.mailbox.acquire("understand", group, most=1)
    if lease is None:
        return False
    log.debug("lease", lane="understand", group=group, epoch=lease.epoch, item=lease.items[0].id)
    keeper = asyncio.create_task(keep(parts.mailbox, lease, parts.clock))
    work = asyncio.create_task(_work(parts, lease))
    try:
        await asyncio.wait({keeper, work}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            keeper.result()  # it ends only by saying that the lease is lost
        if await _conclude(parts, lease, work, keeper):
            await parts.ring(group)
    except LeaseLost:
        log.warning("lease_lost", lane="understand", group=group, epoch=lease.epoch)
    except asyncio.CancelledError:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await parts.mailbox.release(lease)
        raise
    finally:
        for task in (keeper, work):
            task.cancel()
        await asyncio.gather(keeper, work, return_exceptions=True)
    return True


async def _conclude(
    parts: UnderstandParts,
    lease: Lease,
    work: asyncio.Task[Sequence[FollowUp]],
    keeper: asyncio.Task[None],
) -> bool:
    """Commit the item, or fail it; whether the group's doorbell is to be rung.

    While the queue is down this is tried again for as long as the lease lasts: the work is done and
    paid for, and a lease that nobody gives back counts as a crash.
    """
    item, error = lease.items[0], work.exception()
    if isinstance(error, LeaseLost):
        raise error
    while True:
        try:
            if error is None:
                return await parts.mailbox.commit(lease, [item.id], work.result())
            await fail_item(parts.mailbox, lease, item.id, error)
        except BackendUnavailable:
            if keeper.done():
                raise
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return False


async def _work(parts: UnderstandParts, lease: Lease) -> Sequence[FollowUp]:
    item = lease.items[0]
    if item.kind == "understand":
        return await _understand(parts, lease, item)
    if item.kind in parts.executors:
        await _answer(parts, lease, item)
    elif item.kind != "barrier":
        raise Permanent(f"this version knows no work of the kind {item.kind[:64]!r}")
    return ()


async def _answer(parts: UnderstandParts, lease: Lease, item: Item) -> None:
    """Do a request and keep its answer; a refusal is an answer as well."""
    run = await parts.graph.known_run()
    content: Mapping[str, Any]
    try:
        content = {"answer": await parts.executors[item.kind](lease, item)}
    except GralkorError as error:
        # With nobody to be told, it must not be lost: it becomes a dead letter. And it waits for
        # whoever mends the model's settings.
        mends = isinstance(error, ConfigError) and item.body.get("asks_model")
        if error.retry or mends or "request" not in item.body:
            raise
        content = {"error": error.to_dict()}
    await parts.graph.wait_durable(run)
    if "request" in item.body:
        await parts.mailbox.answer(lease, item.body["request"], content)
    log.info("request_done", group=lease.group, kind=item.kind, item=item.id, **_outcome(content))


def _outcome(content: Mapping[str, Any]) -> dict[str, Any]:
    return {"refused": content["error"]["code"]} if "error" in content else {}


async def _understand(parts: UnderstandParts, lease: Lease, item: Item) -> Sequence[FollowUp]:
    run = await parts.graph.known_run()
    passages = await waiting_passages(parts, lease)
    follow_ups: Sequence[FollowUp] = ()
    if passages:
        lens = configured_lens(lease.group, item, parts.lenses)
        draft = draft_episode(lease.group, item, passages, parts.lenses)
        name = OWN if ":" in lens.ingestion else lens.ingestion
        process = parts.processes.get(name, store)
        follow_ups = await process(Work(parts, lease, item, lens, passages, draft))
    else:
        log.info("nothing_to_understand", group=lease.group, item=item.id)
    if parts.making.default.generalise_on_flush and parse_group(lease.group).lens == DEFAULT_LENS:
        # Also where nothing was left to do: who wrote the episode may have died right after.
        done = episode_uuid(lease.group, item)
        follow_ups = [*follow_ups, generalisation_of(lease.group, done)]
    # Also where nothing was done: who wrote it may have died before it was on the graph's disk.
    await parts.graph.wait_durable(run)
    return follow_ups
