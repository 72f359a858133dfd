"""Turns without an id that have a source and an offset: known by their place and words."""

from __future__ import annotations

import pytest
from test_router import ANN, bodies, route_all, said

from gralkord.models.places import place_turn_id

PLACE = {"source": "notes.md", "offset": "12"}


def placed(text="tea", **fields):
    """Return a turn at a place."""
    return said(text, **(PLACE | fields))


async def raw(queue, capture, tenant="default"):
    """Write a turn to the stream without a producer."""
    data = capture.model_dump_json(exclude_none=True)
    await queue.xadd(f"gk:intake:{tenant}", {"kind": "turn", "data": data})


async def words(mailbox):
    """Return the words that came to the index mailbox, and take them."""
    return [body["messages"][0]["content"] for body in await bodies(mailbox, "index", ANN)]


async def test_the_same_words_at_a_place_are_one_turn(producer, make_router, mailbox, queue, rings):
    """Whichever way they come, and whether they name the derived id or none."""
    [first] = await producer.capture("default", [placed()])
    [again] = await producer.capture("default", [placed(session="other")])
    [named] = await producer.capture("default", [placed(turn_id=place_turn_id(placed()))])
    await raw(queue, placed())
    await route_all(await make_router(), rings, queue)
    assert first.turn_id == place_turn_id(placed())
    assert (again.duplicate, again.receipt, again.turn_id) == (True, first.receipt, first.turn_id)
    assert named.duplicate
    assert await words(mailbox) == ["tea"]


async def test_plain_entries_at_a_place_are_one_turn(make_router, mailbox, queue, rings):
    """Entries that no producer has named are known by their place and words, too."""
    for capture in (placed(), placed(), placed("milk"), placed(offset="13")):
        await raw(queue, capture)
    await route_all(await make_router(), rings, queue)
    found = await bodies(mailbox, "index", ANN)
    assert [body["messages"][0]["content"] for body in found] == ["tea", "milk", "tea"]
    assert found[0]["turn_id"] == place_turn_id(placed())


@pytest.mark.parametrize("plain", [False, True], ids=["producer", "plain"])
@pytest.mark.parametrize("routed", [False, True], ids=["at_once", "one_by_one"])
async def test_words_that_come_back_to_a_place_are_taken_again(
    producer, make_router, mailbox, queue, rings, plain, routed
):
    """After other words the first ones are no resend: the last words of the place come last."""
    router = await make_router()
    for text in ("tea", "milk", "tea"):
        if plain:
            await raw(queue, placed(text))
        else:
            [receipt] = await producer.capture("default", [placed(text)])
            assert not receipt.duplicate
        if routed:
            await route_all(router, rings, queue)
    await route_all(router, rings, queue)
    found = await words(mailbox)
    assert found[-2:] == ["milk", "tea"]


async def test_a_turn_of_its_own_id_is_known_by_that_alone(
    producer, make_router, mailbox, queue, rings
):
    """Two ids at one place with the same words are two turns; one id is one turn."""
    ids = ["a", "b", "a"]
    receipts = await producer.capture("default", [placed(turn_id=one) for one in ids])
    assert [one.duplicate for one in receipts] == [False, False, True]
    await route_all(await make_router(), rings, queue)
    assert await words(mailbox) == ["tea", "tea"]


async def test_places_of_two_owners_are_two_places(producer):
    """Another operator's or tenant's words at the same place are not these."""
    other = placed(operator="bob", session="b")
    for tenant, capture in (("default", placed()), ("default", other), ("other", placed())):
        [receipt] = await producer.capture(tenant, [capture])
        assert not receipt.duplicate


async def test_metadata_comes_to_the_index_lane(producer, make_router, mailbox, queue, rings):
    """What a producer says about a turn is part of the item."""
    await producer.capture("default", [said(metadata={"page": 3})])
    await route_all(await make_router(), rings, queue)
    [body] = await bodies(mailbox, "index", ANN)
    assert body["metadata"] == {"page": 3}
