"""Receipts and dead letters of a real ``gralkord up`` with a scripted model."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
import redis

from gralkord import Client
from gralkord.cli.app import run
from gralkord.daemon.run import DRAIN_SECONDS
from gralkord.errors import NotFound
from gralkord.testing.faults import FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def model():
    """A scripted model."""
    with ScriptedModelServer() as server:
        yield server


def say(client, text, session="s1"):
    return client.capture(session, "ada", "helper", "Ada", text).receipt


def queue_of(up):
    socket = up.data_dir / "run" / "queue.sock"
    return redis.Redis(unix_socket_path=str(socket), decode_responses=True)


@pytest.fixture
def command(capsys):
    """A function that runs a command line; it returns exit code and standard output."""

    def call(up, *words):
        code = run([*words, "--data-dir", str(up.data_dir)])
        return code, capsys.readouterr().out

    return call


def drained_in(up):
    """Return how long the daemon waited for requests when it stopped, in seconds."""
    lines = map(json.loads, (up.data_dir / "logs" / "daemon.log").read_text().splitlines())
    times = {line["event"][:8]: datetime.fromisoformat(line["timestamp"]) for line in lines}
    return (times["Finished"] - times["Shutting"]).total_seconds()


def test_a_turn_is_followed_and_what_died_of_it_comes_back(start_up, model, command):
    """Receipts tell every stage; dead letters are seen, dropped, retried and then understood."""
    up = start_up(None, "--model", model.spec).ready()
    with Client(data_dir=up.data_dir) as client:
        receipt = say(client, "Ida moved to Lisbon. Ida works at Acme.")
        states = []
        flush = None
        for job in client.watch_job(receipt, 60):
            states.append(job.state)
            if job.reason == "not_flushed" and flush is None:
                flush = client.flush("s1").flush
        assert states[-1] == "understood"
        assert "indexed" in states
        [group] = job.groups
        assert (group.lens, group.passages) == ("default", 1)
        assert group.episode
        assert group.facts > 0
        assert job.stages.received <= job.stages.indexed <= job.stages.understood
        code, out = command(up, "jobs", "watch", flush, "--json")
        done = json.loads(out.splitlines()[-1])
        assert (code, done["kind"], done["state"], done["turns"]) == (0, "flush", "understood", 1)
        assert done["open"] == {"index": 0, "understand": 0}

        with queue_of(up) as queue:
            entry = queue.xadd("gk:intake:default", {"kind": "turn", "data": "{no json"})
        [job] = [job for job in client.watch_job(entry, 30) if job.final]
        assert (job.state, job.last_error.code) == ("dead", "malformed")
        [letter] = client.dead_letters(lane="intake").letters
        assert [letter.id] == job.dead
        code, out = command(up, "dead", "show", letter.id)
        assert (code, "raw: kind=turn\\ndata={no json" in out) == (0, True)
        assert client.drop_dead([letter.id]).done == 1
        with pytest.raises(NotFound):
            client.dead_letter(letter.id)

        model.set_faults(FaultPlan(kinds=("refused",), rate=1.0))
        poison = say(client, "Bob bakes bread.", "s2")
        client.flush("s2")
        *_, job = client.watch_job(poison, 60)
        assert (job.state, len(job.dead)) == ("dead", 1)
        assert client.status()["queue"]["dead_letters"] == 1
        model.set_faults(FaultPlan())
        code, out = command(up, "dead", "retry", "--all", "--yes")
        assert (code, out) == (0, "retried: 1\n")
        *_, job = client.watch_job(poison, 60)
        assert (job.state, job.dead) == ("understood", [])
        assert client.dead_letters().letters == []

        open_stream = client.watch_job(say(client, "Bob sleeps."), 600)
        next(open_stream)
        assert up.end() == 0
        assert drained_in(up) < DRAIN_SECONDS / 2  # nobody waited for the stream
        open_stream.close()
