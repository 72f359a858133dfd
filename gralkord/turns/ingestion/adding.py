"""What a process of the user's own has added, as items of their own: one text, one episode.

The first of them says that the item was handled; it has no text and asks no model. So what is sent
again does not run the process again, also where it has added nothing.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson
import structlog

from gralkord.graph.drafts import EpisodeDraft, EpisodeSource, origin_key
from gralkord.graph.passages import PassageStore, StoredPassage
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.items import FollowUp, Item, Lease
from gralkord.turns.drafting import draft_episode
from gralkord.turns.ingestion.own_store import Added
from gralkord.turns.work import Episodes, Executor, Work

log = structlog.get_logger(__name__)

ADD: Final = "add"
_KEPT: Final = ("home", "operator", "agent", "session", "lens", "flushes")


def follow_ups(work: Work, added: Sequence[Added]) -> list[FollowUp]:
    """Return the work that follows from a run: that it was done, then each text, in order."""
    lease, item = work.lease, work.item
    common = {name: item.body[name] for name in _KEPT if name in item.body}
    common["turns"] = list(dict.fromkeys(passage.turn_id for passage in work.passages))
    bodies: list[dict[str, Any]] = [{"kind": ADD, **common}]
    bodies += [
        {
            "kind": ADD,
            "asks_model": True,
            **common,
            "number": number,
            "content": each.content,
            "source_description": each.source_description,
        }
        for number, each in enumerate(added)
    ]
    return [
        FollowUp("understand", lease.group, Item(f"{item.id}.{place}", body))
        for place, body in enumerate(bodies)
    ]


def add_texts(passages: PassageStore, episodes: Episodes, lenses: LensRegistry) -> Executor:
    """Return the executor of what `follow_ups` has made."""

    async def execute(lease: Lease, item: Item) -> Mapping[str, Any]:
        home, turns = item.body["home"], item.body["turns"]
        found = await passages.of_turns(home, item.body["session"], turns)
        gone = set(turns) - {passage.turn_id for passage in found}
        left = [passage for passage in found if not passage.withdrawn]
        if gone or not left:  # erased meanwhile, or invalidated: what was made of it goes with it
            log.info("added_text_dropped", group=lease.group, item=item.id)
            return {}
        draft = _draft(lease.group, item, left, lenses)
        result = await episodes.add(lease.group, lease.epoch, draft)
        log.info(
            "understood",
            group=lease.group,
            item=item.id,
            episode=result.uuid,
            created=result.created,
            entities=result.entities,
            facts=result.facts,
            notes=0,
        )
        return {}

    return execute


def _draft(
    group: str, item: Item, passages: Sequence[StoredPassage], lenses: LensRegistry
) -> EpisodeDraft:
    body: Any = item.body
    whole = draft_episode(group, item, passages, lenses)
    if "content" not in body:
        # Its words are in the passages; a group that lenses share keeps none.
        return replace(whole, uuid=_handled(whole), body="", extract=False)
    home, turns = body["home"], dict.fromkeys(passage.turn_id for passage in passages)
    digest = hashlib.blake2b(body["content"].encode(), digest_size=12).hexdigest()
    return replace(
        whole,
        uuid=_uuid(whole.uuid, str(body["number"]), digest),
        body=body["content"],
        source_description=body["source_description"],
        source=_source(whole.source, body["content"]),
        # A passage is part of one episode of its group: the one that says it was handled.
        passages=(),
        origins=tuple(origin_key(home, turn) for turn in turns),
        within=_handled(whole) if group == home else None,
    )


def _source(source: EpisodeSource, content: str) -> EpisodeSource:
    """Return what a text is that was made of *source*: of a record it need not be one itself."""
    if source != "json":
        return source
    try:
        orjson.loads(content)
    except orjson.JSONDecodeError:
        return "text"
    return "json"


def _handled(whole: EpisodeDraft) -> str:
    return _uuid(whole.uuid, "handled")


def _uuid(*parts: str) -> str:
    return str(uuid.uuid5(uuid.UUID(parts[0]), "\x00".join(parts[1:])))
