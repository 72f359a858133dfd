"""Dead letters: work that was given up, kept until somebody retries or drops it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, get_args

import orjson
from redis.asyncio import Redis

from gralkord.clock import to_iso
from gralkord.errors import InvalidInput, NotFound
from gralkord.groups import escape, parse_group
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Ring, decode_rings
from gralkord.mailbox.scripts import Scripts
from gralkord.models.jobs import check_entry_id
from gralkord.models.letters import DeadFilter, DeadLane, DeadLetter, DeadPage, DeadQuery

PAGE: Final = 100
# Letters that one script handles; more would keep others waiting.
AT_ONCE: Final = 50

_FIRST: Final = (0, 0)
_LAST: Final = (2**64 - 1, 2**64 - 1)
_LAST_MS: Final = 253_402_300_799_000  # who writes an entry may name any moment

Fields = Mapping[bytes, bytes]


class DeadLetters:
    """The dead letters of all tenants; whoever asks names the tenant and sees its own only."""

    def __init__(self, client: Redis, keys: Keys, *, understanding: bool) -> None:
        self._client = client
        self._key = keys.named("dead")
        self._answers = keys.named("answers")
        self._scripts = Scripts(client, keys.prefix)
        self._understanding = understanding

    async def page(self, tenant: str, query: DeadQuery) -> DeadPage:
        """Return letters that fit, without their bodies.

        Raises:
            InvalidInput: The page does not begin at an id.
        """
        if query.after is not None:
            check_entry_id(query.after, "after")
        letters: list[DeadLetter] = []
        async for letter in self._scan(tenant, query, query.after, query.order == "newest"):
            if len(letters) == query.limit:
                return DeadPage(letters=letters, next=letters[-1].id)
            letters.append(letter)
        return DeadPage(letters=letters)

    async def show(self, tenant: str, letter: str) -> DeadLetter:
        """Return one letter with everything that is known of it.

        Raises:
            NotFound: There is none of this id, or it is another tenant's.
            InvalidInput: It is no id of a letter.
        """
        check_entry_id(letter)
        with queue_errors():
            found: Any = await self._client.xrange(self._key, letter, letter)
            answer: Any = await self._client.hget(self._answers, letter)
        read = read_letter(tenant, letter, found[0][1], whole=True) if found else None
        if read is None:
            raise NotFound(f"no dead letter has the id {letter!r}", field="id")
        said = answer.decode(errors="replace") if answer is not None else None
        return read.model_copy(update={"answer": said})

    async def select(self, tenant: str, wanted: DeadFilter) -> list[str]:
        """Return the ids of all letters that fit, oldest first."""
        return [letter.id async for letter in self._scan(tenant, wanted, None, newest=False)]

    async def whole(self, tenant: str) -> AsyncIterator[DeadLetter]:
        """Yield all letters with all that is known of them, oldest first."""
        async for letter in self._scan(tenant, DeadFilter(), None, newest=False, whole=True):
            yield letter

    async def retry(self, tenant: str, letters: Sequence[str]) -> tuple[dict[str, str], list[Ring]]:
        """Put letters back to work, oldest first, each behind what waits.

        Args:
            tenant: Whose letters.
            letters: Their ids.

        Returns:
            For each id ``retried``, ``not_found`` or ``unreadable``; and the doorbells to ring.

        Raises:
            InvalidInput: One is no id of a letter; nothing was done.
        """
        outcomes: dict[str, str] = {}
        rings: list[Ring] = []
        for some in _slices(letters):
            raw, *answers = await self._scripts.call(
                "dead_retry", escape(tenant), int(self._understanding), *some
            )
            outcomes |= {letter: said.decode() for letter, said in zip(some, answers, strict=True)}
            rings += decode_rings(raw)
        return outcomes, rings

    async def forget_answers(self, letters: Sequence[str]) -> None:
        """Take away what models wrote, and leave the letters themselves."""
        for some in _slices(letters):
            with queue_errors():
                await self._client.hdel(self._answers, *some)

    async def drop(self, tenant: str, letters: Sequence[str]) -> dict[str, str]:
        """Delete letters for good; return for each id ``dropped`` or ``not_found``.

        Raises:
            InvalidInput: One is no id of a letter; nothing was done.
        """
        outcomes: dict[str, str] = {}
        for some in _slices(letters):
            answers = await self._scripts.call("dead_drop", escape(tenant), *some)
            outcomes |= {letter: said.decode() for letter, said in zip(some, answers, strict=True)}
        return outcomes

    async def _scan(
        self,
        tenant: str,
        wanted: DeadFilter,
        after: str | None,
        newest: bool,
        *,
        whole: bool = False,
    ) -> AsyncIterator[DeadLetter]:
        read: Callable[..., Any] = self._client.xrevrange if newest else self._client.xrange
        if after and _numbers(after) == (_FIRST if newest else _LAST):
            return  # nothing is behind it, and Redis knows no range that begins there
        start = f"({after}" if after else ("+" if newest else "-")
        while True:
            with queue_errors():
                entries: Any = await read(self._key, start, "-" if newest else "+", count=PAGE)
            for entry, fields in entries:
                letter = read_letter(tenant, entry.decode(), fields, whole=whole)
                if letter and _fits(letter, wanted):
                    yield letter
            if len(entries) < PAGE:
                return
            start = f"({entries[-1][0].decode()}"


def read_letter(
    tenant: str, letter: str, fields: Fields, *, whole: bool = False
) -> DeadLetter | None:
    """Return an entry of the dead stream as a letter; nothing if it is not of *tenant*.

    Args:
        tenant: Who asks.
        letter: Its id.
        fields: As Redis gave them.
        whole: Whether the words of memories are wanted.
    """
    text = {name.decode(): value.decode(errors="replace") for name, value in fields.items()}
    lane, group = text.get("lane", ""), text.get("group", "")
    owner, operator, lens = _owner_of(lane, group)
    if owner != tenant or lane not in get_args(DeadLane):
        return None
    item, _, _ = text.get("item", "").partition(" ")
    body = _body_of(lane, fields)
    known = body or {}
    turns = known.get("turns") or [known.get("turn_id")]
    return DeadLetter.model_validate(
        {
            "id": letter,
            "lane": lane,
            "group": group,
            "operator": operator or _name(known.get("operator")),
            "lens": lens,
            "session": _name(known.get("session")),
            "turns": [turn for turn in turns if isinstance(turn, str)],
            "item": item,
            "reason": text.get("reason", ""),
            "detail": text.get("detail", ""),
            "attempts": int(text["attempts"]) if "attempts" in text else None,
            "at": to_iso(entry_time(letter)),
            "body": body if whole else None,
            "raw": text["item"].partition(" ")[2] if whole and lane == "intake" else None,
        }
    )


def entry_time(entry: str) -> datetime:
    """Return when an entry was written, as its id says; at most the last moment there is."""
    milliseconds = min(int(entry.partition("-")[0]), _LAST_MS)
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _owner_of(lane: str, group: str) -> tuple[str | None, str | None, str | None]:
    """Return tenant, operator and lens of a letter."""
    try:
        if lane == "intake":
            return parse_group(f"global__{group}").tenant, None, None
        parsed = parse_group(group)
    except InvalidInput:
        return None, None, None
    return parsed.tenant, parsed.operator, parsed.lens or parsed.scope


def _body_of(lane: str, fields: Fields) -> dict[str, Any] | None:
    text = fields.get(b"item", b"").partition(b" ")[2]
    if lane == "intake":
        text = dict(entry_fields(text, fields.get(b"sizes", b""))).get(b"data", b"")
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


def entry_fields(text: bytes, sizes: bytes) -> list[tuple[bytes, bytes]]:
    """Return names and values of an entry, cut out of the text that a letter keeps of it.

    Args:
        text: ``name=value`` and so on, parted by line feeds, which may stand in the values too.
        sizes: Bytes of each name and value, parted by commas.
    """
    parts: list[bytes] = []
    at = 0
    for size in sizes.split(b",") if sizes else ():
        parts.append(text[at : at + int(size)])
        at += int(size) + 1
    return list(zip(parts[::2], parts[1::2], strict=False))


def _fits(letter: DeadLetter, wanted: DeadFilter) -> bool:
    return (
        wanted.reason in {None, letter.reason}
        and wanted.lane in {None, letter.lane}
        and wanted.operator in {None, letter.operator}
    )


def _numbers(entry: str) -> tuple[int, ...]:
    return tuple(int(number) for number in entry.split("-"))


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _slices(letters: Sequence[str]) -> list[list[str]]:
    ids = sorted(
        {check_entry_id(letter, "ids") for letter in letters},
        key=_numbers,
    )
    return [ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE)]
