from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
import structlog
from fake_daemon import TOKEN, turn

from gralkord.errors import (
    BackendUnavailable,
    ConfigError,
    DeadlineExpired,
    GralkorError,
    InvalidInput,
    LeaseLost,
    ModelOutage,
    NoModel,
    NotFound,
    QueueFull,
    RateLimited,
    SessionConflict,
    UnknownLens,
)
from gralkord.rpc import reference

FORM = {"code", "message", "field", "limit", "retry"}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidInput("x", field="lenses.0", limit=4), 422),
        (SessionConflict(), 409),
        (UnknownLens(), 422),
        (NotFound(), 404),
        (NoModel(), 503),
        (QueueFull(), 429),
        (RateLimited(retry_after=3), 429),
        (BackendUnavailable(), 503),
        (ModelOutage(), 503),
        (LeaseLost(), 503),
        (DeadlineExpired(), 504),
        (ConfigError(), 500),
        (GralkorError("odd"), 500),
    ],
)
async def test_each_error_has_its_status(http, services, error, status):
    """An error of the daemon is answered in the one form with its status."""
    services.fault = error
    answer = await http.post("/v1/recall", json={"operator": "a", "query": "x"})

    assert answer.status_code == status
    body = answer.json()["error"]
    assert set(body) >= FORM
    assert body["code"] == error.code
    assert body["retry"] is error.retry
    assert ("Retry-After" in answer.headers) is (error.retry and status in {429, 503})


async def test_a_wrong_path_has_the_form(http):
    """404 has the form of every error."""
    answer = await http.get("/v1/nothing")

    assert answer.status_code == 404
    assert set(answer.json()["error"]) >= FORM


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/capture"), ("DELETE", "/v1/status")])
async def test_a_wrong_method_has_the_form(http, method, path):
    """405 has the form of every error and says what is possible."""
    answer = await http.request(method, path)

    assert answer.status_code == 405
    assert set(answer.json()["error"]) >= FORM
    assert answer.headers["Allow"] in answer.json()["error"]["hint"]


async def test_a_slash_at_the_end_is_another_path(http):
    """There is no redirect that would drop a body."""
    assert (await http.post("/v1/capture/", json=turn())).status_code == 404


async def test_a_crash_is_answered_and_logged_without_contents(http, services):
    """An unexpected error is a 500 with the request's id; its text and the body are not logged."""
    services.fault = RuntimeError("secret of the memory")
    with structlog.testing.capture_logs() as logs:
        answer = await http.post(
            "/v1/recall",
            json={"operator": "a", "query": "very private"},
            headers={"X-Request-Id": "req-1"},
        )

    assert answer.status_code == 500
    error = answer.json()["error"]
    assert error["code"] == "internal"
    assert "req-1" in error["message"]
    assert "secret" not in answer.text
    [line] = [one for one in logs if one["log_level"] == "error"]
    assert line["error"] == "RuntimeError"
    assert "fake_daemon.py" in line["traceback"]
    assert "secret" not in str(line)
    assert "private" not in str(logs)


async def test_the_next_request_after_a_crash_works(http, services):
    """A crash concerns its request only."""
    services.fault = RuntimeError()
    await http.post("/v1/recall", json={"operator": "a", "query": "x"})
    services.fault = None

    assert (await http.post("/v1/capture", json=turn())).status_code == 202


@pytest.mark.parametrize("path", ["/v1/status", "/healthz", "/nothing", "/docs"])
async def test_every_answer_has_an_id_and_a_time(http, path):
    """Request id and time are on every answer, errors too."""
    answer = await http.get(path)

    assert re.fullmatch("[0-9a-f]{32}", answer.headers["X-Request-Id"])
    assert re.fullmatch(r"total;dur=\d+\.\d", answer.headers["Server-Timing"])


@pytest.mark.parametrize(
    ("sent", "kept"), [("abc-1.2_X", True), ("a b", False), ("x" * 65, False), ("a<b", False)]
)
async def test_a_request_id_is_kept_if_it_is_harmless(http, sent, kept):
    """The caller's id comes back if it can stand in a log line."""
    answer = await http.get("/healthz", headers={"X-Request-Id": sent})

    assert (answer.headers["X-Request-Id"] == sent) is kept


async def test_liveness_asks_no_back_end(bare, services):
    """The process is alive though every back end is down."""
    services.fault = BackendUnavailable()
    answer = await bare.get("/healthz")

    assert answer.status_code == 200
    assert answer.json()["alive"] is True
    assert services.calls == 0


