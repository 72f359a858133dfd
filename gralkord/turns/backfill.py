"""Backfill: queue for understanding what was captured while no model was configured."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

import structlog

from gralkord.errors import UnknownLens
from gralkord.graph.passages import PassageStore, StoredPassage
from gralkord.groups import DEFAULT_LENS, parse_group
from gralkord.intake.plan import EPISODE_BYTES, EPISODE_GAP_MS, EPISODE_TURNS
from gralkord.lenses.registry import GLOBAL, LensRegistry
from gralkord.mailbox.items import Item
from gralkord.mailbox.keys import Lane
from gralkord.mailbox.mailbox import Mailbox, Ring

log = structlog.get_logger(__name__)

PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Backfilled:
    """What a backfill has queued."""

    groups: int
    items: int
    turns: int


async def backfill_group(
    passages: PassageStore, mailbox: Mailbox, lenses: LensRegistry, group: str
) -> tuple[Backfilled, list[Ring]]:
    """Queue the passages of one group that no episode holds; return counts and doorbells to ring.

    They go through the lenses that they were captured through, but for those that are not there any
    more. Running it twice is harmless: an item whose turns have been understood meanwhile does
    nothing.
    """
    rings: list[Ring] = []
    items = turns = 0
    async for run in _runs(passages, group):
        queued = list(_items(group, run, lenses))
        if queued:
            rings += await mailbox.deliver(queued)
            items += len(queued)
            turns += len({passage.turn_id for passage in run})
    return Backfilled(1 if items else 0, items, turns), rings


async def _runs(passages: PassageStore, group: str) -> AsyncIterator[list[StoredPassage]]:
    """Yield the waiting passages in runs that each make one episode, as a flush would cut them."""
    run: list[StoredPassage] = []
    async for passage in _waiting(passages, group):
        if run and _starts_anew(run, passage):
            yield run
            run = []
        run.append(passage)
    if run:
        yield run


async def _waiting(passages: PassageStore, group: str) -> AsyncIterator[StoredPassage]:
    after: StoredPassage | None = None
    while page := await passages.waiting(group, PAGE, after):
        for passage in page:
            yield passage
        after = page[-1]


def _starts_anew(run: list[StoredPassage], passage: StoredPassage) -> bool:
    last = run[-1]
    if passage.turn_id == last.turn_id:
        return False
    gap_ms = abs((passage.event_time - last.event_time).total_seconds()) * 1000
    return (
        passage.session != last.session
        or (passage.form, passage.description) != (last.form, last.description)
        or passage.through != last.through
        or passage.form in {"document", "structured_record"}
        or len({each.turn_id for each in run}) >= EPISODE_TURNS
        or sum(len(each.text.encode()) for each in run) >= EPISODE_BYTES
        or gap_ms > EPISODE_GAP_MS
    )


def _items(
    group: str, run: list[StoredPassage], lenses: LensRegistry
) -> Iterator[tuple[Lane, str, Item]]:
    home = parse_group(group)
    if home.operator is None:  # words of nobody: a group that lenses share keeps none
        return
    body = {
        "kind": "understand",
        "home": group,
        "turns": list(dict.fromkeys(passage.turn_id for passage in run)),
        "operator": home.operator,
        "agent": run[0].agent,
        "session": run[0].session,
    }
    name = f"backfill-{run[0].uuid}"
    for through in run[0].through or (home.lens or DEFAULT_LENS,):
        if through == home.lens:
            if not lenses.keeps_only_words(home):
                yield "understand", group, Item(name, body)
            continue
        try:
            lens = lenses.lens(through)
        except UnknownLens:
            log.warning("backfill_left_out", group=group, lens=through)
            continue
        target = lenses.group(home.tenant, home.operator, lens).id
        more = {"lens": through} if lens.scope == GLOBAL else {}
        yield "understand", target, Item(f"{name}.{through}", {**body, **more})
