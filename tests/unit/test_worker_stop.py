"""How a worker hears that it is to stop."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from gralkord.errors import ConfigError
from gralkord_workers import boot
from gralkord_workers.boot import Stop


@pytest.fixture
def stop():
    """What listens to signals, until the test is over."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    stop = Stop()
    stop.listen()
    yield stop
    stop.close()
    for number, handler in before.items():
        signal.signal(number, handler)


def later(what) -> threading.Thread:
    """Do something in another thread while the main one waits; it lives on for a while."""

    def act():
        time.sleep(0.05)
        what()
        time.sleep(0.3)

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def test_a_signal_is_heard_in_whatever_thread_it_comes(stop):
    """The kernel may hand it to another thread than the one that waits."""
    began = time.monotonic()
    thread = later(lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM))
    assert stop.wait(6)
    assert time.monotonic() - began < 4
    thread.join()


def test_a_refusal_wakes_as_well(stop):
    """Settings that cannot work end the wait, and are told."""
    refusal = ConfigError("the queue refuses the user or password")
    thread = later(lambda: stop.refuse(refusal))
    assert stop.wait(0.9)
    assert stop.refusal is refusal
    thread.join()


def test_without_a_signal_the_wait_ends_in_time(stop):
    """Who has to do something now and then is not held up."""
    assert not stop.wait(0.05)


def test_a_worker_whose_event_loop_has_ended_does_not_stay(stop, monkeypatch):
    """It could do no turn any more; whoever has started it starts another one."""
    monkeypatch.setattr(boot, "LOOK_SECONDS", 0.01)
    loop = threading.Thread(target=time.sleep, args=(0.05,))
    loop.start()
    assert not boot._wait(stop, loop)
    thread = later(lambda: stop.refuse(ConfigError("no")))
    assert boot._wait(stop, None)
    thread.join()
