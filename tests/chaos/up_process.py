"""A real ``gralkord up`` in its own data directory, for tests that treat it roughly."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import redis

from gralkord.embedded.lock import DirectoryLock

READY_SECONDS = 30.0


def lives(pid: int) -> bool:
    """Return whether the process *pid* runs; one that ended but was not collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually(holds, seconds: float = 15.0):
    """Return what *holds* returns, once that is true."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return found


def ask(request: urllib.request.Request, seconds: float) -> dict:
    """Return the JSON that a request is answered with; a refusal leaves no connection open."""
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refusal:
        refusal.close()
        raise


class UpProcess:
    """One ``gralkord up --json``; `ready` waits for its first line."""

    def __init__(self, data_dir: Path, *flags: str, state: Path, **environ: str) -> None:
        self.data_dir = data_dir
        command = [sys.executable, "-m", "gralkord.cli.app", "up", "--json"]
        self.process = subprocess.Popen(
            [*command, "--data-dir", str(data_dir), "--port", "0", *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**_clean_environ(), "XDG_STATE_HOME": str(state), **environ},
        )
        self.said: dict = {}

    @property
    def url(self) -> str:
        """Where the daemon listens."""
        return self.said["url"]

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the children when it was ready."""
        return self.said["pids"]

    def ready(self, seconds: float = READY_SECONDS) -> UpProcess:
        """Wait until everything runs."""
        assert self.process.stdout
        readable, _, _ = select.select([self.process.stdout], [], [], seconds)
        assert readable, f"not ready after {seconds} s: {self.logs()}"
        line = self.process.stdout.readline()
        assert line, f"it ended: {self.process.stderr.read().decode()} {self.logs()}"
        self.said = json.loads(line)
        assert self.said.get("event") == "ready", f"{line!r} {self.logs()}"
        self._sync_at_once()
        return self

    def _sync_at_once(self) -> None:
        """Let the graph write each command to disk at once, so that commits wait for no second."""
        socket = self.data_dir / "run" / "graph.sock"
        if socket.exists():
            with redis.Redis(unix_socket_path=str(socket)) as graph:
                graph.config_set("appendfsync", "always")

    def warning(self, seconds: float = READY_SECONDS) -> dict:
        """Return the next line of its own log."""
        assert self.process.stderr
        assert select.select([self.process.stderr], [], [], seconds)[0], "it logs nothing"
        return json.loads(self.process.stderr.readline())

    def end(self, number: int = signal.SIGTERM, seconds: float = 30.0) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def failed(self, seconds: float = 30.0) -> tuple[int, dict]:
        """Wait for the end; return the exit code and the error that was printed."""
        out, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, json.loads(out)["error"]

    def request(self, path: str, body: dict | None = None, seconds: float = 20.0) -> dict:
        """Call the daemon with the token of the data directory."""
        token = (self.data_dir / "token").read_text().strip()
        request = urllib.request.Request(
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        return ask(request, seconds)

    def capture(self, text: str, operator: str = "ada", session: str = "s1") -> dict:
        """Capture one turn."""
        return self.request("/v1/capture", turn(text, operator, session))

    def recall(self, query: str, operator: str = "ada") -> list[str]:
        """Return the texts that are recalled."""
        body = {"operator": operator, "query": query}
        return [memory["text"] for memory in self.request("/v1/recall", body)["results"]]

    def pid_now(self, name: str) -> int | None:
        """Return the process of that child which is recorded to run now."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in children.read_text().split():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            except FileNotFoundError:  # it has ended meanwhile
                continue
            if _name_of(words) == name:
                return int(pid)
        return None

    def assert_nothing_is_left(self) -> None:
        """Check that no process holds the data directory any more."""
        assert not [name for name, pid in self.pids.items() if lives(pid)]
        DirectoryLock.acquire(self.data_dir, seconds=0).close()

    def logs(self) -> str:
        """Return the ends of all logs, for the message of a test that failed."""
        files = sorted((self.data_dir / "logs").glob("*.log"))
        return "\n".join(f"== {file.name}\n{file.read_text()[-1500:]}" for file in files)

    def clear(self) -> None:
        """End it whatever its state, and wait until its children have gone too."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
        for pid in self.said.get("pids", {}).values():
            eventually(lambda pid=pid: not lives(pid))


def turn(text: str, operator: str = "ada", session: str = "s1") -> dict:
    """Return a capture of one message."""
    return {
        "operator": operator,
        "session": session,
        "agent": "helper",
        "user": "Ada",
        "turn": [{"role": "user", "content": text}],
    }


def _name_of(words: list[str]) -> str | None:
    line = " ".join(words)
    if "redis-server" in line:  # it writes its socket over its command line
        return "graph" if "graph.sock" in line else "queue"
    return {"serve": "daemon", "worker": "worker"}.get(words[4] if len(words) > 4 else "")


def _clean_environ() -> dict[str, str]:
    kept = (item for item in os.environ.items() if not item[0].startswith(("GRALKORD", "OPENAI")))
    return dict(kept)
