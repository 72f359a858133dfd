"""The understand lane: from the passages of one item to an episode, one item a group at a time."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import structlog

from gralkord.clock import Clock
from gralkord.errors import (
    BackendUnavailable,
    ConfigError,
    GralkorError,
    LeaseLost,
    NotYet,
    Permanent,
)
from gralkord.graph.connection import GraphConnection
from gralkord.graph.drafts import EpisodeDraft, EpisodeResult, Kinds, origin_key
from gralkord.graph.passages import PassageStore, StoredPassage
from gralkord.groups import parse_group
from gralkord.lenses.ontology import extraction_arguments
from gralkord.lenses.registry import GLOBAL, LensRegistry
from gralkord.mailbox.items import Item, Lease
from gralkord.mailbox.mailbox import Mailbox
from gralkord.turns.lease import RETRY_SECONDS, keep
from gralkord.turns.retry import fail_item

log = structlog.get_logger(__name__)

_NAMESPACE: Final = uuid.UUID("0b9c3e8e-7a4c-5f0e-8d53-0d5f9c0f7b11")

Ring = Callable[[str], Awaitable[None]]
# Does a request (see `gralkord.mailbox.requests`) and returns its answer, which is JSON. It must do
# no harm when it is done again.
Executor = Callable[[Lease, Item], Awaitable[Mapping[str, Any]]]


class Episodes(Protocol):
    """What this lane needs of the graph: write one episode, once."""

    async def add(self, group: str, epoch: int, draft: EpisodeDraft) -> EpisodeResult:
        """Understand a transcript and write what follows from it, in one fenced write."""
        ...

    async def origins(self, group: str, keys: Sequence[str], *, lens: str, but: str) -> set[str]:
        """Return which turns of other groups are part of other episodes of this one's lens."""
        ...


class NoEpisodes:
    """Implements `Episodes` with no language model: what is to be understood waits for one."""

    async def add(self, group: str, epoch: int, draft: EpisodeDraft) -> EpisodeResult:
        """Refuse."""
        del group, epoch, draft
        raise self._refusal()

    async def origins(self, group: str, keys: Sequence[str], *, lens: str, but: str) -> set[str]:
        """Refuse."""
        del group, keys, lens, but
        raise self._refusal()

    def _refusal(self) -> ConfigError:
        return ConfigError("no language model is configured", field="models.llm")


@dataclass(frozen=True, slots=True)
class UnderstandParts:
    """What the understand lane works with.

    Attributes:
        executors: For each kind of request who does it.
        lenses: What each lens looks for.
    """

    mailbox: Mailbox
    graph: GraphConnection
    passages: PassageStore
    episodes: Episodes
    clock: Clock
    ring: Ring
    executors: Mapping[str, Executor] = field(default_factory=dict)
    lenses: LensRegistry = field(default_factory=lambda: LensRegistry({}))


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
        if await _conclude(parts, lease, work.exception(), keeper):
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
    error: BaseException | None,
    keeper: asyncio.Task[None],
) -> bool:
    """Commit the item, or fail it; whether the group's doorbell is to be rung.

    While the queue is down this is tried again for as long as the lease lasts: the work is done and
    paid for, and a lease that nobody gives back counts as a crash.
    """
    item = lease.items[0]
    if isinstance(error, LeaseLost):
        raise error
    while True:
        try:
            if error is None:
                return await parts.mailbox.commit(lease, [item.id])
            await fail_item(parts.mailbox, lease, item.id, error)
        except BackendUnavailable:
            if keeper.done():
                raise
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return False


async def _work(parts: UnderstandParts, lease: Lease) -> None:
    item = lease.items[0]
    if item.kind == "understand":
        await _understand(parts, lease, item)
    elif item.kind in parts.executors:
        await _answer(parts, lease, item)
    elif item.kind != "barrier":
        raise Permanent(f"this version knows no work of the kind {item.kind[:64]!r}")


async def _answer(parts: UnderstandParts, lease: Lease, item: Item) -> None:
    """Do a request and keep its answer; a refusal is an answer as well."""
    run = await parts.graph.known_run()
    content: Mapping[str, Any]
    try:
        content = {"answer": await parts.executors[item.kind](lease, item)}
    except GralkorError as error:
        if error.retry:
            raise
        content = {"error": error.to_dict()}
    await parts.graph.wait_durable(run)
    await parts.mailbox.answer(lease, item.body["request"], content)
    log.info("request_done", group=lease.group, kind=item.kind, item=item.id, **_outcome(content))