async def test_readiness_is_whether_captures_can_be_stored(bare, services):
    """Ready is 200; not ready, or no answer from a part, is 503 with its parts."""
    ready = await bare.get("/readyz")
    services.is_ready = False
    unready = await bare.get("/readyz")
    services.fault = BackendUnavailable("the queue does not answer")
    broken = await bare.get("/readyz")

    assert (ready.status_code, ready.json()["ready"]) == (200, True)
    assert (unready.status_code, unready.json()["parts"]) == (503, {"queue": "down"})
    assert (broken.status_code, broken.json()["ready"]) == (503, False)


async def test_backfill_takes_an_operator_or_nothing(http):
    """The body of a backfill may be left out."""
    everyone = await http.post("/v1/backfill")
    one = await http.post("/v1/backfill", json={"operator": "ada"})
    wrong = await http.post("/v1/backfill", json={"operator": ""})

    assert (everyone.status_code, everyone.json()["operator"]) == (202, None)
    assert one.json()["operator"] == "ada"
    assert wrong.status_code == 422


async def test_flush_and_status_answer(http):
    """Flush answers with its state, status with the tenant's."""
    flushed = await http.post("/v1/flush", json={"session": "s", "wait": True, "until": "indexed"})
    status = await http.get("/v1/status")

    assert flushed.json()["state"] == "indexed"
    assert status.json()["tenant"] == "default"


async def test_openapi_names_every_operation_with_its_body(bare):
    """The document has all paths, the models of their bodies, and no dangling reference."""
    document = (await bare.get("/openapi.json")).json()

    assert set(document["paths"]) == {
        "/healthz",
        "/readyz",
        *(
            f"/v1/{name}"
            for name in ("capture", "captures", "flush", "recall", "backfill", "status")
        ),
        "/v1/jobs/{job}",
        "/v1/jobs/{job}/events",
        *(f"/v1/dead{rest}" for rest in ("", "/{letter}", "/retry", "/drop")),
        *(f"/v1/memories/{rest}" for rest in ("invalidate", "reactivate", "undo")),
        *(f"/v1/memories/{{memory}}{rest}" for rest in ("", "/history")),
        *("/v1/memories", "/v1/observe", "/v1/ingest", "/v1/memory_add", "/v1/search"),
        *("/v1/generalise", "/v1/generalisations", "/v1/admin/indices", "/v1/admin/communities"),
        "/v1/admin/communities/stop",
        *("/v1/sources", "/v1/sources/{source}"),
        *("/v1/erase", "/v1/erase/{erasure}"),
        *("/v1/costs", "/metrics"),
        *(f"/v1/{name}" for name in ("export", "import-rows", "triples", "reindex", "reembed")),
        "/v1/results/{request_id}",
    }
    body = document["paths"]["/v1/capture"]["post"]["requestBody"]
    assert body["content"]["application/json"]["schema"]["$ref"].endswith("/Capture")
    schemas = document["components"]["schemas"]
    assert schemas["Capture"]["additionalProperties"] is False
    for name in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)):
        assert name in schemas
    assert document["paths"]["/healthz"]["get"]["security"] == []
    assert document["security"] == [{"bearer": []}, {"apiKey": []}]


class Links(HTMLParser):
    """Collects what a page would load or link to."""

    def __init__(self):
        super().__init__()
        self.tags, self.targets = set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.targets += [value for name, value in attrs if name in {"src", "href"}]


async def test_the_reference_page_works_offline(bare):
    """The page lists the operations and loads nothing."""
    answer = await bare.get("/docs")
    links = Links()
    links.feed(answer.text)

    assert "POST /v1/capture" in answer.text
    assert all(target.startswith(("#", "/openapi.json")) for target in links.targets)
    assert not links.tags & {"script", "link", "img", "iframe"}
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert TOKEN not in answer.text


def test_the_reference_page_escapes_what_it_shows():
    """Markup in a description stays text."""
    evil = "<script>alert(1)</script>"
    document = {
        "info": {"title": evil, "version": evil, "description": evil},
        "paths": {
            f"/{evil}": {
                "get": {
                    "description": evil,
                    "parameters": [{"in": evil, "name": evil, "description": evil}],
                    "responses": {evil: {"description": evil}},
                }
            }
        },
        "components": {
            "schemas": {
                evil: {
                    "description": evil,
                    "properties": {evil: {"enum": [evil], "description": evil}},
                }
            }
        },
    }

    assert "<script" not in reference.page(document)
