"""The contract of clients, kept over HTTP by a real ``gralkord up`` without a model."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor

import pytest
from up_process import eventually

from gralkord import AsyncClient, Client, Retry
from gralkord.testing.contract import MemoryContract, RecallContract

pytestmark = pytest.mark.timeout(120)

# One erasure at a time is done for a tenant; others are asked to come again.
PATIENT = Retry(retries=100, base=0.05, cap=0.2)


class SharedClient(Client):
    """One client for all threads: each of its own would read the system's certificates anew."""

    def close(self):
        """Stay open for the others."""


def names_of(contract):
    """Return the names of the tests of a contract."""
    found = inspect.getmembers(contract, inspect.isfunction)
    return [name for name, _ in found if name.startswith("test_")]


def run(contract, name, open_client):
    """Run one test of a contract."""
    one = contract()
    one.lens, one.open_client = "work", open_client
    try:
        getattr(one, name)()
    finally:
        one.teardown_method()


def test_both_clients_keep_the_contract(start_up):
    """What the twin does a daemon does, asked by many at once, since its answers wait for disks."""
    up = start_up(GRALKORD_LENSES__WORK__SCOPE="operator").ready()
    token = (up.data_dir / "token").read_text().strip()
    client = SharedClient(up.url, token, retry=PATIENT)
    tests = [(MemoryContract, name, lambda: client) for name in names_of(MemoryContract)]
    tests += [
        (RecallContract, name, lambda: AsyncClient(up.url, token))
        for name in names_of(RecallContract)
    ]
    assert len(tests) > 35
    with ThreadPoolExecutor(16) as pool:
        runs = {pool.submit(run, *test): test[1] for test in tests}
    Client.close(client)
    failed = {name: error for each, name in runs.items() if (error := each.exception())}
    assert not failed
    triples_need_no_model(up)
    assert up.end() == 0
    up.assert_nothing_is_left()


def triples_need_no_model(up):
    """Check that the worker adds triples, which are recalled beside what was captured."""
    up.capture("The kettle is in the blue cupboard.")
    triple = {"subject": "Ada", "predicate": "OWNS", "object": "the red kettle"}
    added = up.request("/v1/triples", {"operator": "ada", "triples": [triple]})
    assert (added["complete"], added["triples"][0]["created"]) == (True, True)
    assert up.request(f"/v1/results/{added['id']}")["complete"]
    both = {"Ada owns the red kettle", "The kettle is in the blue cupboard."}
    eventually(lambda: set(up.recall("Where is the kettle of Ada?")) == both)
