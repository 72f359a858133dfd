"""The supervisor, with small shell scripts as its children."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gralkord.embedded.child import ChildSpec
from gralkord.embedded.supervisor import RestartPolicy, Supervisor
from gralkord.errors import StartError

QUICK = RestartPolicy(first_delay=0.01, longest_delay=0.05)


def script(tmp_path: Path, name: str, text: str, **options) -> ChildSpec:
    """Return a child that runs *text* in a shell."""
    return ChildSpec(
        name=name, command=("/bin/sh", "-c", text), log=tmp_path / f"{name}.log", **options
    )


async def eventually(holds, seconds: float = 10.0) -> None:
    """Return once *holds* returns something true."""
    async with asyncio.timeout(seconds):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)


def lives(pid: int) -> bool:
    """Return whether the process *pid* runs; one that ended but was not collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@asynccontextmanager
async def running(*specs: ChildSpec, policy: RestartPolicy = QUICK):
    """Run *specs* under a supervisor, and stop it at the end."""
    supervisor = Supervisor(specs, policy)
    task = asyncio.create_task(supervisor.run())
    try:
        yield supervisor
    finally:
        supervisor.request_stop()
        async with asyncio.timeout(20):
            await task


async def test_a_crashed_child_is_restarted(tmp_path):
    """A child that is killed is replaced by another process."""
    async with running(script(tmp_path, "a", "exec sleep 60")) as supervisor:
        await eventually(lambda: "a" in supervisor.pids())
        first = supervisor.pids()["a"]
        os.kill(first, 9)
        await eventually(lambda: supervisor.pids().get("a", first) != first)
        assert lives(supervisor.pids()["a"])


async def test_quick_failures_in_a_row_end_everything(tmp_path):
    """After five quick failures all is stopped, with the last words of the child."""
    other = script(tmp_path, "other", "exec sleep 60")
    text = f"echo x >> '{tmp_path}/runs'; echo no luck today >&2; exit 3"
    failing = script(tmp_path, "bad", text)
    supervisor = Supervisor([other, failing], QUICK)
    with pytest.raises(StartError) as caught:
        await supervisor.run()
    assert caught.value.message == (
        "the bad failed 5 times in a row (exit code 3); it last wrote: no luck today"
    )
    assert (tmp_path / "runs").read_text() == "x\n" * 5
    assert supervisor.pids() == {}


async def test_a_child_that_answers_is_never_given_up(tmp_path):
    """A server that starts but ends soon, as with a full disk, is started again and again."""

    async def answer() -> None:
        return

    starts = tmp_path / "starts"
    spec = script(tmp_path, "a", f"echo x >> {starts}; sleep 0.05; exit 1", answers=answer)
    async with running(spec):
        await eventually(lambda: starts.exists() and len(starts.read_text()) > 2 * 7)


async def test_words_of_an_earlier_run_are_not_quoted(tmp_path):
    """A child that ends without a word is not given those of its predecessor."""
    child = script(tmp_path, "quiet", "exit 3")
    child.log.write_text("all is well\n")
    with pytest.raises(StartError) as caught:
        await Supervisor([child], QUICK).run()
    assert caught.value.message == "the quiet failed 5 times in a row (exit code 3)"


async def test_failures_far_apart_are_forgiven(tmp_path):
    """A child that answered long enough before it failed is restarted without end."""
    policy = RestartPolicy(first_delay=0.01, quick_seconds=0.02, quick_failures=2)
    runs = tmp_path / "runs"
    child = script(tmp_path, "a", f"echo x >> '{runs}'; sleep 0.06; exit 1")
    async with running(child, policy=policy):
        await eventually(lambda: runs.exists() and len(runs.read_text()) >= 10)


async def test_a_refused_configuration_is_not_tried_again(tmp_path):
    """A child that exits with 78 ends everything at once."""
    child = script(tmp_path, "daemon", "echo models.llm: no such provider; exit 78")
    with pytest.raises(StartError, match=r"refuses its configuration.*no such provider"):
        await Supervisor([child], RestartPolicy(first_delay=60)).run()


async def test_a_missing_program_is_said(tmp_path):
    """A program that does not exist is one clear error, and what was started is stopped."""
    other = script(tmp_path, "other", "exec sleep 60")
    child = ChildSpec(name="queue", command=("/nowhere/redis-server",), log=tmp_path / "log")
    supervisor = Supervisor([other, child], QUICK)
    with pytest.raises(StartError, match=r"cannot start the queue: .*No such file"):
        await supervisor.run()
    assert supervisor.pids() == {}


def trapping(tmp_path: Path, name: str, phase: int) -> ChildSpec:
    """Return a child that notes in a file when it is asked to end, and takes a moment for it."""
    notes = tmp_path / "notes"
    text = f"trap 'echo {name} asked >> \"{notes}\"; sleep 0.1; echo {name} ended >> \"{notes}\"; exit 0' TERM; echo {name} up >> '{notes}'; while :; do sleep 0.02; done"
    return script(tmp_path, name, text, stop_phase=phase)


