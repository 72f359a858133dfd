"""Ingesting over HTTP: requests read, both clients, and ``gralkord ingest``."""

from __future__ import annotations

import io
import json

import pytest
from fake_daemon import TOKEN, job

from gralkord.client.client import AsyncClient
from gralkord.client.sync import Client
from gralkord.errors import InvalidInput
from gralkord.models.ingest import IngestReceipt, Said
from gralkord.models.jobs import Stages

DOCUMENT = {"operator": "ada", "content": "Tea is hot.", "source_description": "a note"}


class FakeIngests:
    """Keeps what it was handed."""

    def __init__(self):
        self.taken = []

    async def ingest(self, tenant, ingest):
        duplicate = any(one.id == ingest.id for _, one in self.taken if one.id)
        self.taken.append((tenant, ingest))
        return IngestReceipt(
            receipt="7-1", session="ingest:1", turns=1, duplicate=duplicate, durability="always"
        )


@pytest.fixture
def ingests(services):
    """What ingests, in the daemon behind the app."""
    services.ingests = FakeIngests()
    return services.ingests


async def test_a_document_is_taken(http, ingests):
    """The answer comes at once; an idempotency key is the id of what names none."""
    body = DOCUMENT | {"event_time": "2024-05-01T09:00:00", "metadata": {"page": 3}}
    answer = await http.post("/v1/ingest", json=body, headers={"Idempotency-Key": "k1"})
    assert (answer.status_code, answer.json()["receipt"]) == (202, "7-1")
    assert answer.json()["notes"] == ["event_time 2024-05-01T09:00:00 has no zone: taken as UTC"]
    [(tenant, ingest)] = ingests.taken
    assert (tenant, ingest.kind, ingest.id, ingest.lens) == ("default", "document", "k1", None)
    assert ingest.metadata == {"page": 3}


