"""Backfill: queue for understanding what was captured while no model was configured."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from gralkord.graph.passages import PassageStore, StoredPassage
from gralkord.groups import parse_group
from gralkord.intake.plan import EPISODE_BYTES, EPISODE_GAP_MS, EPISODE_TURNS
from gralkord.mailbox.items import Item
from gralkord.mailbox.mailbox import Mailbox, Ring

PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Backfilled:
    """What a backfill has queued."""

    groups: int
    items: int
    turns: int


async def backfill_group(
    passages: PassageStore, mailbox: Mailbox, group: str
) -> tuple[Backfilled, list[Ring]]:
    """Queue the passages of one group that no episode holds; return counts and doorbells to ring.

    Running it twice is harmless: an item whose turns have been understood meanwhile does nothing.
    """
    rings: list[Ring] = []
    items = turns = 0
    async for run in _runs(passages, group):
        item = _item(group, run)
        rings += await mailbox.deliver([("understand", group, item)])
        items += 1
        turns += len(item.body["turns"])
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
        or passage.form in {"document", "structured_record"}
        or len({each.turn_id for each in run}) >= EPISODE_TURNS
        or sum(len(each.text.encode()) for each in run) >= EPISODE_BYTES
        or gap_ms > EPISODE_GAP_MS
    )


def _item(group: str, run: list[StoredPassage]) -> Item:
    turns = list(dict.fromkeys(passage.turn_id for passage in run))
    return Item(
        f"backfill-{run[0].uuid}",
        {
            "kind": "understand",
            "home": group,
            "turns": turns,
            "operator": parse_group(group).operator,
            "agent": run[0].agent,
            "session": run[0].session,
        },
    )
