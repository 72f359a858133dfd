"""From the stream to the episode: the time that prompts are told, and words that are replaced."""

from __future__ import annotations

import json
import re

import pytest
from fakes import FakeModel
from groups_of_tests import ANN, only
from test_resent_turns import ALL, Path, episodes, queue

from gralkord.graph.written import written_of

__all__ = ["queue"]


class Listener(FakeModel):
    """Keeps what it is asked."""

    def __init__(self, **answers):
        super().__init__(**answers)
        self.prompts = {}

    async def complete(
        self, messages, schema, *, small=False, max_tokens=None, stage="", group=None
    ):
        """Answer as it is told."""
        text = "\n".join(message.content for message in messages)
        self.prompts.setdefault(stage, []).append(text)
        return await super().complete(messages, schema, stage=stage)


@pytest.fixture
async def path(queue, graph):
    """All parts between a capture and its facts, with a model that listens."""
    path = Path(queue, graph)
    path.parts.episodes._model = Listener(**path.model.answers)
    yield path
    await path.index.close()


async def say(path, text, **fields):
    """Capture a turn through both lenses."""
    base = {"operator": "ann", "agent": "bot", "user": "Ann", "lenses": ["default", "all"]}
    turn = {"session": "s", "turn": [{"role": "user", "content": text}]}
    data = json.dumps(base | turn | fields)
    await path.queue.xadd("gk:intake:default", {"kind": "turn", "data": data})


async def test_the_event_time_is_the_time_of_every_prompt(path, graph):
    """It is told in UTC wherever a prompt tells a time, and is the episode's and its facts'."""
    await say(path, "I work at Acme.", event_time="2021-03-04T01:30:00+05:30", turn_id="t0")
    await path.remember()
    for group in (ANN, ALL):
        rows = await graph.read(group, "MATCH (e:Episodic) RETURN e.valid_at")
        assert rows == [["2021-03-03T20:00:00Z"]]
        times = await graph.read(group, "MATCH ()-[f:RELATES_TO]->() RETURN f.reference_time")
        assert times == [["2021-03-03T20:00:00Z"]]
    assert await only(graph, ANN, "MATCH (p:Passage) RETURN p.event_time") == "2021-03-03T20:00:00Z"
    prompts = path.parts.episodes._model.prompts
    edges = [text for stage in prompts for text in prompts[stage] if "REFERENCE_TIME" in text]
    assert edges
    assert all(re.search(r"2021-03-03[T ]20:00:00(Z|\+00:00)", text) for text in edges), edges
    everything = [text for some in prompts.values() for text in some]
    assert not any("2021-03-04" in text or "+05:30" in text for text in everything)


async def test_replaced_words_are_not_understood(path, graph):
    """Words that were replaced before their flush are part of no episode, and the new ones are."""
    place = {"source": "notes.md", "offset": "1"}
    for text in ("I live in Rome.", "I live in Oslo."):
        await say(path, text, **place)
    await path.remember()
    assert await episodes(graph, ANN) == ["Ann: I live in Oslo."]
    assert await episodes(graph, ALL) == ["Ann: I live in Oslo."]
    assert await graph.read(
        ANN, "MATCH (p:Passage) RETURN p.text, p.withdrawn_reason, p.waiting ORDER BY p.text"
    ) == [["I live in Oslo.", None, None], ["I live in Rome.", "replaced", True]]
    turns = dict(await graph.read(ANN, "MATCH (p:Passage) RETURN p.text, p.turn_id"))
    found = {text: await written_of(graph, ANN, turns[text]) for text in turns}
    assert [(one.understood, one.withdrawn) for one in found.values()] in [
        [(True, False), (False, True)],
        [(False, True), (True, False)],
    ]
    assert found["I live in Rome."].withdrawn


async def test_words_that_were_understood_are_replaced_with_their_facts(path, graph):
    """What a replaced turn said is not understood again, and the new words make an episode."""
    place = {"source": "notes.md", "offset": "1"}
    await say(path, "I live in Rome.", **place)
    await path.remember()
    await say(path, "I live in Oslo.", **place)
    await path.remember()
    await say(path, "I live in Rome.", **place)
    await path.remember()
    assert await episodes(graph, ANN) == ["Ann: I live in Oslo.", "Ann: I live in Rome."]
    assert await graph.read(
        ANN, "MATCH (p:Passage) WHERE p.withdrawn_at IS NULL RETURN p.text"
    ) == [["I live in Rome."]]