@pytest.mark.parametrize("path", ["/v1/ingest", "/v1/memory_add"])
async def test_a_megabyte_is_taken_however_its_json_is_written(http, ingests, path):
    """Letters that take six signs each as an escape still fit into the body."""
    body = DOCUMENT | {"content": "é" * 524_288} | ({"agent": "a"} if "memory" in path else {})
    text = json.dumps(body, ensure_ascii=True)
    answer = await http.post(path, content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code == 202
    refused = await http.post(path, json=DOCUMENT | {"content": "x" * 4_200_000})
    assert (refused.status_code, refused.json()["error"]["limit"]) == (413, 4_194_304)


async def test_a_memory_is_added_at_once(http, ingests):
    """It is a document of the agent's, and the answer says that it is being ingested."""
    body = DOCUMENT | {"agent": "helper", "lens": "work", "id": "m1"}
    answer = await http.post("/v1/memory_add", json=body)
    assert (answer.status_code, answer.json()["message"]) == (202, "Ingesting.")
    [(_, ingest)] = ingests.taken
    assert (ingest.agent, ingest.lens, ingest.id) == ("helper", "work", "m1")


@pytest.mark.parametrize(
    ("path", "change", "field"),
    [
        ("ingest", {"content": None}, "content"),
        ("ingest", {"source_description": "x" * 501}, "source_description"),
        ("ingest", {"kind": "letter"}, "kind"),
        ("ingest", {"offset": "1"}, "offset"),
        ("ingest", {"colour": "red"}, "colour"),
        ("memory_add", {"agent": "a", "content": " "}, "content"),
        ("memory_add", {"agent": "a", "source_description": ""}, "source_description"),
        ("memory_add", {}, "agent"),
        ("memory_add", {"agent": "a", "kind": "document"}, "kind"),
    ],
)
async def test_a_bad_request_is_refused_with_its_field(http, ingests, path, change, field):
    """The field that is wrong is named, and nothing is handed to the daemon."""
    answer = await http.post(f"/v1/{path}", json=DOCUMENT | change)
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    assert ingests.taken == []


async def test_both_clients_ingest(daemon, ingests):
    """They name what they send unless it has a source, and refuse what is wrong themselves."""
    talk = [Said(speaker="Eve", content="Tea?"), {"speaker": "Bob", "content": "Yes."}]
    async with AsyncClient(daemon, TOKEN) as client:
        assert not (await client.ingest("ada", talk, "a talk", kind="conversation")).duplicate
        added = await client.memory_add("ada", "helper", "Ada likes tea.", "said by Ada")
        assert added.message == "Ingesting."
    with Client(daemon, TOKEN) as client:
        client.ingest("ada", {"a": 1}, "a row", kind="structured_record", source="rows", lens="w")
        assert client.memory_add("ada", "helper", "x", "y", id=ingests.taken[1][1].id).duplicate
        with pytest.raises(InvalidInput, match="line 1 names no speaker"):
            client.ingest("ada", "no speaker", "a talk", kind="conversation")
    first, second, third, _ = (one for _, one in ingests.taken)
    assert [one["speaker"] for one in first.content] == ["Eve", "Bob"]
    assert len({first.id, second.id}) == 2
    assert (third.id, third.source, third.lens) == (None, "rows", "w")


def test_the_command_ingests(cli, ingests, services, tmp_path, monkeypatch):
    """A file or standard input goes as it is, messages as such; it can be waited for."""
    (tmp_path / "tea.md").write_text("\ufeff# Tea\nhot")
    (tmp_path / "talk.json").write_text(json.dumps([{"speaker": "Eve", "content": "Tea?"}]))
    words = ("-o", "ada", "-d", "a note")
    code, out, _ = cli("ingest", str(tmp_path / "tea.md"), *words, "--source", "t", "--meta", "a=b")
    assert (code, out.startswith("ingesting: 1 turns, session ingest:1, receipt 7-1")) == (0, True)
    code, out, _ = cli(
        "ingest", str(tmp_path / "talk.json"), *words, "-k", "conversation", "--id", "1", "--json"
    )
    assert (code, json.loads(out)["turns"]) == (0, 1)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from stdin")))
    indexed = Stages(indexed="2026-05-01T09:30:00Z")
    services.states["7-1"] = [job(), job("indexed", stages=indexed), job("dead")]
    code, out, _ = cli("ingest", "-", *words, "--wait", "--until", "indexed")
    assert (code, out.splitlines()[1]) == (0, "indexed")
    tea, talk, stdin = (one for _, one in ingests.taken)
    assert (tea.content, tea.source, tea.metadata) == ("# Tea\nhot", "t", {"a": "b"})
    assert talk.content[0]["speaker"] == "Eve"
    assert stdin.content == "from stdin"


def test_waiting_tells_of_what_was_given_up(cli, ingests, services, tmp_path):
    """The receipt's own state is waited for: another flush would know nothing of its items."""
    (tmp_path / "tea.md").write_text("tea")
    words = ("ingest", str(tmp_path / "tea.md"), "-o", "ada", "-d", "a note", "--wait")
    services.states["7-1"] = [job(), job("dead", reason="dead_letters")]
    code, out, _ = cli(*words, "--json")
    told = {name: json.loads(out)[name] for name in ("state", "complete", "reason")}
    assert (code, told) == (
        1,
        {"state": "dead", "complete": False, "reason": "dead_letters"},
    )
    services.states["7-1"] = [job(), job("understood")]
    assert cli(*words)[0] == 0
    services.states["7-1"] = [job()]
    assert cli(*words, "--timeout", "0.05")[0] == 1


def test_a_chat_log_that_begins_with_a_bracket_is_lines(cli, ingests, tmp_path):
    """What is no JSON is a text, whatever it begins with."""
    (tmp_path / "talk.txt").write_text("[break]: none\nEve: Tea?")
    words = ("-o", "ada", "-d", "a talk", "-k", "conversation")
    assert cli("ingest", str(tmp_path / "talk.txt"), *words)[0] == 0
    [(_, talk)] = ingests.taken
    assert talk.content == "[break]: none\nEve: Tea?"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("-o", "ada"), 2, "missing --description"),
        (("-d", "x"), 2, "missing --operator"),
        (("-o", "ada", "-d", "x", "--meta", "y"), 2, "not NAME=TEXT"),
        (("-o", "ada", "-d", "x", "-k", "conversation"), 5, "names no speaker"),
    ],
)
def test_wrong_usage_of_the_command_is_told(cli, ingests, tmp_path, words, code, told):
    """Options that are missing or wrong, and content that cannot be ingested."""
    (tmp_path / "tea.md").write_text("tea")
    got, _, err = cli("ingest", str(tmp_path / "tea.md"), *words)
    assert (got, told in err) == (code, True)
    assert ingests.taken == []
