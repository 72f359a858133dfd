"""Requests of the client, answered from the twin's memory instead of by a daemon."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson
from pydantic import BaseModel

from gralkord import __version__
from gralkord.errors import GralkorError, NoModel, NotFound, Permanent
from gralkord.models import RecallRequest
from gralkord.models.admin import CommunitiesQuery, CommunitiesRequest, StopCommunities
from gralkord.models.costs import Costs, CostsQuery, Spending
from gralkord.models.erasure import EraseRequest
from gralkord.models.generalisations import (
    GeneralisationQuery,
    GeneralisationsRequest,
    GeneraliseRequest,
)
from gralkord.models.ingest import Ingest, MemoryAddReceipt, MemoryAddRequest
from gralkord.models.letters import DeadPage, DeadQuery, DeadResult, DeadSelection
from gralkord.models.memories import (
    HistoryQuery,
    InvalidateRequest,
    MemoryQuery,
    ReactivateRequest,
    UndoRequest,
)
from gralkord.models.observe import ObserveRequest
from gralkord.models.records import AddMemoryRequest, MemoriesQuery, UpdateMemoryRequest
from gralkord.models.search import SearchRequest
from gralkord.models.sources import SourceQuery, SourcesQuery
from gralkord.models.triples import TripleQuery, TriplesRequest
from gralkord.testing.twin.admin import TwinAdmin
from gralkord.testing.twin.changes import Changes
from gralkord.testing.twin.erasing import Erasing
from gralkord.testing.twin.facts import Facts
from gralkord.testing.twin.generalising import Generalising
from gralkord.testing.twin.recalling import Recalling
from gralkord.testing.twin.records import TwinRecords
from gralkord.testing.twin.turns import Turns, check_batch, read_flush
from gralkord.wire import parse_object, read_model, zone_notes

if TYPE_CHECKING:
    from gralkord.client.calls import Call
    from gralkord.testing.twin.shelves import Shelves

Answer = TypeVar("Answer")
Model = TypeVar("Model", bound=BaseModel)

# As the daemon's report: the last days, today among them.
_REPORTED_DAYS: Final = 30


@dataclass(frozen=True, slots=True)
class Asked:
    """One request.

    Attributes:
        name: The part of the path that names something, if there is one.
        query: The parameters behind the path.
        body: The JSON, or nothing.
    """

    name: str
    query: Mapping[str, str]
    body: bytes

    def object(self) -> dict[str, Any]:
        """Return the JSON object in the body."""
        return parse_object(self.body)

    def read(self, model: type[Model]) -> Model:
        """Return the body as a *model*."""
        return read_model(model, self.object())

    def read_query(self, model: type[Model]) -> Model:
        """Return the parameters as a *model*: numbers and truth values come as texts."""
        raw: dict[str, Any] = dict(self.query)
        for name, field in model.model_fields.items():
            if field.annotation is int and (text := raw.get(name, "")).isdecimal():
                raw[name] = int(text)
            elif field.annotation is bool and raw.get(name) in {"true", "false"}:
                raw[name] = raw[name] == "true"
        return read_model(model, raw)


Route = Callable[[Asked], BaseModel | dict[str, Any]]


class Routes:
    """Answers calls of the client for one tenant.

    Args:
        shelves: The memory.
        tenant: Whose part of it.
    """

    def __init__(self, shelves: Shelves, tenant: str) -> None:
        self._shelves = shelves
        self._tenant = tenant
        self._turns = Turns(shelves, tenant)
        self._recalling = Recalling(shelves, tenant)
        self._facts = Facts(shelves, tenant)
        self._general = Generalising(shelves, tenant)
        self._changes = Changes(shelves, tenant)
        self._records = TwinRecords(shelves, tenant)
        self._erasing = Erasing(shelves, tenant)
        self._admin = TwinAdmin(shelves, tenant)
        self._routes = [
            (method, re.compile(path), route) for (method, path), route in self._table().items()
        ]

    def answer(self, call: Call[Answer]) -> Answer:
        """Return the answer to a call, as the client reads a daemon's.

        Raises:
            GralkorError: It is refused, or the twin does not do this.
        """
        parts = urlsplit(call.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        for method, path, route in self._routes:
            if method == call.method and (found := path.fullmatch(parts.path)):
                asked = Asked(unquote("".join(found.groups())), query, call.body)
                with self._shelves.lock:
                    said = route(asked)
                if isinstance(said, BaseModel):
                    return call.read(said.model_dump_json().encode())
                return call.read(orjson.dumps(said))
        raise not_done(f"{call.method} {parts.path}")

    def _table(self) -> dict[tuple[str, str], Route]:
        memory, name = "/v1/memories/", "([^/]+)"
        return {
            ("POST", "/v1/capture"): lambda it: self._turns.capture(it.object()),
            ("POST", "/v1/captures"): self._captures,
            ("POST", "/v1/ingest"): self._ingest,
            ("POST", "/v1/memory_add"): self._memory_add,
            ("POST", "/v1/flush"): lambda it: self._turns.flush(read_flush(it.object())),
            ("POST", "/v1/recall"): lambda it: self._recalling.recall(it.read(RecallRequest)),
            ("POST", "/v1/search"): lambda it: self._recalling.search(it.read(SearchRequest)),
            ("GET", f"/v1/jobs/{name}"): lambda it: self._turns.job(it.name),
            ("POST", "/v1/triples"): lambda it: self._facts.add(it.read(TriplesRequest)),
            ("GET", "/v1/triples"): lambda it: self._facts.find(it.read_query(TripleQuery)),
            ("POST", "/v1/generalise"): lambda it: self._general.generalise(
                it.read(GeneraliseRequest)
            ),
            ("POST", "/v1/generalisations"): lambda it: self._general.add(
                it.read(GeneralisationsRequest)
            ),
            ("GET", "/v1/generalisations"): lambda it: self._general.find(
                it.read_query(GeneralisationQuery)
            ),
            ("GET", f"/v1/results/{name}"): lambda it: self._facts.result(it.name),
            ("POST", "/v1/observe"): lambda it: self._records.observe(it.read(ObserveRequest)),
            ("POST", "/v1/memories"): lambda it: self._records.add(it.read(AddMemoryRequest)),
            ("GET", "/v1/memories"): lambda it: self._records.page(it.read_query(MemoriesQuery)),
            ("PATCH", f"{memory}{name}"): lambda it: self._records.update(
                it.name, it.read(UpdateMemoryRequest)
            ),
            ("POST", f"{memory}invalidate"): self._invalidate,
            ("POST", f"{memory}reactivate"): self._reactivate,
            ("POST", f"{memory}undo"): lambda it: self._changes.undo(it.read(UndoRequest)),
            ("GET", f"{memory}{name}/history"): self._history,
            ("GET", f"{memory}{name}"): self._show,
            ("GET", "/v1/sources"): self._sources,
            ("GET", f"/v1/sources/{name}"): self._source,
            ("POST", "/v1/erase"): lambda it: self._erasing.erase(it.read(EraseRequest)),
            ("GET", "/v1/erase"): lambda _: self._erasing.all(),
            ("GET", f"/v1/erase/{name}"): lambda it: self._erasing.read(it.name),
            ("POST", "/v1/admin/communities"): lambda it: self._admin.build(
                it.read(CommunitiesRequest)
            ),
            ("POST", "/v1/admin/communities/stop"): lambda it: self._admin.stop(
                it.read(StopCommunities)
            ),
            ("GET", "/v1/admin/communities"): lambda it: self._admin.page(
                it.read_query(CommunitiesQuery)
            ),
            ("GET", "/v1/costs"): self._costs,
            ("GET", "/v1/dead"): self._letters,
            ("GET", f"/v1/dead/{name}"): self._letter,
            ("POST", "/v1/dead/retry"): self._handle_letters,
            ("POST", "/v1/dead/drop"): self._handle_letters,
            ("POST", "/v1/backfill"): self._backfill,
            ("GET", "/v1/status"): lambda _: self._status(),
            ("GET", "/readyz"): lambda _: {"ready": True, "parts": {"twin": "ok"}},
        }

    def _captures(self, asked: Asked) -> dict[str, Any]:
        results: list[dict[str, Any]] = []
        for index, raw in enumerate(check_batch(asked.object())):
            try:
                receipt = self._turns.capture(raw)
            except GralkorError as error:
                results.append({"index": index, "error": error.to_dict()})
            else:
                results.append({"index": index, "receipt": receipt.model_dump()})
        accepted = sum("receipt" in result for result in results)
        return {"accepted": accepted, "results": results}

    def _ingest(self, asked: Asked) -> BaseModel:
        return self._turns.ingest(asked.read(Ingest), zone_notes(asked.object()))

    def _memory_add(self, asked: Asked) -> BaseModel:
        asked_for = asked.read(MemoryAddRequest).to_ingest()
        receipt = self._turns.ingest(asked_for, zone_notes(asked.object()))
        return MemoryAddReceipt(**receipt.model_dump())

    def _show(self, asked: Asked) -> BaseModel:
        return self._changes.show(asked.read_query(MemoryQuery).operator, asked.name)

    def _history(self, asked: Asked) -> BaseModel:
        query = asked.read_query(HistoryQuery)
        return self._changes.history(query.operator, asked.name, words=query.text)

    def _invalidate(self, asked: Asked) -> BaseModel:
        return self._changes.invalidate(asked.read(InvalidateRequest))

    def _reactivate(self, asked: Asked) -> BaseModel:
        return self._changes.reactivate(asked.read(ReactivateRequest))

    def _sources(self, asked: Asked) -> BaseModel:
        return self._changes.sources(asked.read_query(SourcesQuery))

    def _source(self, asked: Asked) -> BaseModel:
        return self._changes.source(asked.name, asked.read_query(SourceQuery))

    def _costs(self, asked: Asked) -> BaseModel:
        """Return a report without calls: the twin asks no model."""
        query = asked.read_query(CostsQuery)
        today = self._shelves.now().date()
        until: date = query.until or max(query.since or today, today)
        since = query.since or until - timedelta(days=_REPORTED_DAYS - 1)
        return Costs(
            since=since.isoformat(),
            until=until.isoformat(),
            by=query.by,
            total=Spending(),
            rows=[],
        )

    def _letters(self, asked: Asked) -> BaseModel:
        """Return no letters: what the twin does not take is refused at once."""
        asked.read_query(DeadQuery)
        return DeadPage(letters=[])

    def _letter(self, asked: Asked) -> BaseModel:
        raise NotFound(f"no dead letter has the id {asked.name!r}", field="id")

    def _handle_letters(self, asked: Asked) -> BaseModel:
        selection = asked.read(DeadSelection)
        return DeadResult(done=0, left=dict.fromkeys(selection.ids, "not_found"))

    def _backfill(self, asked: Asked) -> BaseModel:
        asked.object()
        raise NoModel(
            "no language model is configured, so nothing can be understood",
            hint="the in-memory twin asks none; tell it facts with `add_triples`",
        )

    def _status(self) -> dict[str, Any]:
        shelves = self._shelves.of_tenant(self._tenant)
        return {
            "version": __version__,
            "twin": True,
            "model": "none",
            "embedder": "none",
            "lenses": list(self._shelves.lenses.names()),
            "graph": {
                "state": "ok",
                "groups": len(shelves),
                "passages": sum(len(shelf.passages) for shelf in shelves),
                "facts": sum(len(shelf.facts) for shelf in shelves),
            },
        }


def not_done(what: str) -> Permanent:
    """Return the error for what the twin does not do."""
    return Permanent(
        f"the in-memory twin does not do {what}",
        hint="tell it what to answer with `answer`, or test this on `gralkord up`",
    )
