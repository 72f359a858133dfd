"""The OpenAI-compatible server of llama-cpp-python, as a child process."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from gralkord.embedded.servers import die_with_parent

NAME = "gemma-3-270m"
READY_SECONDS = 120.0
CONTEXT_TOKENS = 8192
# The servers, the daemon and the worker need the others.
THREADS = str(max(1, (os.cpu_count() or 1) // 2))


class LlamaServer:
    """Serves the model in the environment at *place*; one request at a time."""

    def __init__(self, place: Path, log: Path) -> None:
        self._place = place
        self._log = log
        self._port = free_port()
        self._process: subprocess.Popen | None = None

    @property
    def spec(self) -> str:
        """How the settings name its model."""
        return f"openai-compatible:{NAME}@http://127.0.0.1:{self._port}/v1"

    @property
    def answered(self) -> dict[int, int]:
        """How many requests for a completion it answered, by status."""
        found = re.findall(r'"POST /v1/chat/completions HTTP/1.1" (\d+)', self._log.read_text())
        return {int(status): found.count(status) for status in sorted(set(found))}

    def start(self) -> None:
        """Start it; return when it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._place / "bin" / "python", "-m", "llama_cpp.server"),
                    *("--model", self._place / "model.gguf", "--model_alias", NAME),
                    *("--host", "127.0.0.1", "--port", str(self._port)),
                    # Its default keeps what it thinks of each word of a prompt: 1 MB a token.
                    *("--n_ctx", str(CONTEXT_TOKENS), "--logits_all", "false"),
                    *("--n_threads", THREADS, "--n_threads_batch", THREADS),
                    # The model brings no template of its own.
                    *("--chat_format", "chatml", "--seed", "1", "--verbose", "false"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent(os.getpid()),  # noqa: PLW1509 - one thread
            )
        deadline = time.monotonic() + READY_SECONDS
        while not self._answers():
            ended = self._process.poll()
            assert ended is None, f"it ended with {_named(ended)}:\n{self._last_words()}"
            assert time.monotonic() < deadline, f"it is not ready:\n{self._last_words()}"
            time.sleep(0.1)

    def stop(self) -> None:
        """End it, in the middle of an answer too."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/v1/models", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2_000:]


def free_port() -> int:
    """Return a port of the loopback address that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _named(code: int) -> str:
    if code != -signal.SIGILL:
        return f"code {code}"
    return (
        "an illegal instruction: the machine lacks what it was built for; build it again with "
        "CMAKE_ARGS='-DGGML_AVX2=OFF -DGGML_FMA=OFF -DGGML_F16C=OFF -DGGML_BMI2=OFF'"
    )
