"""Export and import over HTTP, with both clients and the command line, before a canned daemon."""

from __future__ import annotations

import hashlib
import json
import stat

import orjson
import pytest

from gralkord.client.client import AsyncClient
from gralkord.client.sync import Client
from gralkord.errors import BackendUnavailable, InvalidInput, NotFound, TooMany
from gralkord.models.transfer import ImportResult

HEADER = {
    "format": "gralkord-export",
    "version": 1,
    "tenant": "default",
    "groups": [{"operator": "ada", "lens": "default", "embedder": ""}],
}
ROW = {
    "operator": "ada",
    "lens": "default",
    "kind": "entity",
    "uuid": "e1",
    "properties": {"name": "tea \u2028 and \x85"},
}


class FakeTransfer:
    """Exports one row, and takes rows."""

    def __init__(self):
        self.asked, self.taken = [], []
        self.fault = None

    async def export(self, tenant, query):
        """Yield a header, a row and a trailer, or an error in between."""
        self.asked.append((tenant, query.operator, query.everything, query.vectors))
        if query.operator == "nobody":
            raise NotFound("operator 'nobody' has no memories", field="operator")
        lines = [orjson.dumps(each) + b"\n" for each in (HEADER, ROW)]
        yield lines[0]
        if self.fault == "cut":
            return
        if self.fault:
            raise self.fault
        total = hashlib.sha256(b"".join(lines)).hexdigest()
        trailer = {"end": True, "lines": 2, "counts": {"entity": 1}, "sha256": total}
        # Pieces do not end where lines do.
        content = lines[1] + orjson.dumps(trailer) + b"\n"
        yield content[:20]
        yield content[20:]

    async def import_rows(self, tenant, request):
        """Take rows."""
        self.taken.append((tenant, request))
        return ImportResult(created=len(request.rows), known=0, lenses=["work"])


@pytest.fixture
def transfer(services):
    """The part of the daemon that moves memories."""
    services.transfer = FakeTransfer()
    return services.transfer


@pytest.fixture
def client(daemon):
    """A synchronous client."""
    with Client(daemon, "test-token-0123456789") as found:
        yield found


async def test_lines_come_as_they_are(http, transfer):
    """An export is lines of JSON, streamed; the question tells whose and with what."""
    answer = await http.get("/v1/export?operator=ada&vectors=true")
    assert answer.headers["content-type"] == "application/x-ndjson"
    header, row, trailer = answer.content.splitlines()
    assert json.loads(header) == HEADER
    assert json.loads(row) == ROW
    assert json.loads(trailer)["end"] is True
    await http.get("/v1/export?everything=true")
    assert transfer.asked == [("default", "ada", False, True), ("default", None, True, False)]


async def test_a_question_names_one_scope(http, transfer):
    """Neither operator nor everything is a mistake, as is both; a refusal is a plain answer."""
    for words in ("", "operator=ada&everything=true", "everything=perhaps"):
        answer = await http.get(f"/v1/export?{words}")
        assert answer.status_code == 422, words
    answer = await http.get("/v1/export?operator=nobody")
    assert (answer.status_code, answer.json()["error"]["field"]) == (404, "operator")
    assert len(transfer.asked) == 1


async def test_a_bad_row_is_named(http, transfer):
    """What is wrong with a row is told with its place and property."""
    rows = [ROW, ROW | {"properties": {"name": "a", "na-me": 1}}]
    answer = await http.post("/v1/import-rows", json={"rows": rows, "tenant": "default"})
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].startswith("rows.1: properties.na-me: cannot be")
    assert transfer.taken == []


def test_a_client_yields_lines(client, transfer):
    """Words with other separators of lines stay whole; a refusal is raised."""
    lines = list(client.export("ada"))
    assert [orjson.loads(line) for line in lines[:2]] == [HEADER, ROW]
    with pytest.raises(NotFound):
        list(client.export("nobody"))
    with pytest.raises(InvalidInput):
        list(client.export())
    assert [asked[1] for asked in transfer.asked] == ["ada", "nobody"]


async def test_an_export_that_breaks_off_is_an_error(daemon, transfer):
    """An error in the middle is raised, and so is an end before the end."""
    async with AsyncClient(daemon, "test-token-0123456789") as client:
        transfer.fault = TooMany("not now")
        with pytest.raises(TooMany):
            _ = [line async for line in client.export(everything=True)]
        transfer.fault = "cut"
        with pytest.raises(BackendUnavailable, match="broke off: it ends before its end"):
            _ = [line async for line in client.export(everything=True)]


def test_a_file_gets_its_name_when_it_is_whole(cli, transfer, tmp_path):
    """The file is for its owner only; what breaks off leaves none, and nothing is overwritten."""
    file = tmp_path / "ada.jsonl"
    transfer.fault = "cut"
    assert cli("export", "--operator", "ada", "-o", str(file))[0] == 3
    assert list(tmp_path.glob("*ada*")) == []
    transfer.fault = None
    code, out, _ = cli("export", "--operator", "ada", "-o", str(file), "--json")
    assert (code, json.loads(out)["rows"]) == (0, 1)
    assert json.loads(out)["bytes"] == file.stat().st_size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert cli("export", "--operator", "ada", "-o", str(file))[0] == 2
    assert cli("export", "--operator", "ada", "-o", str(file), "--force")[0] == 0
    assert cli("export")[0] == 2
    assert cli("export", "--everything", "--json")[0] == 2


def test_a_file_is_imported(cli, transfer, tmp_path, monkeypatch):
    """Its rows are sent; a lens that is not configured is told; flags of turns are refused."""
    file = tmp_path / "ada.jsonl"
    cli("export", "--operator", "ada", "-o", str(file))
    monkeypatch.setenv("GRALKORD_OPERATOR", "somebody")
    code, out, err = cli("import", str(file), "--as-operator", "eve")
    assert (code, out.startswith("1 rows added")) == (0, True)
    assert "no lens 'work' is configured here" in err
    [(tenant, request)] = transfer.taken
    assert (tenant, request.as_operator, request.rows[0].uuid) == ("default", "eve", "e1")
    code, _, err = cli("import", str(file), "--operator", "eve")
    assert (code, "use --as-operator" in err) == (2, True)


def test_a_damaged_file_is_told(cli, transfer, tmp_path):
    """Bad lines stand on standard error with their number, and the exit code is 1."""
    file = tmp_path / "ada.jsonl"
    cli("export", "--operator", "ada", "-o", str(file))
    file.write_bytes(file.read_bytes().replace(b'"uuid"', b'"id"'))
    code, out, err = cli("import", str(file), "--json")
    assert (code, json.loads(out)["failed"]) == (1, 1)
    assert json.loads(out)["fault"].startswith("its check sum")
    assert err.startswith("line 2: uuid: is missing")
    assert transfer.taken == []
    file.write_text("no export\n")
    assert cli("import", str(file))[0] == 2


def test_an_export_comes_through_a_pipe(cli, transfer):
    """Standard output of one is standard input of the other."""
    code, out, _ = cli("export", "--everything")
    assert code == 0
    code, out, _ = cli("import", "-", "--json", stdin=out.encode())
    assert (code, json.loads(out)["created"]) == (0, 1)
    assert len(transfer.taken) == 1
