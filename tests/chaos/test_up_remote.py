"""Servers that somebody else runs: the same commands, with host, user, password and TLS."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from remote_servers import PASSWORD, USER, Certificate, RemoteServer, TlsProxy, free_port
from up_process import eventually

from gralkord.config import Graph, Queue
from gralkord.errors import BackendUnavailable, ConfigError, GralkorError
from gralkord.graph.connection import GraphConnection
from gralkord.mailbox.connection import open_queue, queue_errors

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Where these servers keep their files."""
    return tmp_path_factory.mktemp("remote")


@pytest.fixture(scope="module")
def certificate(home):
    """A certificate for 127.0.0.1 that no system trusts."""
    return Certificate(home)


@pytest.fixture(scope="module")
def servers(home):
    """A queue and a graph on TCP that ask for a user and a password."""
    started = {}
    try:
        for kind in ("queue", "graph"):
            started[kind] = RemoteServer(home, kind)
        yield started
    finally:
        for server in started.values():
            server.close()


@pytest.fixture
def emptied(servers):
    """The same servers without any data."""
    for server in servers.values():
        with server.client() as client:
            client.flushall()
    return servers


@pytest.fixture(scope="module")
def proxies(servers, certificate):
    """Ports on which the same servers speak TLS."""
    started = {kind: TlsProxy(server.port, certificate) for kind, server in servers.items()}
    yield started
    for proxy in started.values():
        proxy.close()


async def ping_queue(**settings) -> bool:
    """Ask the queue that *settings* name."""
    client = open_queue(Queue(host="127.0.0.1", **settings))
    try:
        with queue_errors():
            return await client.ping()
    finally:
        await client.aclose()


async def ping_graph(**settings) -> dict[str, str]:
    """Ask the graph that *settings* name."""
    connection = GraphConnection.open(Graph(host="127.0.0.1", **settings))
    try:
        return await connection.versions()
    finally:
        await connection.close()


ASK = {"queue": ping_queue, "graph": ping_graph}


@pytest.mark.parametrize("kind", ASK)
async def test_user_and_password_reach_the_server(servers, kind):
    """A server with an access list lets in who has the password."""
    port = servers[kind].port
    assert await ASK[kind](port=port, username=USER, password=PASSWORD)


@pytest.mark.parametrize("kind", ASK)
@pytest.mark.parametrize(
    "given", [{}, {"username": USER, "password": "wrong"}, {"password": PASSWORD}]
)
async def test_a_wrong_password_is_told(servers, kind, given):
    """Without the right user and password the error says which server refuses them."""
    with pytest.raises(
        GralkorError, match=f"the {kind} .*(user|password|Authentication)"
    ) as caught:
        await ASK[kind](port=servers[kind].port, **given)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("kind", ASK)
async def test_a_password_file_is_read(servers, tmp_path, kind):
    """The password may stand in a file."""
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    assert await ASK[kind](port=servers[kind].port, username=USER, password_file=file)


@pytest.mark.parametrize("kind", ASK)
async def test_tls_with_an_authority_of_our_own(proxies, certificate, kind):
    """A server behind TLS is reached when its authority is named."""
    access = {"username": USER, "password": PASSWORD, "tls": True}
    assert await ASK[kind](port=proxies[kind].port, tls_ca=certificate.authority, **access)


@pytest.mark.parametrize("kind", ASK)
async def test_an_unknown_authority_is_refused(proxies, kind):
    """A certificate that nobody vouches for ends the connection before the password is sent."""
    with pytest.raises((BackendUnavailable, ConfigError)):
        await ASK[kind](port=proxies[kind].port, username=USER, password=PASSWORD, tls=True)


def environ_for(ports: dict[str, int], authority=None) -> dict[str, str]:
    """Return the settings that lead to servers on *ports*."""
    environ = {}
    for kind, port in ports.items():
        prefix = f"GRALKORD_{kind.upper()}__"
        environ |= {prefix + "HOST": "127.0.0.1", prefix + "PORT": str(port)}
        environ |= {prefix + "USERNAME": USER, prefix + "PASSWORD": PASSWORD}
        if authority:
            environ |= {prefix + "TLS": "true", prefix + "TLS_CA": str(authority)}
    return environ


def works(up, operator: str) -> None:
    """Check that what is captured is recalled."""
    up.capture("The boiler is serviced in October.", operator)
    eventually(lambda: up.recall("boiler", operator))


