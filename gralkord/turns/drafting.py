"""From an item of the understand lane to the draft of its episode."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gralkord.agents.profiles import strip_memory
from gralkord.errors import NotYet, UnknownLens
from gralkord.graph.drafts import EpisodeDraft, EpisodeSource, Kinds, origin_key
from gralkord.graph.passages import StoredPassage
from gralkord.groups import parse_group
from gralkord.lenses.ontology import extraction_arguments
from gralkord.lenses.registry import GLOBAL, Lens, LensRegistry
from gralkord.mailbox.items import Item, Lease
from gralkord.turns.work import UnderstandParts

_NAMESPACE: Final = uuid.UUID("0b9c3e8e-7a4c-5f0e-8d53-0d5f9c0f7b11")
_SOURCES: Final[Mapping[str, EpisodeSource]] = {"document": "text", "structured_record": "json"}
_NO_LINES: Final[Mapping[str, str]] = {}
_INDENT: Final = "  "


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


def configured_lens(group: str, item: Item, lenses: LensRegistry) -> Lens:
    """Return the lens that an item is understood through.

    Raises:
        UnknownLens: It is not configured any more. What was to be made of the words cannot be told
            then; they may have been meant for a process that passes little of them on.
    """
    lens = lenses.through(parse_group(group), item.body.get("lens"))
    if lens is None:
        raise UnknownLens(
            f"no lens of this scope is named {lens_name(group, item, lenses)!r} any more",
            field="lenses",
            hint="configure it again, then: gralkord dead retry",
        )
    return lens


def draft_episode(
    group: str, item: Item, passages: Sequence[StoredPassage], lenses: LensRegistry
) -> EpisodeDraft:
    """Return what is to be understood: a transcript, the time it is to be read at, and the kinds.

    Raises:
        UnknownLens: The lens is not configured any more.
    """
    body: Any = item.body
    home = body["home"]
    lens = configured_lens(group, item, lenses)
    kinds = extraction_arguments(lens.ontology) if lens.ontology else {}
    turns = dict.fromkeys(passage.turn_id for passage in passages)
    told = passages[0]  # an item holds one thing alone, if it was ingested
    source = _SOURCES.get(told.form or "", "message")
    said = f"conversation of {body['agent']} in session {body['session']}"
    return EpisodeDraft(
        uuid=episode_uuid(group, item),
        name=f"session {body['session']}",
        body=transcript(passages) if source == "message" else plain_words(passages),
        reference_time=max(passage.event_time for passage in passages),
        source_description=told.description or said,
        passages=tuple(passage.uuid for passage in passages) if group == home else (),
        origins=() if group == home else tuple(origin_key(home, turn) for turn in turns),
        lens=lens_name(group, item, lenses),
        kinds=Kinds(**kinds),
        source=source,
    )


def plain_words(passages: Sequence[StoredPassage]) -> str:
    """Return the words of a document or record as they stand in it, without who says them."""
    turns = itertools.groupby(passages, lambda passage: passage.turn_id)
    return "\n".join("".join(each.text for each in some).strip("\n") for _, some in turns)


def transcript(passages: Sequence[StoredPassage], behaviours: Mapping[str, str] = _NO_LINES) -> str:
    """Return the words of *passages*, message by message, as ``Speaker: words``.

    Further lines of a message are indented, so that none of them passes for somebody else's words.
    What the agent did (role ``behaviour``) is left out: it is no statement about the world.

    Args:
        passages: In their order.
        behaviours: For turns, by their ids, a line that sums up what the agent did. It stands
            before what the agent said next, or at the turn's end.
    """
    lines: list[str] = []
    left = dict(behaviours)
    for turn, some in itertools.groupby(passages, lambda passage: passage.turn_id):
        lines += _spoken(some, left.pop(turn, None))
    return "\n".join(lines)


def _spoken(passages: Iterable[StoredPassage], behaviour: str | None) -> list[str]:
    said: list[tuple[str, str]] = []
    acted, place = False, None
    for passage in passages:
        if passage.role == "behaviour":
            acted = True
        elif passage.part and said:
            speaker, text = said[-1]
            said[-1] = (speaker, text + passage.text)
        else:
            if acted and place is None and passage.role == "assistant":
                place = len(said)
            said.append((passage.speaker, passage.text))
    own = [(speaker, _own_words(text)) for speaker, text in said]
    lines = [f"{speaker}: {_indented(text)}" if text else "" for speaker, text in own]
    if behaviour is not None:
        lines.insert(len(lines) if place is None else place, behaviour)
    return [line for line in lines if line]


def _indented(text: str) -> str:
    return f"\n{_INDENT}".join(text.splitlines())


def _own_words(text: str) -> str:
    """Return a message without recalled memory, which would become a fact once more."""
    bare = strip_memory(text)
    return text if bare == text else bare.strip()
