"""A holder frozen past its leases: others take over in time, and what it does later is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis
from up_process import UpProcess, eventually

from gralkord.groups import Group
from gralkord.testing.model_server import ScriptedModelServer

LEASE_SECONDS = 1.0
SWEEP_SECONDS = 0.5
# What the machine may take on top: two processors, shared with everything else.
SLACK_SECONDS = 1.5
PROGRAM = Path(__file__).with_name("frozen_holder.py")
CASES = [
    (lane, place) for lane in ("index", "understand") for place in ("before_write", "before_commit")
]
STATE = (
    "MATCH (m:Meta) OPTIONAL MATCH (p:Passage) WITH m, count(p) AS passages "
    "OPTIONAL MATCH (e:Episodic) WITH m, passages, count(e) AS episodes "
    "OPTIONAL MATCH ()-[f:RELATES_TO]->() RETURN m.seq, m.fence_index, m.fence_understand, "
    "passages, episodes, count(f), count(DISTINCT f.fact)"
)


@dataclass
class Box:
    """One mailbox of the story.

    Attributes:
        epoch: The lease of the holder that froze.
        seconds: From the freezing until somebody else held it, or it was empty.
        settled: The graph when the work was done.
        later: The graph when the frozen holder had ended.
        said: What the frozen holder said of it after that.
    """

    lane: str
    place: str
    epoch: int = 0
    seconds: float = 0.0
    settled: list = field(default_factory=list)
    later: list = field(default_factory=list)
    said: list = field(default_factory=list)

    @property
    def operator(self) -> str:
        """Each has an operator of its own."""
        return f"{self.lane} {self.place}"

    @property
    def group(self) -> str:
        """Its group."""
        return Group("default", self.operator, "default").id

    def to_dict(self, up) -> dict:
        """Return what the holder is told."""
        if self.lane == "index":
            items = [turn_item(number, self.operator) for number in range(3)]
        else:
            up.capture("Ida moved to Lisbon. Ida works at Acme.", self.operator, self.operator)
            items = [episode_item(self, eventually(lambda: turns(up, self.group)))]
        return {"lane": self.lane, "group": self.group, "place": self.place, "items": items}


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """Freeze a holder of all boxes, let others finish, thaw it; return the boxes."""
    home = tmp_path_factory.mktemp("up")
    boxes = {case: Box(*case) for case in CASES}
    with ScriptedModelServer() as model:
        environ = {
            "GRALKORD_LEASES__INDEX_SECONDS": str(LEASE_SECONDS),
            "GRALKORD_LEASES__UNDERSTAND_SECONDS": str(LEASE_SECONDS),
            "GRALKORD_MODELS__LLM": model.spec,
        }
        up = UpProcess(home / "data", state=home / "state", **environ)
        try:
            tell(up.ready(), boxes, environ)
        finally:
            up.clear()
    return boxes


def tell(up, boxes, environ):
    sockets = {
        f"GRALKORD_{name.upper()}__SOCKET": str(up.data_dir / "run" / f"{name}.sock")
        for name in ("queue", "graph")
    }
    task = json.dumps([box.to_dict(up) for box in boxes.values()])
    holder = subprocess.Popen(
        [sys.executable, str(PROGRAM)],
        env={**os.environ, **environ, **sockets},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        holder.stdin.write(task)
        holder.stdin.close()
        by_place = {(box.lane, box.group): box for box in boxes.values()}
        while not all(box.epoch for box in boxes.values()):
            line = json.loads(holder.stdout.readline())
            if line["event"] == "arrived":
                by_place[line["lane"], line["group"]].epoch = line["epoch"]
        eventually(lambda: stopped(holder.pid))
        watch(up, list(boxes.values()))
        holder.send_signal(signal.SIGCONT)
        for line in map(json.loads, holder.stdout):
            if line["event"] == "ended":
                break
            by_place[line["lane"], line["group"]].said.append(line)
        for box in boxes.values():
            box.later = rows(up, box.group, STATE)[0]
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def watch(up, boxes):
    """Note when each box is taken over; return when all are done."""
    began = time.monotonic()
    socket = up.data_dir / "run" / "queue.sock"
    with redis.Redis(unix_socket_path=str(socket), decode_responses=True) as queue:
        frozen = list(boxes)
        while frozen:
            assert time.monotonic() - began < 15, "nobody takes over"
            for box in list(frozen):
                if queue.hget(f"gk:meta:{box.lane}:{box.group}", "epoch") != str(box.epoch):
                    box.seconds = time.monotonic() - began
                    frozen.remove(box)
            time.sleep(0.005)
        for box in boxes:
            tail = f"{box.lane}:{box.group}"
            eventually(lambda tail=tail: not queue.exists(f"gk:box:{tail}", f"gk:run:{tail}"))
            box.settled = rows(up, box.group, STATE)[0]


def stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def rows(up, group, query):
    socket = up.data_dir / "run" / "graph.sock"
    with redis.Redis(unix_socket_path=str(socket), decode_responses=True) as client:
        return client.execute_command("GRAPH.RO_QUERY", group, query)[1]


def turns(up, group):
    """Return the ids of the group's turns that were indexed."""
    try:
        return [row[0] for row in rows(up, group, "MATCH (p:Passage) RETURN p.turn_id")]
    except redis.ResponseError:
        return []


def turn_item(number, operator):
    message = {"role": "user", "content": f"Ida moved to Lisbon {number}."}
    body = {
        "kind": "turn",
        "turn_id": f"t{number}",
        "session": operator,
        "operator": operator,
        "agent": "helper",
        "user": "Ada",
        "event_time": "2024-05-01T09:30:00Z",
        "ordinal": number + 1,
        "received_ms": 0,
        "source": None,
        "offset": None,
        "messages": [message],
    }
    return {"id": f"{number}-0", "body": body}


def episode_item(box, turn_ids):
    body = {
        "kind": "understand",
        "home": box.group,
        "turns": turn_ids,
        "operator": box.operator,
        "agent": "helper",
        "session": box.operator,
    }
    return {"id": "1-0", "body": body}


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_another_takes_over_within_a_lease_and_a_sweep(story, case):
    """Whatever the holder was frozen in, its mailbox has another one soon after its lease."""
    assert story[case].seconds < LEASE_SECONDS + SWEEP_SECONDS + SLACK_SECONDS


@pytest.mark.parametrize("lane", ["index", "understand"])
def test_a_late_write_is_refused_by_the_graph(story, lane):
    """The fence stands above the frozen holder's epoch: its write finds no row and does nothing."""
    box = story[lane, "before_write"]
    fence = box.settled[1 if lane == "index" else 2]
    assert fence > box.epoch
    assert [line["rows"] for line in box.said if line["event"] == "written"] == [0]
    assert box.later == box.settled


@pytest.mark.parametrize("lane", ["index", "understand"])
def test_a_late_commit_is_refused_by_the_mailbox(story, lane):
    """What was written before the freeze is there, and the commit that comes too late fails."""
    box = story[lane, "before_commit"]
    assert "commit_refused" in {line["event"] for line in box.said}
    assert box.later == box.settled


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_work_done_twice_is_there_once(story, case):
    """Two holders have worked on each item; its passages, episode and facts are single."""
    *_, passages, episodes, facts, distinct = story[case].later
    if case[0] == "index":
        assert (passages, episodes) == (3, 0)
    else:
        assert (passages, episodes) == (1, 1)
        assert facts == distinct > 0
