"""Which entity is meant: by id, by a handle, by its name; or a new one."""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from gralkord.errors import InvalidInput, NotFound
from gralkord.graph.rows import EntityRow
from gralkord.graph.sanitise import clean_name, fold_name

if TYPE_CHECKING:
    from gralkord.graph.cache import GroupCache
    from gralkord.models.triples import EntityRef

_NAMESPACE: Final = uuid.UUID("2d0c4a4e-5e0f-5b5a-9d0e-6a1f3a0c7b42")

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# An account, or an e-mail address.
_HANDLE = re.compile(r"@\S+|[^\s@]+@[^\s@]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_GAP = re.compile(r"_+")


@lru_cache(maxsize=4_096)  # the same few in every fact
def relation_name(text: str) -> str:
    """Return the form in which a relation is kept: ``works at`` and ``worksAt`` are ``WORKS_AT``.

    Returns:
        Letters, digits and underscores; empty if *text* has no letter or digit.
    """
    name = unicodedata.normalize("NFC", _HUMP.sub("_", clean_name(text)).upper())
    # Marks are parts of letters, in many scripts of most of them.
    kept = (
        each if each.isalnum() or unicodedata.category(each)[0] == "M" else "_" for each in name
    )
    return _GAP.sub("_", "".join(kept)).strip("_")


def known_entities(cache: GroupCache, term: str) -> list[EntityRow]:
    """Return the entities that *term* may mean: of that id, else of that handle, else so named."""
    table, name = cache.entities, clean_name(term)
    named = [row for row in table.by_uuid([name.lower()]) if not row.note_kind]
    return named or table.called(name)


def entity_uuid(group: str, name: str) -> str:
    """Return the uuid of an entity that is made for its name: one for all spellings of it."""
    return str(uuid.uuid5(_NAMESPACE, f"{group}\x00{fold_name(name)}"))


@dataclass(slots=True)
class Resolver:
    """The entities of one write: what the group knows, and what the write adds to it.

    Attributes:
        cache: What the group knows.
        now: When new entities are made, ISO 8601.
        changed: Entities that are to be written, by uuid.
        created: Uuids of the new ones among them.
        named: Uuids of those whose name is new.
    """

    cache: GroupCache
    now: str
    changed: dict[str, EntityRow]
    created: list[str]
    named: set[str]

    @classmethod
    def of(cls, cache: GroupCache, now: str) -> Resolver:
        """Return a resolver that has changed nothing yet."""
        return cls(cache, now, {}, [], set())

    def resolve(self, ref: EntityRef, field: str) -> EntityRow:
        """Return the entity that is meant; one that is not known is made.

        Args:
            ref: What a caller says of it.
            field: Where that stands in the request.

        Raises:
            NotFound: There is no entity of that id.
            InvalidInput: The handles stand for several, or nothing is left of a name.
        """
        if ref.id is not None:
            return self._with_handles(self._by_id(ref.id, f"{field}.id"), ref.handles, field)
        if ref.term is not None:
            term = _clean(ref.term, field)
            if _UUID.fullmatch(term):
                return self._by_id(term, field)
            handles = [term] if _HANDLE.fullmatch(term) else []
            return self._named(term, handles, field)
        handles = [_clean(handle, f"{field}.handles") for handle in ref.handles]
        return self._named(_clean(ref.name or handles[0], f"{field}.name"), handles, field)

    def _by_id(self, uuid_: str, field: str) -> EntityRow:
        uuid_ = uuid_.strip().lower()
        for row in self._current(self.cache.entities.by_uuid([uuid_])):
            if not row.note_kind:
                return row
        if uuid_ in self.changed:
            return self.changed[uuid_]
        raise NotFound(f"{field}: no entity has this id", field=field)

    def _named(self, name: str, handles: list[str], field: str) -> EntityRow:
        found = self._by_handles(handles, field)
        if found is None:
            found = _oldest(self._of_name(name)) or self._make(name)
        elif _HANDLE.fullmatch(found.name) and not _HANDLE.fullmatch(name):
            # Until now only its handle was known.
            found = self._change(replace(found, name=name), renamed=True)
        return self._with_handles(found, handles, field)

    def _by_handles(self, handles: Iterable[str], field: str) -> EntityRow | None:
        found: dict[str, EntityRow] = {}
        for handle in handles:
            folded = fold_name(handle)
            rows = self._current(self.cache.entities.by_handle(handle))
            rows += [row for row in self.changed.values() if folded in map(fold_name, row.handles)]
            found |= {row.uuid: row for row in rows}
        if len(found) > 1:
            raise InvalidInput(
                f"{field}.handles: they stand for {len(found)} entities",
                field=f"{field}.handles",
                hint="say which one by its id: " + ", ".join(sorted(found)),
            )
        return next(iter(found.values()), None)

    def _of_name(self, name: str) -> list[EntityRow]:
        folded = fold_name(name)
        rows = [
            row
            for row in self._current(self.cache.entities.by_name(name))
            if fold_name(row.name) == folded
        ]
        return rows + [row for row in self.changed.values() if fold_name(row.name) == folded]

    def _make(self, name: str) -> EntityRow:
        uuid_ = entity_uuid(self.cache.group, name)
        # Made for this name once, and renamed since.
        for row in self._current(self.cache.entities.by_uuid([uuid_])):
            return row
        self.created.append(uuid_)
        row = EntityRow(
            uuid=uuid_,
            name=name,
            summary="",
            labels=("Entity",),
            group_id=self.cache.group,
            created_at=self.now,
            attributes={},
            seq=0,
        )
        return self._change(row, renamed=True)

    def _with_handles(self, row: EntityRow, handles: Iterable[str], field: str) -> EntityRow:
        """Return the entity with these handles too.

        Raises:
            InvalidInput: One of them stands for another entity.
        """
        other = self._by_handles(handles, field)
        if other is not None and other.uuid != row.uuid:
            raise InvalidInput(
                f"{field}.handles: they stand for another entity, {other.uuid}",
                field=f"{field}.handles",
            )
        known = {fold_name(handle) for handle in row.handles}
        new = {fold_name(handle): handle for handle in handles}
        more = tuple(handle for folded, handle in new.items() if folded not in known)
        return self._change(replace(row, handles=(*row.handles, *more))) if more else row

    def _change(self, row: EntityRow, *, renamed: bool = False) -> EntityRow:
        self.changed[row.uuid] = row
        if renamed:
            self.named.add(row.uuid)
        return row

    def _current(self, rows: Iterable[EntityRow]) -> list[EntityRow]:
        return [self.changed.get(row.uuid, row) for row in rows]


def _oldest(rows: list[EntityRow]) -> EntityRow | None:
    """Return the entity that was there first, where several have one name."""
    return min(rows, key=lambda row: (row.created_at or "", row.uuid), default=None)


def _clean(text: str, field: str) -> str:
    if name := clean_name(text):
        return name
    raise InvalidInput(f"{field}: must not be blank", field=field)