async def test_children_are_stopped_in_order(tmp_path):
    """Each phase is asked to end only after the one before has ended."""
    notes = tmp_path / "notes"
    names = ("queue", "daemon", "worker")
    specs = [trapping(tmp_path, name, phase) for name, phase in zip(names, (2, 0, 1), strict=True)]
    async with running(*specs):
        await eventually(lambda: notes.exists() and notes.read_text().count("up") == 3)
        notes.write_text("")
    order = ["daemon", "worker", "queue"]
    expected = [f"{name} {what}" for name in order for what in ("asked", "ended")]
    assert notes.read_text().splitlines() == expected


DEAF = "trap '' TERM; echo up; while :; do sleep 0.05; done"


async def test_a_child_that_does_not_end_is_killed(tmp_path):
    """A child that ignores SIGTERM is killed when its time is over; no task is left unheard."""
    unheard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    child = script(tmp_path, "deaf", DEAF, stop_seconds=0.2)
    async with running(child) as supervisor:
        await eventually(lambda: child.log.exists() and child.log.read_text())
        pid = supervisor.pids()["deaf"]
    assert not lives(pid)
    gc.collect()
    assert unheard == []


async def test_a_second_signal_kills_at_once(tmp_path):
    """Asked a second time, the supervisor does not wait for anybody."""
    children = [script(tmp_path, name, DEAF, stop_seconds=60) for name in ("a", "b")]
    supervisor = Supervisor(children, QUICK)
    task = asyncio.create_task(supervisor.run())
    await eventually(lambda: all(c.log.exists() and c.log.read_text() for c in children))
    pids = supervisor.pids().values()
    began = time.monotonic()
    supervisor.request_stop()
    await asyncio.sleep(0.1)
    supervisor.request_stop()
    assert await task is False
    assert time.monotonic() - began < 5
    assert not any(lives(pid) for pid in pids)


async def test_what_a_crashed_child_had_started_is_ended(tmp_path):
    """Processes that a child leaves behind are killed with it."""
    note = tmp_path / "pid"
    child = script(tmp_path, "a", f"sleep 60 & echo $! > '{note}'; wait")
    async with running(child) as supervisor:
        await eventually(lambda: note.exists() and note.read_text().strip())
        grandchild = int(note.read_text())
        os.kill(supervisor.pids()["a"], 9)
        await eventually(lambda: not lives(grandchild))


async def test_a_child_waits_for_the_one_it_needs(tmp_path):
    """A child is started only once the one that it needs answers."""
    answer = asyncio.Event()
    queue = script(tmp_path, "queue", "exec sleep 60", answers=answer.wait)
    daemon = script(tmp_path, "daemon", "exec sleep 60", needs="queue")
    async with running(queue, daemon) as supervisor:
        await eventually(lambda: "queue" in supervisor.pids())
        await asyncio.sleep(0.05)
        assert "daemon" not in supervisor.pids()
        assert not supervisor.is_answering("queue")
        answer.set()
        await eventually(lambda: "daemon" in supervisor.pids())


async def test_a_stop_during_the_wait_for_a_restart_is_heeded(tmp_path):
    """A stop does not wait until a child has been restarted."""
    child = script(tmp_path, "a", "exit 1")
    began = time.monotonic()
    async with running(child, policy=RestartPolicy(first_delay=60, longest_delay=60)):
        await asyncio.sleep(0.2)
    assert time.monotonic() - began < 5


async def test_a_long_log_is_moved_aside(tmp_path):
    """A log over the limit is kept once under another name, and the child goes on in the first."""
    from gralkord.embedded.child import Child

    child = Child(script(tmp_path, "a", "true"))
    child.spec.log.write_text("old\n" * 10)
    child.trim_log(limit=20)
    assert child.spec.log.read_text() == ""
    assert (tmp_path / "a.log.1").read_text() == "old\n" * 10
    child.trim_log(limit=20)
    assert (tmp_path / "a.log.1").exists()


async def test_a_real_signal_stops_it(tmp_path):
    """SIGTERM to the supervising process ends its children and itself, in order."""
    note = tmp_path / "pid"
    program = f"""
import asyncio, sys
from pathlib import Path
from gralkord.embedded.child import ChildSpec
from gralkord.embedded.supervisor import Supervisor
async def main():
    spec = ChildSpec(name="a", command=("/bin/sh", "-c", "echo $$ > '{note}'; exec sleep 60"), log=Path({str(tmp_path / "log")!r}))
    return await Supervisor([spec]).run()
sys.exit(0 if asyncio.run(main()) else 1)
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    try:
        await eventually(lambda: note.exists() and note.read_text().strip())
        pid = int(note.read_text())
        process.terminate()
        async with asyncio.timeout(10):
            assert await process.wait() == 0
        assert not lives(pid)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_killed_supervisor_takes_its_children_along(tmp_path):
    """SIGKILL of the supervising process ends what it started."""
    note = tmp_path / "pid"
    program = f"""
import asyncio
from pathlib import Path
from gralkord.embedded.child import ChildSpec
from gralkord.embedded.supervisor import Supervisor
async def main():
    spec = ChildSpec(name="a", command=("/bin/sh", "-c", "echo $$ > '{note}'; exec sleep 60"), log=Path({str(tmp_path / "log")!r}))
    await Supervisor([spec]).run()
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    try:
        await eventually(lambda: note.exists() and note.read_text().strip())
        pid = int(note.read_text())
        process.kill()
        await process.wait()
        await eventually(lambda: not lives(pid))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
