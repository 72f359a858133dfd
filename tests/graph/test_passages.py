from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from groups_of_tests import ANN, BOB, only

from gralkord.errors import BackendUnavailable, LeaseLost
from gralkord.graph.passages import MAX_ROWS, Passage, PassageStore, passage_uuid
from gralkord.groups import Group

WHEN = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)


def passages(group: str, count: int, *, session: str = "s", start: int = 0) -> list[Passage]:
    """Return the passages of as many turns of one session."""
    return [
        Passage(
            uuid=passage_uuid(group, f"{session}-{i}", 0, 0),
            text=f"words {i} of {group}",
            speaker="Ann",
            role="user",
            agent="bot",
            session=session,
            ordinal=i,
            part=0,
            event_time=WHEN + timedelta(minutes=i),
            turn_id=f"{session}-{i}",
        )
        for i in range(start, start + count)
    ]


async def write(graph, group, some, epoch=1):
    """Write passages at an epoch."""
    store = PassageStore(graph)
    return await store.write(group, epoch, some, created_ms=1, fingerprint="local:x:4")


async def test_passages_are_written_and_counted(graph):
    """Every passage is there once, waits to be understood, and carries the number of its write."""
    some = passages(ANN, 3)
    assert await write(graph, ANN, some) == [each.uuid for each in some]
    store = PassageStore(graph)
    assert await store.counts(ANN) == (3, 3)
    loaded = await store.load(ANN, [some[2].uuid, "missing", some[0].uuid])
    assert [each.text for each in loaded] == [some[2].text, some[0].text]
    assert loaded[1].event_time == some[0].event_time
    assert [(each.waiting, each.episode, each.seq) for each in loaded] == [(True, None, 1)] * 2
    assert await store.counts(BOB) == (0, 0)


async def test_a_turn_is_written_whole(graph):
    """However many passages there are, those of one turn appear together."""
    turn = [
        replace(each, turn_id="long", uuid=passage_uuid(ANN, "long", i, 0))
        for i, each in enumerate(passages(ANN, MAX_ROWS, start=MAX_ROWS))
    ]
    await write(graph, ANN, [*passages(ANN, MAX_ROWS - 1), *turn])
    found = await PassageStore(graph).of_turns(ANN, "s", ["long"])
    assert len(found) == MAX_ROWS
    assert len({each.seq for each in found}) == 1


async def test_a_repeated_slice_adds_nothing(graph):
    """Writing a slice again creates, counts and changes nothing."""
    some = passages(ANN, 3)
    await write(graph, ANN, some)
    changed = [replace(each, text="other words") for each in some]
    assert await write(graph, ANN, changed + passages(ANN, 1, start=3)) == [
        passage_uuid(ANN, "s-3", 0, 0)
    ]
    store = PassageStore(graph)
    assert await store.counts(ANN) == (4, 4)
    assert [each.text for each in await store.load(ANN, [some[0].uuid])] == [some[0].text]


async def test_a_passage_twice_in_one_slice_is_one(graph):
    """The same uuid twice in a slice is created once and counted once."""
    (one,) = passages(ANN, 1)
    assert await write(graph, ANN, [one, replace(one, text="second")]) == [one.uuid]
    assert await PassageStore(graph).counts(ANN) == (1, 1)


async def test_a_long_slice_is_written_in_pieces(graph):
    """More rows than one query holds are all written, in order."""
    some = passages(ANN, 2 * MAX_ROWS + 1)
    assert await write(graph, ANN, some) == [each.uuid for each in some]
    assert await only(graph, ANN, "MATCH (m:Meta) RETURN m.seq") == 3


async def test_a_stale_epoch_writes_nothing(graph):
    """Once a later epoch has written, an earlier one is refused and leaves no trace."""
    await write(graph, ANN, passages(ANN, 1), epoch=5)
    await write(graph, BOB, passages(BOB, 1), epoch=4)
    with pytest.raises(LeaseLost):
        await write(graph, ANN, passages(ANN, 3), epoch=4)
    assert await PassageStore(graph).counts(ANN) == (1, 1)
    assert await only(graph, ANN, "MATCH (m:Meta) RETURN m.seq") == 1


async def test_a_group_dropped_by_another_process_is_made_again(graph, graph_socket):
    """A process that believes the graph exists finds out, and whoever comes next makes it again."""
    import redis

    await write(graph, ANN, passages(ANN, 1))
    with redis.Redis(unix_socket_path=str(graph_socket)) as client:
        client.execute_command("GRAPH.DELETE", ANN)
    with pytest.raises(BackendUnavailable, match="dropped"):
        await write(graph, ANN, passages(ANN, 2))
    await write(graph, ANN, passages(ANN, 2))
    assert await PassageStore(graph).counts(ANN) == (2, 2)
    assert await only(graph, ANN, "MATCH (m:Meta) RETURN count(m)") == 1


