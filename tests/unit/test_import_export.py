"""Reading the file of an export, damaged in all ways, and having its rows written."""

from __future__ import annotations

import hashlib
import io

import orjson
import pytest

from gralkord.client import import_export
from gralkord.client.import_export import ExportFile, RowImport
from gralkord.client.transfer import ExportCheck
from gralkord.errors import BackendUnavailable, InvalidInput, QueueFull
from gralkord.models.transfer import ImportResult, RowFailure, TransferRow
from gralkord.wire import read_model

HEADER = {
    "format": "gralkord-export",
    "version": 1,
    "tenant": "default",
    "groups": [
        {"operator": "ada", "lens": "default", "embedder": "e:1"},
        {"operator": "bob", "lens": "default", "embedder": "e:2"},
    ],
}


def passage(number, operator="ada", **changes):
    """Return a passage's line as values."""
    properties = {
        "text": f"words {number}",
        "speaker": "Ada",
        "role": "user",
        "agent": "bot",
        "session": "s",
        "turn_id": f"t{number}",
        "ordinal": number,
        "part": 0,
        "created_ms": 1,
        "event_time": "2024-05-01T09:30:00Z",
    }
    row = {"kind": "passage", "operator": operator, "lens": "default", "uuid": f"u{number}"}
    return row | {"properties": properties | changes.pop("properties", {})} | changes


def export(*rows, header=HEADER):
    """Return an export of rows as bytes."""
    lines = [orjson.dumps(each) + b"\n" for each in (header, *rows)]
    total = hashlib.sha256(b"".join(lines)).hexdigest()
    trailer = {"end": True, "lines": len(lines), "counts": {}, "sha256": total}
    return b"".join((*lines, orjson.dumps(trailer) + b"\n"))


class FakeClient:
    """Takes rows, or refuses them."""

    def __init__(self, *faults, refused=(), missing=()):
        self.calls = []
        self.faults = list(faults)
        self.refused, self.missing = set(refused), set(missing)

    async def import_rows(self, rows, *, tenant, embedder, as_operator):
        """Take a batch."""
        if self.faults:
            raise self.faults.pop(0)
        if self.refused & {row.uuid for row in rows}:
            raise InvalidInput("rows: one is bad")
        self.calls.append(([row.uuid for row in rows], tenant, embedder, as_operator))
        failed = [
            RowFailure(index=index, message="nothing there")
            for index, row in enumerate(rows)
            if row.uuid in self.missing
        ]
        return ImportResult(created=len(rows) - len(failed), known=0, failed=failed)


async def run(content, client=None, **options):
    """Import bytes; return report, rejected lines and client."""
    client = client or FakeClient()
    rejected = []
    work = RowImport(
        client,
        on_rejected=lambda row: rejected.append((row.number, row.reason)),
        **options,
    )
    return await work.run(ExportFile(io.BytesIO(content))), rejected, client


async def test_rows_go_in_order_each_owner_by_itself():
    """A batch holds rows of one operator, with the embedder of that operator's vectors."""
    rows = [passage(1), passage(2), passage(3, "bob")]
    report, rejected, client = await run(export(*rows), as_operator=None)
    assert client.calls == [
        (["u1", "u2"], "default", "e:1", None),
        (["u3"], "default", "e:2", None),
    ]
    assert (report.rows, report.created, report.failed, report.fault) == (3, 3, 0, None)
    assert rejected == []


def fact(name, value):
    """Return the row of a fact with one more property."""
    properties = {"name": "KNOWS", "fact": "Ada knows Ida.", name: value}
    ends = {"source": "a", "target": "b"}
    row = {"kind": "fact", "operator": "ada", "lens": "default", "uuid": "f"}
    return row | {"properties": properties} | ends


def test_a_time_without_a_zone_is_utc():
    """Times are compared as they are stored, so each one gets a zone."""
    row = read_model(TransferRow, fact("invalid_at", "2024-05-01"))
    assert row.properties["invalid_at"] == "2024-05-01T00:00:00Z"


