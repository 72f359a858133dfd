"""Backups of a data directory on which nothing runs: copied, checked, damaged, put back."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta

import pytest

from gralkord.cli.app import run
from gralkord.client.discovery import announce
from gralkord.embedded import aof
from gralkord.embedded.backup import BACKUP_FILE, create, read, verify
from gralkord.embedded.lock import DirectoryLock
from gralkord.embedded.restore import restore
from gralkord.errors import ConfigError, InvalidInput, StartError
from gralkord.models.erasure import Erasure

NAMES = ("appendonly.aof.2.base.aof", "appendonly.aof.2.incr.aof")
MANIFEST = (
    f"file {NAMES[0]} seq 2 type b\nfile {NAMES[1]} seq 2 type i startoffset 27\n"
    "file appendonly.aof.1.incr.aof seq 1 type h\n"
)
TRANSACTION = b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n"


def command(*words):
    """Return a command as a server writes it to its file."""
    parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"*%d\r\n" % len(words) + b"".join(parts)


def fill(data_dir, kind, *commands):
    """Write the file of a server."""
    folder = data_dir / kind / aof.FOLDER
    folder.mkdir(parents=True)
    (folder / aof.MANIFEST).write_text(MANIFEST)
    (folder / NAMES[0]).write_bytes(command(b"SET", b"base", kind.encode()))
    (folder / NAMES[1]).write_bytes(b"".join(commands))
    return folder


@pytest.fixture
def data(tmp_path):
    """A data directory with both servers' files."""
    data_dir = tmp_path / "data"
    for kind in ("queue", "graph"):
        fill(data_dir, kind, command(b"SET", b"a", b"1"), command(b"SET", b"b", b"2"))
    return data_dir


@pytest.fixture
def backup(data, tmp_path):
    """A backup of it."""
    create(data, tmp_path / "backup")
    return tmp_path / "backup"


def test_a_backup_has_what_the_files_have(data, backup):
    """Base, increments and the names of both; nothing is known of servers that do not run."""
    found = verify(backup)
    assert [file.path for file in found.files] == [
        f"{kind}/{aof.FOLDER}/{name}"
        for kind in ("graph", "queue")
        for name in (*NAMES, aof.MANIFEST)
    ]
    assert (found.running, found.state) == (False, {})
    for kind in ("queue", "graph"):
        for name in NAMES:
            copy = backup / kind / aof.FOLDER / name
            assert copy.read_bytes() == (data / kind / aof.FOLDER / name).read_bytes()
            assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        assert "type h" not in (backup / kind / aof.FOLDER / aof.MANIFEST).read_text()
    assert {stat.S_IMODE(path.stat().st_mode) for path in backup.rglob("*") if path.is_dir()} == {
        0o700
    }


@pytest.mark.parametrize(
    "half",
    [
        b"*3\r\n$3\r\nSET\r\n$1\r\nc\r\n$90\r\nha",
        TRANSACTION[0] + command(b"SET", b"c", b"3"),
    ],
)
def test_what_was_half_written_is_cut_off(data, tmp_path, half):
    """Nobody was told of a write that has only begun, and a copy without it is whole."""
    last = data / "queue" / aof.FOLDER / NAMES[1]
    whole = last.read_bytes()
    last.write_bytes(whole + half)
    create(data, tmp_path / "backup")
    verify(tmp_path / "backup")
    assert (tmp_path / "backup" / "queue" / aof.FOLDER / NAMES[1]).read_bytes() == whole


