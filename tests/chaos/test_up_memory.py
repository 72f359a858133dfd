"""Memories of a real ``gralkord up``: kept apart by operator and lens, true to what was recorded."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
import redis.asyncio as redis

from gralkord import AsyncClient
from gralkord.errors import NotFound
from gralkord.testing.model_server import ScriptedModelServer

BENCH = Path(__file__).parents[2] / "bench"
FUNCTIONAL = Path(__file__).parents[1] / "functional"
SECONDS = 40.0

# Two operators, two lenses of each beside the default one, and one that all share.
OPERATORS = ("ada", "bob")
FIRMS = {
    ("ada", "default"): "Acme",
    ("ada", "work"): "Globex",
    ("ada", "home"): "Initech",
    ("ada", "people"): "Umbrella",
    ("bob", "default"): "Hooli",
    ("bob", "work"): "Soylent",
    ("bob", "home"): "Tyrell",
    ("bob", "people"): "Wonka",
}
SHARED = {"Umbrella", "Wonka"}
# Words of a turn to a global lens are kept by the operator alone, in the default lens.
OWN = {"ada": {"Acme", "Umbrella"}, "bob": {"Hooli", "Wonka"}}

TALE = {
    "sample_id": "tale-1",
    "conversation": {
        "speaker_a": "Cleo",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {
                "speaker": "Cleo",
                "dia_id": "D1:1",
                "text": "I keep bees now, five hives, on the roof.",
            },
            {"speaker": "Ben", "dia_id": "D1:2", "text": "How lovely!"},
            {"speaker": "Cleo", "dia_id": "D1:3", "text": "You\u2019re still in Linz with Ulla?"},
            {"speaker": "Ben", "dia_id": "D1:4", "text": "Yes, with Orsolya. I live in Graz now."},
        ],
        "session_2_date_time": "9:05 am on 2 June, 2023",
        "session_2": [
            {"speaker": "Ben", "dia_id": "D2:1", "text": "I passed the exam."},
            {"speaker": "Cleo", "dia_id": "D2:2", "text": "The bees swarmed!"},
        ],
    },
    "observation": {
        "session_1_observation": {
            "Cleo": [["Cleo keeps five hives of bees on the roof.", "D1:1"]],
            "Ben": [
                ["Ben has cello lessons with a teacher called Orsolya.", "D1:4"],
                ["Ben moved to Graz and likes it there.", "D1:4"],
            ],
        },
        "session_2_observation": {
            "Ben": [["Ben passed a difficult cello exam.", ["D2:1"]]],
            "Cleo": [["Cleo saw her bees swarm.", "D2:2"]],
        },
    },
}


@pytest.mark.timeout(120)
def test_memories_are_kept_apart_and_lead_back(start_up, tmp_path, monkeypatch):
    """One start: who sees what, and what a conversation with recorded facts becomes."""
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.syspath_prepend(str(FUNCTIONAL))
    import checks
    import observations
    import observed

    file = tmp_path / "tale.json"
    file.write_text(json.dumps(TALE))
    tale = observed.read_observed(file)
    with ScriptedModelServer(replay=observed.recorded(*tale)) as model:
        up = start_up(
            None,
            *("--model", model.spec),
            GRALKORD_CAPTURE__FLUSH_TURNS="1",
            GRALKORD_LENSES__WORK__SCOPE="operator",
            GRALKORD_LENSES__HOME__SCOPE="operator",
            GRALKORD_LENSES__PEOPLE__SCOPE="global",
            GRALKORD_LENSES__CROWD__SCOPE="global",
        ).ready()
        part = observations.Heard("cleo", *tale)
        asyncio.run(look(up, part, checks.CHECKS))
    assert part.counts(exact=True) == {
        "observations": 5,
        "known": 5,
        "further": 0,
        "entities": 7,
        "missing": 0,
        "unrecorded": 0,
        "near": 5,
        "first": 5,
        "led": 5,
        "turns": 5,
        "dated": 5,
    }
    assert up.end() == 0


async def look(up, part, checks) -> None:
    """Ask all that is to be asked; *checks* are those that a real model has to pass as well."""
    token = (up.data_dir / "token").read_text().strip()
    socket = str(up.data_dir / "run" / "graph.sock")
    async with (
        AsyncClient(up.url, token, timeout=SECONDS + 10) as client,
        redis.Redis(unix_socket_path=socket, decode_responses=True) as graph,
    ):
        await part.capture(client)
        asked = [check(client) for check in checks]
        ends = await asyncio.gather(
            *asked, *(say(client, *place) for place in FIRMS), return_exceptions=True
        )
        assert [end for end in ends if end is not None] == []
        await part.understood(client)
        await part.look(graph)
        await part.ask(client, 5)
        await lenses_are_isolated(client)
        await global_lenses_are_one_memory(client)
        await nobody_reads_by_id(client)


async def say(client, operator, lens) -> None:
    """Let an operator say something through a lens, and wait until it is understood."""
    session = f"{operator} {lens}"
    lenses = [] if lens == "default" else [lens]
    words = f"Ida works at {FIRMS[operator, lens]}."
    await client.capture(session, operator, "helper", operator.title(), words, lenses=lenses)
    flush = await client.flush_and_await(session, SECONDS, operator=operator)
    assert flush.state == "understood", flush


def firms_in(results) -> set[str]:
    """Return the firms that memories speak of."""
    return {firm for firm in FIRMS.values() for each in results if firm in each.text}


async def lenses_are_isolated(client) -> None:
    """Check that a lens of an operator is seen by that operator, through that lens, alone."""
    for operator in OPERATORS:
        own = OWN[operator]
        assert firms_in((await client.recall(operator, "Ida works at")).results) == own
        for lens in ("work", "home"):
            added = own | {FIRMS[operator, lens]}
            for found in (
                await client.recall(operator, "Ida works at", lenses=[lens]),
                await client.search(operator, "Ida works at", [lens]),
            ):
                assert firms_in(found.results) == added
                assert {each.lens for each in found.results} == {"default", lens}
            for other in {"default", "work", "home", "people"} - {lens}:
                page = await client.triples(operator, lens=other)
                assert FIRMS[operator, lens] not in str(page)


async def global_lenses_are_one_memory(client) -> None:
    """Check that what global lenses share is one memory for all, whichever of them is named."""
    for operator in OPERATORS:
        for named in (["people"], ["crowd"], ["global"], ["people", "global", "crowd"]):
            found = await client.search(operator, "Ida works at", named)
            assert found.lenses[0] == "default"
            assert len(found.lenses) == 2
            shared = [each for each in found.results if each.lens != "default"]
            assert firms_in(shared) == SHARED
            assert len(shared) == len({each.id for each in shared}) == len(SHARED)
            assert {each.kind for each in shared} == {"fact"}
            assert {each.origin for each in shared} == {"people"}
            assert firms_in(found.results) == OWN[operator] | SHARED


async def nobody_reads_by_id(client) -> None:
    """Check that an id is of no use to another operator, and that no list or source tells of it."""
    for operator, other in (OPERATORS, OPERATORS[::-1]):
        results = (await client.recall(operator, "Ida", lenses=["work", "home"])).results
        assert len(results) > 3
        for each in results:
            assert (await client.memory(operator, each.id)).id == each.id
            with pytest.raises(NotFound):
                await client.memory_history(other, each.id)
            refused = await client.invalidate(other, [each.id])
            assert refused.left == {each.id: "not_found"}
        assert (await client.triples("nobody")).triples == []


def test_a_file_without_observations_is_refused(tmp_path):
    """What cannot be replayed is one sentence, and nothing is started."""
    import subprocess

    file = tmp_path / "tale.json"
    file.write_text(json.dumps({**TALE, "observation": {"s": {"Ben": [["No turn.", "D9:9"]]}}}))
    done = subprocess.run(
        [sys.executable, str(BENCH / "observations.py"), str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "an observation names no turn: 'D9:9'" in done.stderr
