"""Erasing with real processes: what is gone is in no file of the data directory."""

from __future__ import annotations

import json
import subprocess
import sys

from up_process import eventually

from gralkord import Client


def test_an_erased_operator_is_in_no_file(start_up):
    """The command erases what a daemon has indexed; another operator is still recalled."""
    up = start_up().ready()
    data_dir = up.data_dir
    with Client(data_dir=data_dir) as client:
        for number in range(20):
            client.capture("a", "ann", "bot", "Ann", f"Zanzibar is number {number}.")
        client.capture("b", "bob", "bot", "Bob", "The harbour is in Lisbon.")
        for session in "ab":
            client.flush_and_await(session, until="indexed")
        assert client.recall("ann", "Zanzibar").results
        words = ("erase", "--operator", "ann", "--yes", "--json", "--data-dir", str(data_dir))
        command = [sys.executable, "-m", "gralkord.cli.app", *words]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        assert json.loads(done.stdout)["counts"]["graph"]["passages"] == 20
        assert not client.recall("ann", "Zanzibar").results
        assert client.recall("bob", "Lisbon").results
        assert client.erasures()[0].not_confirmed == []
    assert eventually(lambda: not _holding(data_dir, b"Zanzibar"))
    assert _holding(data_dir, b"Lisbon")


def _holding(data_dir, word):
    files = [path for path in data_dir.rglob("*") if path.is_file()]
    return [path for path in files if word in path.read_bytes()]
