"""Triples in a real ``gralkord up`` without a model."""

from __future__ import annotations

import pytest
from up_process import eventually

pytestmark = pytest.mark.timeout(120)


def test_triples_need_no_model(start_up):
    """They are added by the worker, recalled beside what was captured, and one when repeated."""
    up = start_up().ready()
    up.capture("The kettle is in the blue cupboard.")
    triple = {"subject": "Ada", "predicate": "OWNS", "object": "the red kettle"}
    added = up.request("/v1/triples", {"operator": "ada", "triples": [triple]})
    assert (added["complete"], added["triples"][0]["created"]) == (True, True)
    assert up.request(f"/v1/results/{added['id']}")["complete"]
    assert up.request("/v1/triples?operator=bob")["triples"] == []
    both = {"Ada owns the red kettle", "The kettle is in the blue cupboard."}
    eventually(lambda: set(up.recall("Where is the kettle of Ada?")) == both)
    repeated = up.request("/v1/triples", {"operator": "ada", "triples": [triple]})
    assert repeated["triples"][0]["id"] == added["triples"][0]["id"]
    assert not repeated["triples"][0]["created"]
    assert up.end() == 0
    up.assert_nothing_is_left()
