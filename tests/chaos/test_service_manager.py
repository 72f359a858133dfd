"""Daemon and worker under a service manager: notify protocol, sockets, credentials, units."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import types
import uuid
from pathlib import Path

import pytest
from service_process import COMMAND, Daemon, NotifySocket, Service, environ_of

from gralkord.daemon.run import Heart
from gralkord.notify import Notifier
from gralkord.testing.model_server import ScriptedModelServer

pytestmark = pytest.mark.timeout(90)

UNITS = Path(__file__).parents[2] / "systemd"
# The service manager would end a process that is silent for so long.
WATCHDOG = {"WATCHDOG_USEC": "1500000"}


@pytest.fixture
def started():
    """Collects processes, and ends them after the test."""
    services: list[Service] = []
    yield services
    for service in services:
        service.clear()


@pytest.fixture
def manager(tmp_path):
    """The ear of the service manager."""
    ear = NotifySocket(str(tmp_path / "notify"))
    yield ear
    ear.close()


def test_the_daemon_says_that_it_is_ready_alive_and_stopping(
    queue_socket, graph_socket, tmp_path, manager, started
):
    """READY comes when it listens, pings while it routes, STOPPING at the signal."""
    environ = environ_of(tmp_path, queue_socket, graph_socket, **WATCHDOG)
    daemon = Daemon(tmp_path, environ | {"NOTIFY_SOCKET": manager.address})
    started.append(daemon)
    said = manager.until("READY=1")
    assert daemon.request("/healthz")
    if "STATUS=routing" not in said:
        manager.until("STATUS=routing")
    for _ in range(2):
        manager.until("WATCHDOG=1", seconds=1.5)
    daemon.send(signal.SIGTERM)
    assert "STATUS=stopping" in manager.until("STOPPING=1")
    assert daemon.process.wait(20) == 0


def test_a_frozen_worker_is_silent(queue_socket, graph_socket, tmp_path, manager, started):
    """A worker pings from the loop that its turns run on; one that is frozen does not."""
    with ScriptedModelServer() as model:
        environ = environ_of(
            tmp_path, queue_socket, graph_socket, GRALKORD_MODELS__LLM=model.spec, **WATCHDOG
        )
        worker = Service("worker", tmp_path, environ | {"NOTIFY_SOCKET": manager.address})
        started.append(worker)
        manager.until("READY=1")
        manager.until("STATUS=at work")
        manager.until("WATCHDOG=1", seconds=1.5)
        worker.send(signal.SIGSTOP)
        manager.drain()
        assert manager.pings(1.0) == 0
        worker.send(signal.SIGCONT)
        manager.until("WATCHDOG=1", seconds=3)
        worker.send(signal.SIGTERM)
        manager.until("STOPPING=1")
        assert worker.process.wait(20) == 0


def test_a_worker_without_a_model_is_alive_too(
    queue_socket, graph_socket, tmp_path, manager, started
):
    """It works without understanding, says so, and is not ended for it."""
    environ = environ_of(tmp_path, queue_socket, graph_socket, **WATCHDOG)
    worker = Service("worker", tmp_path, environ | {"NOTIFY_SOCKET": manager.address})
    started.append(worker)
    manager.until("READY=1")
    manager.until("STATUS=at work: no language model is configured")
    manager.until("WATCHDOG=1", seconds=1.5)
    assert worker.end() == 0


async def test_the_daemon_pings_only_while_its_duty_takes_turns():
    """A main loop that runs beside a router that hangs proves nothing, so there is no ping."""
    manager = NotifySocket(f"@gralkord-{uuid.uuid4().hex}")
    duties = types.SimpleNamespace(is_router=True, turns=("route", 1))
    heart = Heart(types.SimpleNamespace(duties=duties), Notifier(manager.address, pause=0.0))
    heart.beat()
    assert manager.next(0.2) == ["READY=1", "STATUS=routing"]
    duties.turns = ("route", 2)
    heart.beat()
    assert manager.next(0.2) == ["WATCHDOG=1"]
    heart.beat()
    assert manager.pings(0.1) == 0
    duties.is_router, duties.turns = False, ("lead", 2)
    heart.beat()
    assert manager.next(0.2) == ["STATUS=standing by: another daemon routes"]
    assert manager.next(0.2) == ["WATCHDOG=1"]
    manager.close()


@pytest.mark.parametrize(
    ("environ", "pause"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 10.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
    ],
)
def test_the_watchdog_is_pinged_where_one_watches_this_process(environ, pause):
    """It is pinged three times in the interval, and never for another process."""
    assert Notifier.of(environ).pause == pause


def test_nothing_happens_where_nobody_listens(tmp_path):
    """A service manager that is gone is no failure of ours."""
    for address in (None, str(tmp_path / "gone"), "@gralkord-gone"):
        Notifier(address).ready("on its own")


_ACTIVATE = """
import os, sys
for place, number in enumerate(sys.argv[1].split(","), 3):
    os.dup2(int(number), place)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_it_serves_on_the_sockets_that_it_is_handed(queue_socket, graph_socket, tmp_path, started):
    """A TCP port and a Unix socket of the service manager are served, with the token it hands."""
    secrets = tmp_path / "credentials"
    secrets.mkdir()
    (secrets / "gralkord_token").write_text("a token that is long enough\n")
    path = str(tmp_path / "http.sock")
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(path)
        unix.listen()
        high = [os.dup(each.fileno()) for each in (tcp, unix)]
        high = [os.dup2(each, 100 + place) for place, each in enumerate(high)]
        environ = environ_of(tmp_path, queue_socket, graph_socket) | {
            "LISTEN_FDS": "2",
            "CREDENTIALS_DIRECTORY": str(secrets),
        }
        process = subprocess.Popen(
            [sys.executable, "-c", _ACTIVATE, ",".join(map(str, high)), *COMMAND, "serve"],
            env=environ,
            pass_fds=high,
        )
        started.append(types.SimpleNamespace(clear=lambda: (process.kill(), process.wait())))
        port = http.client.HTTPConnection(*tcp.getsockname(), timeout=20)
        local = http.client.HTTPConnection("localhost", timeout=20)
        local.sock = socket.socket(socket.AF_UNIX)
        local.sock.settimeout(20)
        local.sock.connect(path)
        for connection in (port, local):
            header = {"Authorization": "Bearer a token that is long enough"}
            connection.request("GET", "/v1/status", headers=header)
            answer = connection.getresponse()
            assert answer.status == 200
            assert json.load(answer)["queue"]["state"] == "ok"
            connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        for each in high:
            os.close(each)


needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


@pytest.fixture
def units(tmp_path):
    """The units as they would be installed with this environment."""
    program = Path(sys.executable).with_name("gralkord")
    for unit in UNITS.iterdir():
        text = unit.read_text().replace("/opt/gralkord/bin/gralkord", str(program))
        (tmp_path / unit.name).write_text(text)
    return tmp_path


@needs_systemd
def test_systemd_takes_the_units(units):
    """`systemd-analyze verify` has nothing to say about them."""
    names = ("gralkord.service", "gralkord.socket", "gralkord-worker@1.service", "gralkord.target")
    told = subprocess.run(
        ["systemd-analyze", "verify", *(f"./{name}" for name in names)],
        cwd=units,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")


@needs_systemd
@pytest.mark.parametrize("name", ["gralkord.service", "gralkord-worker@.service"])
def test_the_services_are_hardened(units, name):
    """Systemd rates the exposure of each at most 1.5 of 10."""
    told = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=15", str(units / name)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize("name", ["gralkord.service", "gralkord-worker@.service"])
def test_the_services_can_stop_in_order(name):
    """One signal to the process alone, time to give work back, and no restart at exit 78."""
    lines = (UNITS / name).read_text().splitlines()
    for line in ("Type=notify", "KillMode=mixed", "Restart=always", "RestartPreventExitStatus=78"):
        assert line in lines
    [limit] = [line.partition("=")[2] for line in lines if line.startswith("TimeoutStopSec=")]
    assert int(limit) > 2 * 15 + 5
