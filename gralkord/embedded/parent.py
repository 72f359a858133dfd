"""A child process of ours ends when its parent is gone, whichever way the parent went."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Final

GRACE_SECONDS: Final = 5.0


def watch_parent(descriptor: int, *, grace_seconds: float = GRACE_SECONDS) -> threading.Thread:
    """End this process, and what it started, soon after its parent has ended.

    Args:
        descriptor: The read end of a pipe whose write end only the parent has open, so that the
            kernel closes it when the parent ends.
        grace_seconds: How long an orderly end may take before the process is killed.
    """
    watcher = threading.Thread(
        target=_watch, args=(descriptor, grace_seconds), name="parent-watch", daemon=True
    )
    watcher.start()
    return watcher


def _watch(descriptor: int, grace_seconds: float) -> None:
    while os.read(descriptor, 1):
        continue
    if not sys.platform.startswith("linux"):  # there the kernel has sent it already
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_seconds)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