async def test_batches_have_a_size(monkeypatch):
    """No request has more rows than one takes."""
    monkeypatch.setattr(import_export, "BATCH_ROWS", 2)
    _, _, client = await run(export(*(passage(number) for number in range(5))))
    assert [len(call[0]) for call in client.calls] == [2, 2, 1]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{nonsense}\n", "not JSON: "),
        (b"\xff\n", "not JSON: byte 1 is not valid UTF-8"),
        (orjson.dumps(passage(9, "eve")) + b"\n", "operator and lens are none that the header"),
        (orjson.dumps(passage(9) | {"kind": "thing"}) + b"\n", "kind: must be one of"),
        (orjson.dumps({"kind": "fact", "uuid": "f"}) + b"\n", "source: is missing in a fact"),
        (
            orjson.dumps(passage(9, properties={"text": 3})) + b"\n",
            "properties.text: must be a text in a passage",
        ),
        (
            orjson.dumps(passage(9, properties={"event_time": "soon"})) + b"\n",
            "properties.event_time: 'soon' is not an ISO 8601",
        ),
        (
            orjson.dumps(passage(9, properties={"seq": 3})) + b"\n",
            "properties.seq: cannot be the name of a property here",
        ),
        (
            orjson.dumps(passage(9, properties={"text": "a\0b"})) + b"\n",
            "properties.text: a NUL cannot be stored",
        ),
        *(
            (orjson.dumps(fact(name, value)) + b"\n", f"properties.{name}: {reason}")
            for name, value, reason in (
                ("episodes", "e1", "must be a list of texts"),
                ("episodes", [1], "must be a list of texts"),
                ("superseded_by", 3, "must be a text"),
                ("withdrawn_at", "soon", "'soon' is not an ISO 8601"),
                ("confidence", True, "must be a number"),
                ("mood", {"a": 1}, "must be a text, a number, true or false, or a list of those"),
            )
        ),
        *(
            (
                orjson.dumps(passage(9, properties={name: value})) + b"\n",
                f"properties.{name}: {reason}",
            )
            for name, value, reason in (
                ("source", 3, "must be a text"),
                ("metadata", "[]", "must be a JSON object as a text"),
                ("metadata", "{bad", "must be a JSON object as a text"),
            )
        ),
        (b'{"error":{"code":"transient","message":"no","retry":true}}\n', "the export broke off"),
    ],
)
async def test_a_bad_line_is_named_and_no_other_lost(line, reason):
    """Each line that cannot be read is told with its number; the others are imported."""
    lines = export(passage(1), passage(2)).splitlines(keepends=True)
    lines.insert(2, line)
    report, rejected, client = await run(b"".join(lines))
    assert [number for number, _ in rejected] == [3]
    assert rejected[0][1].startswith(reason)
    assert client.calls[0][0] == ["u1", "u2"]
    assert report.failed == 1
    assert report.fault == "it has 4 lines, and should have 3" or line.startswith(b'{"error"')


async def test_a_line_that_is_too_long_is_left_out(monkeypatch):
    """Its rest is skipped, and the line after it is read."""
    monkeypatch.setattr(import_export, "MAX_LINE_BYTES", 1_000)
    content = export(passage(1, properties={"text": "a" * 2_500}), passage(2))
    report, rejected, client = await run(content)
    assert rejected == [(2, "longer than 1000 bytes")]
    assert client.calls[0][0] == ["u2"]
    assert report.fault is None


async def test_a_changed_word_is_noticed():
    """A line that can be read and was changed shows in the check sum."""
    report, _, _ = await run(export(passage(1)).replace(b"words 1", b"worms 1"))
    assert report.fault.startswith("its check sum is another one")


async def test_a_file_that_was_cut_is_noticed():
    """Without its last line an export is not whole; what is there is imported."""
    content = export(passage(1), passage(2))
    cut = content[: content.index(b'{"end"')]
    report, _, client = await run(cut)
    assert report.fault.startswith("it ends before its end")
    assert client.calls[0][0] == ["u1", "u2"]
    report, rejected, _ = await run(cut[:-40])
    assert (report.failed, rejected[0][0]) == (1, 3)


async def test_lines_behind_the_end_are_refused():
    """Nothing stands behind the trailer."""
    _, rejected, _ = await run(export(passage(1)) + orjson.dumps(passage(2)) + b"\n")
    assert rejected == [(4, "stands behind the end of the export")]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"format": "other"}, "not the header of an export"),
        ({**HEADER, "version": 2}, "an export of version 2"),
        ({"format": "gralkord-export", "version": 1}, "not a whole header"),
    ],
)
def test_other_files_are_refused(header, reason):
    """What is no export, or one of another version, is refused before anything is imported."""
    with pytest.raises(InvalidInput, match=reason):
        ExportFile(io.BytesIO(export(header=header)))


async def test_the_row_that_is_to_blame_is_found():
    """When a batch is refused its rows are tried apart, so that only the bad one is lost."""
    client = FakeClient(refused={"u3"})
    report, rejected, _ = await run(export(*(passage(number) for number in range(5))), client)
    assert rejected == [(5, "rows: one is bad")]
    assert (report.created, report.failed) == (4, 1)


async def test_rows_that_could_not_be_written_are_told_by_line():
    """The daemon names rows by their place in the request, the report by their line."""
    client = FakeClient(missing={"u1"})
    report, rejected, _ = await run(export(passage(0), passage(1)), client)
    assert rejected == [(3, "nothing there")]
    assert (report.created, report.failed) == (1, 1)


async def test_a_full_queue_is_waited_for():
    """What is refused for now is offered again, and given up in the end."""
    client = FakeClient(QueueFull(retry_after=0.01), BackendUnavailable())
    report, _, _ = await run(export(passage(1)), client)
    assert report.created == 1
    with pytest.raises(QueueFull):
        await run(export(passage(1)), FakeClient(QueueFull()), patience=0)


def test_lines_are_split_at_line_feeds_only():
    """Other separators of lines are part of somebody's words."""
    check = ExportCheck()
    line = orjson.dumps({"text": "a\u2028b\x85c"}) + b"\n"
    assert check.split(line[:9]) == []
    assert check.split(line[9:] + b"{") == [line]