async def test_two_groups_at_once_do_not_mix(graph):
    """Slices of two groups written at once end up each in its own graph, numbered without gaps."""
    await asyncio.gather(
        *[
            write(graph, group, passages(group, 2, session=f"s{i}"))
            for i in range(10)
            for group in (ANN, BOB)
        ]
    )
    for group in (ANN, BOB):
        assert await PassageStore(graph).counts(group) == (20, 20)
        texts = await graph.read(group, "MATCH (p:Passage) RETURN DISTINCT p.text")
        assert all(text.endswith(group) for (text,) in texts)
        seqs = await graph.read(group, "MATCH (p:Passage) RETURN DISTINCT p.seq ORDER BY p.seq")
        assert seqs == [[i] for i in range(1, 11)]


@pytest.mark.parametrize(
    "name",
    ["a-b-c", "  leading", "ann@example.org", "x/y/../z", "🙂", "עברית", "the", "0", "\\'\"`$"],
)
async def test_names_of_all_kinds_work(graph, name):
    """Operators and sessions may be named by blanks, symbols, emoji, other alphabets, stop words."""
    group = Group("default", name, name).id
    some = passages(group, 2, session=name)
    await write(graph, group, some)
    assert await write(graph, group, some) == []
    store = PassageStore(graph)
    assert [each.session for each in await store.waiting(group, 10)] == [name, name]
    assert len(await store.load(group, [each.uuid for each in some])) == 2
    assert await graph.groups() == [group]


@pytest.mark.parametrize("blank", ["", " "])
async def test_passages_of_turns_are_found(graph, blank):
    """The passages of some turns of a session come in its order, also where ids begin with a blank."""
    name = f"{blank}s"
    some = passages(ANN, 4, session=name)
    some.append(replace(some[1], uuid=passage_uuid(ANN, f"{name}-1", 0, 1), part=1, text="more"))
    await write(graph, ANN, some + passages(ANN, 1, session="other"))
    await write(graph, BOB, passages(BOB, 4, session=name))
    store = PassageStore(graph)
    found = await store.of_turns(ANN, name, [f"{name}-3", f"{name}-1", "missing", "other-0"])
    assert [(each.ordinal, each.part) for each in found] == [(1, 0), (1, 1), (3, 0)]
    assert await store.of_turns(BOB, "none", [f"{name}-1"]) == []


async def test_waiting_passages_come_in_pages(graph):
    """Page after page gives every waiting passage once, by session and place in it."""
    some = passages(ANN, 3, session=" b") + passages(ANN, 4, session="a")
    some.append(replace(some[0], uuid=passage_uuid(ANN, " b-0", 0, 1), part=1))
    await write(graph, ANN, some)
    store = PassageStore(graph)
    found, last = [], None
    while page := await store.waiting(ANN, 3, last):
        found += page
        last = page[-1]
    places = [(each.session, each.ordinal, each.part) for each in found]
    assert places == sorted((each.session, each.ordinal, each.part) for each in some)


async def test_the_embedder_is_noted_with_the_first_vector(graph):
    """The group names the embedder that its vectors are from."""
    await write(graph, ANN, passages(ANN, 1))
    assert await only(graph, ANN, "MATCH (m:Meta) RETURN m.embedder") == ""
    await write(graph, ANN, [replace(passages(ANN, 1, start=9)[0], vector="AAAA")])
    assert await only(graph, ANN, "MATCH (m:Meta) RETURN m.embedder") == "local:x:4"


async def test_a_vector_of_another_embedder_is_refused_and_the_words_are_kept(graph):
    """After a change of embedder new passages have no vector until the group is embedded anew."""
    first, second = (replace(each, vector="AAAA") for each in passages(ANN, 2))
    store = PassageStore(graph)
    await store.write(ANN, 1, [first], created_ms=1, fingerprint="local:x:4")
    await store.write(ANN, 1, [second], created_ms=1, fingerprint="other:y:8")
    rows = await graph.read(ANN, "MATCH (p:Passage) RETURN p.vector ORDER BY p.ordinal")
    assert rows == [["AAAA"], [None]]
    assert await only(graph, ANN, "MATCH (m:Meta) RETURN m.embedder") == "local:x:4"


def test_uuids_of_passages_are_of_their_place():
    """The same place gives the same uuid, another group, turn, message or part another."""
    one = passage_uuid(ANN, "t", 0, 0)
    assert one == passage_uuid(ANN, "t", 0, 0)
    others = {passage_uuid(BOB, "t", 0, 0), passage_uuid(ANN, "u", 0, 0)}
    others |= {passage_uuid(ANN, "t", 1, 0), passage_uuid(ANN, "t", 0, 1)}
    assert len(others | {one}) == 5