def _outcome(content: Mapping[str, Any]) -> dict[str, Any]:
    return {"refused": content["error"]["code"]} if "error" in content else {}


async def _understand(parts: UnderstandParts, lease: Lease, item: Item) -> None:
    run = await parts.graph.known_run()
    passages = await waiting_passages(parts, lease)
    if not passages:
        log.info("nothing_to_understand", group=lease.group, item=item.id)
        # Who wrote it may have been lost before that was on the graph's disk.
        await parts.graph.wait_durable(run)
        return
    result = await parts.episodes.add(
        lease.group, lease.epoch, draft_episode(lease.group, item, passages, parts.lenses)
    )
    await parts.graph.wait_durable(run)
    log.info(
        "understood",
        group=lease.group,
        item=item.id,
        episode=result.uuid,
        created=result.created,
        entities=result.entities,
        facts=result.facts,
    )


async def waiting_passages(parts: UnderstandParts, lease: Lease) -> list[StoredPassage]:
    """Return the item's passages that no other episode of the group holds yet.

    A turn that was sent again after its id was forgotten is found here, and not understood twice.
    Words that were invalidated, or replaced, before they were understood are left out.

    Raises:
        NotYet: Some are still on their way through the index lane.
    """
    item = lease.items[0]
    home, turns = item.body["home"], item.body["turns"]
    # Asked first: a turn that is indexed between the two questions must not count as one without
    # a passage.
    indexed = await parts.mailbox.idle("index", home)
    found = await parts.passages.of_turns(home, item.body["session"], turns)
    if not indexed and set(turns) - {passage.turn_id for passage in found}:
        raise NotYet("its turns are not indexed yet", retry_after=0.2)
    if lease.group == home:
        return [passage for passage in found if passage.waiting and not passage.withdrawn]
    # `waiting` tells of the home's own episodes only.
    keys = [origin_key(home, turn) for turn in turns]
    known = await parts.episodes.origins(
        lease.group,
        keys,
        lens=lens_name(lease.group, item, parts.lenses),
        but=episode_uuid(lease.group, item),
    )
    return [
        passage
        for passage in found
        if origin_key(home, passage.turn_id) not in known and not passage.withdrawn
    ]


def episode_uuid(group: str, item: Item) -> str:
    """Return the uuid of an item's episode; it is the same each time the work is done again."""
    lens = item.body.get("lens")
    place = f"{group}\x01{lens}" if lens else group
    return str(uuid.uuid5(_NAMESPACE, "\x00".join((place, *item.body["turns"]))))


def lens_name(group: str, item: Item, lenses: LensRegistry) -> str:
    """Return the lens that an item is understood through; ``global`` if that cannot be told.

    The group tells it, but for the one that all global lenses share: there the item does. Words of
    a turn never do.
    """
    target = parse_group(group)
    named = item.body.get("lens")
    lens = lenses.through(target, named)
    return lens.name if lens else target.lens or named or GLOBAL


def draft_episode(
    group: str, item: Item, passages: Sequence[StoredPassage], lenses: LensRegistry
) -> EpisodeDraft:
    """Return what is to be understood: a transcript, the time it is to be read at, and the kinds.

    What was captured through a lens that is not configured any more is looked through for anything.
    """
    body: Any = item.body
    home = body["home"]
    lens = lenses.through(parse_group(group), body.get("lens"))
    kinds = extraction_arguments(lens.ontology) if lens and lens.ontology else {}
    turns = dict.fromkeys(passage.turn_id for passage in passages)
    return EpisodeDraft(
        uuid=episode_uuid(group, item),
        name=f"session {body['session']}",
        body=transcript(passages),
        reference_time=max(passage.event_time for passage in passages),
        source_description=f"conversation of {body['agent']} in session {body['session']}",
        passages=tuple(passage.uuid for passage in passages) if group == home else (),
        origins=() if group == home else tuple(origin_key(home, turn) for turn in turns),
        lens=lens_name(group, item, lenses),
        kinds=Kinds(**kinds),
    )


def transcript(passages: Sequence[StoredPassage]) -> str:
    """Return the words of *passages*, one line per message, as ``Speaker: words``.

    What the agent did (role ``behaviour``) is left out: it is no statement about the world.
    """
    lines: list[str] = []
    for passage in passages:
        if passage.role == "behaviour":
            continue
        if passage.part and lines:
            lines[-1] += passage.text
        else:
            lines.append(f"{passage.speaker}: {passage.text}")
    return "\n".join(lines)
