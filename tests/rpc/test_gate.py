from __future__ import annotations

import socket
from urllib.parse import urlsplit

import httpx
import pytest
from fake_daemon import TOKEN, turn

from gralkord.rpc.auth import MAX_BODY_BYTES

ORIGIN = "https://console.example"
OPERATIONS = [
    ("POST", "/v1/capture"),
    ("POST", "/v1/captures"),
    ("POST", "/v1/flush"),
    ("POST", "/v1/recall"),
    ("POST", "/v1/backfill"),
    ("GET", "/v1/status"),
    ("GET", "/v1/nothing"),
]
PUBLIC = ["/healthz", "/readyz", "/openapi.json", "/docs"]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "LOCALHOST:1", "[::1]", "[::1]:7767", "127.0.0.1:7767"]
)
async def test_loopback_hosts_are_served(http, host):
    """Every loopback name, on any port, is served."""
    answer = await http.get("/v1/status", headers={"Host": host})

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0", "", "[::2]"],
)
@pytest.mark.parametrize("path", ["/v1/status", "/healthz", "/docs"])
async def test_other_hosts_are_refused(http, services, host, path):
    """A rebound name is refused, whatever the path and though the token is right."""
    answer = await http.get(path, headers={"Host": host})

    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "forbidden"
    assert answer.json()["error"]["field"] == "Host"
    assert services.calls == 0


async def test_a_doubled_host_is_refused(http):
    """Two Host headers are refused."""
    answer = await http.get("/healthz", headers=[("Host", "localhost"), ("Host", "evil.example")])

    assert answer.status_code == 403


@pytest.mark.parametrize("origin", ["http://localhost:7767", ORIGIN])
async def test_own_and_allowed_origins_are_served(http, origin):
    """The daemon's own pages and allowed ones may call."""
    answer = await http.get("/v1/status", headers={"Origin": origin})

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost:3000",
        "http://localhost",
        "http://127.0.0.1:7767",
        "https://localhost:7767",
        "https://console.example.evil.example",
        "",
    ],
)
async def test_other_origins_are_refused(http, services, origin):
    """A foreign page is refused, another local one too."""
    answer = await http.post("/v1/capture", json=turn(), headers={"Origin": origin})

    assert answer.status_code == 403
    assert answer.json()["error"]["field"] == "Origin"
    assert services.calls == 0


async def test_an_allowed_origin_may_read_the_answer(bare):
    """Preflight and answer carry the CORS headers for an allowed origin only."""
    asked = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
    preflight = await bare.options("/v1/recall", headers=asked)
    refused = await bare.get("/v1/status", headers={"Origin": ORIGIN})
    foreign = await bare.options("/v1/recall", headers=asked | {"Origin": "https://evil.example"})

    assert preflight.status_code == 204
    assert preflight.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "Authorization" in preflight.headers["Access-Control-Allow-Headers"]
    paths = (await bare.get("/openapi.json")).json()["paths"]
    used = {method.upper() for operations in paths.values() for method in operations}
    assert used <= {*preflight.headers["Access-Control-Allow-Methods"].split(", ")}
    assert refused.status_code == 401
    assert refused.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert foreign.status_code == 403
    assert "Access-Control-Allow-Origin" not in foreign.headers


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"X-API-Key": ""},
        {"X-API-Key": "wrong", "Authorization": f"Bearer {TOKEN}"},
        {"X-API-Key": "ÿ".encode()},
    ],
)
async def test_an_operation_needs_the_token(bare, services, method, path, headers):
    """Without the token nothing is done, and not even told which paths there are."""
    answer = await bare.request(method, path, headers=headers)

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == "unauthorized"
    assert TOKEN not in answer.text
    assert services.calls == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {TOKEN}"},
        {"Authorization": f"bearer {TOKEN}"},
        {"X-API-Key": TOKEN},
    ],
)
async def test_both_ways_to_send_the_token_work(bare, headers):
    """The token may come as a bearer token or as an API key."""
    assert (await bare.get("/v1/status", headers=headers)).status_code == 200


@pytest.mark.parametrize("path", PUBLIC)
async def test_health_and_reference_need_no_token(bare, path):
    """Probes and readers of the reference need no token."""
    assert (await bare.get(path)).status_code == 200


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json", None],
)
async def test_a_body_must_be_json(http, services, kind):
    """What a foreign form can send is refused."""
    headers = {} if kind is None else {"Content-Type": kind}
    answer = await http.post("/v1/capture", content=b"{}", headers=headers)

    assert answer.status_code == 415
    assert answer.json()["error"]["code"] == "wrong_media_type"
    assert services.calls == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
async def test_a_body_must_be_plain_utf8(http, headers):
    """Another charset or a compressed body is refused by name."""
    answer = await http.post("/v1/capture", content=b"{}", headers=headers)

    assert answer.status_code == 415


async def test_a_charset_may_be_named(http):
    """UTF-8 may be said."""
    answer = await http.post(
        "/v1/recall",
        content=b'{"operator": "a", "query": "x"}',
        headers={"Content-Type": "Application/JSON; charset=UTF-8"},
    )

    assert answer.status_code == 200


async def test_a_body_that_says_it_is_too_large_is_not_read(http, services):
    """A large Content-Length is answered 413 with the limit."""
    answer = await http.post("/v1/capture", json=turn("x" * MAX_BODY_BYTES))

    assert answer.status_code == 413
    assert answer.json()["error"]["limit"] == MAX_BODY_BYTES
    assert str(MAX_BODY_BYTES) in answer.json()["error"]["message"]
    assert services.calls == 0


async def test_a_chunked_body_has_the_same_limit(http, services):
    """A body that does not say its size is cut off at the limit."""

    async def chunks():
        for _ in range(40):
            yield b" " * 65_536

    answer = await http.post(
        "/v1/capture", content=chunks(), headers={"Content-Type": "application/json"}
    )

    assert answer.status_code == 413
    assert answer.json()["error"]["limit"] == MAX_BODY_BYTES
    assert services.calls == 0


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_refused_over_a_real_socket(daemon, services, chunked):
    """The answer arrives though the body was never read to its end, and the next request works."""
    piece = b" " * 65_536
    body = (piece for _ in range(320)) if chunked else piece * 320
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    answer = httpx.post(f"{daemon}/v1/capture", content=body, headers=headers, trust_env=False)
    again = httpx.post(f"{daemon}/v1/capture", json=turn(), headers=headers, trust_env=False)

    assert answer.status_code == 413
    assert answer.json()["error"]["limit"] == MAX_BODY_BYTES
    assert again.status_code == 202
    assert services.calls == 1


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"GET /v1/status HTTP/1.1\r\nHost: evil.example\r\n", b"403"),
        (b"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\n", b"403"),
        (b"GET /v1/status HTTP/1.0\r\n", b"403"),
        (b"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"401"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost:1\r\n", b"200"),
    ],
)
def test_the_gate_holds_over_a_real_socket(daemon, lines, status):
    """Raw requests are judged as the ones of a client."""
    target = urlsplit(daemon)
    with socket.create_connection((target.hostname, target.port), timeout=10) as connection:
        connection.sendall(lines + b"Connection: close\r\n\r\n")
        answer = connection.makefile("rb").read()

    assert answer.split(b" ", 2)[1] == status