def test_up_with_both_servers_behind_tls(emptied, proxies, certificate, start_up):
    """With remote servers, `gralkord up` starts daemon and worker only."""
    ports = {kind: proxy.port for kind, proxy in proxies.items()}
    up = start_up(**environ_for(ports, certificate.authority)).ready()
    assert set(up.pids) == {"daemon", "worker"}
    assert up.said["remotes"] == {kind: f"127.0.0.1:{port}" for kind, port in ports.items()}
    works(up, "ada")
    with emptied["queue"].client() as queue, emptied["graph"].client() as graph:
        assert queue.dbsize() > 0
        assert graph.execute_command("GRAPH.LIST") == [b"op__default__ada__default"]
    for pid in up.pids.values():
        assert PASSWORD not in Path(f"/proc/{pid}/cmdline").read_text()
    assert up.end() == 0
    up.assert_nothing_is_left()


def test_up_with_one_remote_server(emptied, start_up):
    """A remote graph goes with an embedded queue."""
    up = start_up(**environ_for({"graph": emptied["graph"].port})).ready()
    assert set(up.pids) == {"queue", "daemon", "worker"}
    works(up, "bob")
    assert up.end() == 0


def test_up_says_which_server_refuses_the_password(emptied, start_up):
    """To wait for a server that refuses our password would be in vain: `up` ends and says so."""
    environ = environ_for({kind: server.port for kind, server in emptied.items()})
    environ["GRALKORD_QUEUE__PASSWORD"] = "wrong"
    code, error = start_up(**environ).failed()
    assert code == 1
    refusal = (
        "refuses its configuration; it last wrote: error: the queue refuses the user or password"
    )
    assert error["message"] in {f"the daemon {refusal}", f"the worker {refusal}"}


def test_up_tells_what_it_waits_for(emptied, start_up):
    """A server that does not answer may do so later: `up` waits, and says for what."""
    ports = {"queue": free_port(), "graph": emptied["graph"].port}
    up = start_up(**environ_for(ports))
    while not (parts := up.warning()["parts"]):  # of a daemon that is still starting
        continue
    assert parts["queue"] == "the queue does not answer"
    assert up.end() == 0


@pytest.mark.parametrize(("command", "kind"), [("serve", "graph"), ("worker", "queue")])
def test_a_wrong_password_ends_daemon_and_worker(emptied, tmp_path, command, kind):
    """They exit with 78, which tells service managers not to try again."""
    environ = environ_for({kind: server.port for kind, server in emptied.items()})
    environ[f"GRALKORD_{kind.upper()}__PASSWORD"] = "wrong"
    environ["GRALKORD_MODELS__LLM"] = "openai-compatible:none@http://127.0.0.1:9/v1"
    flags = ["--port", "0", "--data-dir", str(tmp_path)] if command == "serve" else []
    told = subprocess.run(
        [sys.executable, "-m", "gralkord.cli.app", command, *flags],
        env={**os.environ, **environ, "XDG_STATE_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert told.returncode == 78
    assert told.stderr.splitlines()[-1] == f"error: the {kind} refuses the user or password"


def test_serve_and_worker_stand_alone(emptied, tmp_path, start_up):
    """`gralkord serve` and `gralkord worker` run by themselves against remote servers."""
    environ = environ_for({kind: server.port for kind, server in emptied.items()})
    environ = {**os.environ, **environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    command = [sys.executable, "-m", "gralkord.cli.app"]
    data = tmp_path / "serve data"
    serve = subprocess.Popen(
        [*command, "serve", "--port", "0", "--data-dir", str(data)], env=environ
    )
    worker = subprocess.Popen([*command, "worker"], env=environ)
    try:
        eventually((data / "daemon.json").exists)
        told = subprocess.run(
            [*command, "status", "--json", "--data-dir", str(data)],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert told.returncode == 0, told.stdout + told.stderr
        again = subprocess.run(
            [*command, "serve", "--port", "0", "--data-dir", str(data)],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert again.returncode == 1
        assert f"is in use by another gralkord (pid {serve.pid})" in again.stderr
        for process in (serve, worker):
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        assert not (data / "daemon.json").exists()
    finally:
        for process in (serve, worker):
            process.kill()
            process.wait()


def test_serve_needs_servers(tmp_path):
    """Without an address of a queue, `gralkord serve` says what is missing and exits with 78."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-m", "gralkord.cli.app", "serve"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert told.returncode == 78
    assert told.stderr.splitlines()[0] == "error: queue.host or queue.socket is missing"