def test_a_file_that_is_damaged_before_its_end_is_told(data, tmp_path):
    """What is not half written but wrong makes no backup, and leaves none behind."""
    (data / "graph" / aof.FOLDER / NAMES[0]).write_bytes(b"nonsense")
    with pytest.raises(StartError, match="the copy of the graph is not whole"):
        create(data, tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_rewrite_under_way_is_seen_before_or_after(data, monkeypatch):
    """When the names change while the files are opened, they are opened again."""
    folder = data / "queue" / aof.FOLDER
    opened, names = [], aof._names

    def slow(manifest, there):
        found = names(manifest, there)
        if not opened:
            (folder / "appendonly.aof.3.base.aof").write_bytes(command(b"SET", b"new", b"1"))
            text = "file appendonly.aof.3.base.aof seq 3 type b\n"
            (folder / aof.MANIFEST).write_text(text)
            (folder / NAMES[0]).unlink()
        opened.append(found)
        return found

    monkeypatch.setattr(aof, "_names", slow)
    frozen = aof.freeze(data / "queue")
    assert [name for name, _, _ in frozen.files] == ["appendonly.aof.3.base.aof"]
    assert len(opened) == 2
    frozen.close()


def test_what_is_appended_later_is_not_of_that_moment(data, tmp_path):
    """A copy ends where the file ended when it was frozen, also if the file is gone by then."""
    frozen = aof.freeze(data / "queue")
    last = data / "queue" / aof.FOLDER / NAMES[1]
    then = last.read_bytes()
    with last.open("ab") as file:
        file.write(command(b"SET", b"c", b"3"))
    last.unlink()
    frozen.copy(tmp_path / "copy", lambda _: None)
    assert (tmp_path / "copy" / NAMES[1]).read_bytes() == then
    frozen.close()


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", ".hidden"])
def test_names_lead_nowhere_else(data, name):
    """A file of another folder is not copied."""
    (data / "queue" / aof.FOLDER / aof.MANIFEST).write_text(f"file {name} seq 1 type b\n")
    with pytest.raises(StartError, match="cannot be read"):
        aof.freeze(data / "queue")


def test_other_places_are_refused(data, backup, tmp_path):
    """A target that holds something, a directory in use, and one without servers are told."""
    with pytest.raises(StartError, match="exists and is not empty"):
        create(data, backup)
    with pytest.raises(StartError, match="in the data directory itself"):
        create(data, data / "backup")
    lock = DirectoryLock.acquire(data)
    with pytest.raises(StartError, match="in use"):
        create(data, tmp_path / "second")
    lock.close()
    with pytest.raises(ConfigError, match="no embedded queue"):
        create(tmp_path / "nothing", tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_servers_of_others_are_left_to_their_tools(data, tmp_path):
    """While a daemon runs on other servers than its own, their tools and their order are named."""
    announce(data, "http://127.0.0.1:1", data / "token", environ={"XDG_STATE_HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"the queue of .* is not embedded") as refused:
        create(data, tmp_path / "second")
    assert "the queue first and, when that is done, the graph" in refused.value.hint


def spoil(path, change):
    """Change what a file holds."""
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    ("spoiled", "reason"),
    [
        (lambda at: (at / "queue" / aof.FOLDER / NAMES[1]).unlink(), "cannot be read"),
        (
            lambda at: spoil(
                at / "queue" / aof.FOLDER / NAMES[1], lambda held: held.replace(b"2", b"3")
            ),
            "was changed: its check sum",
        ),
        (
            lambda at: spoil(at / "graph" / aof.FOLDER / NAMES[1], lambda held: held[:-1]),
            "bytes, and should have",
        ),
        (lambda at: (at / BACKUP_FILE).unlink(), "backup.json is missing"),
        (lambda at: (at / BACKUP_FILE).write_text("{"), "cannot be read"),
        (
            lambda at: spoil(
                at / BACKUP_FILE, lambda held: held.replace(b'"version": 1', b'"version": 2')
            ),
            "of version 2",
        ),
        (
            lambda at: spoil(
                at / BACKUP_FILE, lambda held: held.replace(b"queue/app", b"../queue/app")
            ),
            "the queue is not in it",
        ),
    ],
)
def test_a_damaged_backup_is_told_and_not_put_back(backup, tmp_path, spoiled, reason):
    """Whatever is missing or was changed is named, and the target stays as it was."""
    spoiled(backup)
    with pytest.raises(InvalidInput, match=reason):
        verify(backup)
    with pytest.raises(InvalidInput):
        restore(backup, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_backup_is_put_back(backup, data, tmp_path):
    """The files are where the servers look for them, for their owner only."""
    done = restore(backup, tmp_path / "new")
    assert done.replaced is None
    for kind in ("queue", "graph"):
        for name in NAMES:
            path = tmp_path / "new" / kind / aof.FOLDER / name
            assert path.read_bytes() == (data / kind / aof.FOLDER / name).read_bytes()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    DirectoryLock.acquire(tmp_path / "new", seconds=0).close()
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "graph",
        "lock",
        "owner",
        "queue",
    ]


def test_what_is_there_is_never_overwritten(backup, data):
    """A directory with data is refused; with force its data is moved aside, not deleted."""
    own = (data / "queue" / aof.FOLDER / NAMES[1]).read_bytes() + command(b"SET", b"z", b"9")
    (data / "queue" / aof.FOLDER / NAMES[1]).write_bytes(own)
    with pytest.raises(StartError, match="is not empty: graph, queue"):
        restore(backup, data)
    done = restore(backup, data, force=True)
    assert (done.replaced / "queue" / aof.FOLDER / NAMES[1]).read_bytes() == own
    assert (data / "queue" / aof.FOLDER / NAMES[1]).read_bytes() != own
    lock = DirectoryLock.acquire(data)
    with pytest.raises(StartError, match="in use"):
        restore(backup, data, force=True)
    lock.close()


def test_a_clock_that_is_behind_is_told(backup, tmp_path):
    """The graph would refuse what a holder with too small a number writes."""
    earlier = datetime.fromisoformat(read(backup).created) - timedelta(seconds=2)
    with pytest.raises(InvalidInput, match="clock"):
        restore(backup, tmp_path / "new", now=earlier)
    assert restore(backup, tmp_path / "new", now=datetime.now(UTC)).backup == read(backup)


def test_the_command_line(data, tmp_path, capsys, monkeypatch):
    """A word that is no command is the place of a backup; each command has a machine form."""
    monkeypatch.delenv("GRALKORD_DATA_DIR", raising=False)
    place = str(tmp_path / "backup")
    assert run(["backup", place, "--data-dir", str(data), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["files"], made["directory"]) == (6, place)
    assert run(["backup", "verify", place]) == 0
    assert capsys.readouterr().out.startswith(f"whole: {place}, ")
    assert run(["restore", place, "--data-dir", str(tmp_path / "new"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["replaced"] is None
    (tmp_path / "backup" / BACKUP_FILE).unlink()
    assert run(["backup", "verify", place]) == 5


def noted(identity, at, **fields):
    """Return an erasure as the queue keeps it, in a command of its file."""
    scope = fields.pop("scope")
    values = {"id": identity, "scope": scope, "state": "done", "started_at": at} | fields
    text = Erasure.model_validate(values).model_dump_json().encode()
    return command(b"HSET", b"gk:erasures:default", identity.encode(), text)


def test_what_was_erased_since_is_told(backup, data, tmp_path, capsys):
    """The commands that erase it again are printed; older erasures and mere counts are not."""
    late, early = "2999-01-01T00:00:00Z", "2000-01-01T00:00:00Z"
    with (data / "queue" / aof.FOLDER / NAMES[1]).open("ab") as file:
        file.write(noted("1-0", late, scope={"operator": "ada", "session": "a b"}))
        file.write(noted("2-0", late, scope={"everything": True}))
        file.write(noted("3-0", late, scope={"operator": "bob"}, dry_run=True))
        file.write(noted("4-0", early, scope={"operator": "old"}))
    wanted = ["gralkord erase --operator ada --session 'a b'", "gralkord erase --everything"]
    words = ["restore", str(backup), "--data-dir", str(tmp_path / "new"), "--json"]
    assert run([*words, "--erased-from", str(data)]) == 0
    assert json.loads(capsys.readouterr().out)["erase_again"] == wanted
    assert run(["restore", str(backup), "--data-dir", str(data), "--force"]) == 0
    out = capsys.readouterr().out
    assert all(f"erased since, and back: {line}" in out for line in wanted)
    assert "bob" not in out
    assert run(["restore", str(backup), "--data-dir", str(tmp_path / "third")]) == 0
    assert "is back: erase it again" in capsys.readouterr().out
