"""The example of a whole configuration: it loads, is right, and does what it says."""

from __future__ import annotations

import sys
from pathlib import Path as FilePath

import pytest
from groups_of_tests import ANN
from path_of_tests import ALL, WORK, Path

from gralkord.cli.app import run
from gralkord.config import Models, Server, load_settings
from gralkord.groups import Group
from gralkord.lenses.load import load_lenses
from gralkord.mailbox.connection import open_queue
from gralkord.providers.build import build_model
from gralkord.testing.model_server import ScriptedModelServer

EXAMPLE = FilePath(__file__).parents[2] / "config" / "example"
DECISIONS = Group("default", "ann", "decisions").id
GROUPS = (ANN, WORK, DECISIONS, ALL, Group("default", "bob", "work").id)
EPISODES = "MATCH (e:Episodic) WHERE e.content <> '' RETURN e.content ORDER BY e.content"


@pytest.fixture
def lenses(monkeypatch):
    """The lenses of the example."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield load_lenses(load_settings(EXAMPLE / "gralkord.toml", {}))
    sys.modules.pop("example_lenses", None)


@pytest.fixture
async def path(queue_socket, graph, lenses):
    """The path of a turn through them."""
    queue = open_queue(Server(socket=queue_socket))
    with ScriptedModelServer() as server:
        model = build_model(Models(llm=server.spec), {})
        path = Path(queue, graph, model, lenses, GROUPS)
        yield path
        await path.close()
        await model.close()
    await queue.aclose()


def test_the_example_is_right(lenses, capsys):
    """There is nothing to warn of."""
    assert run(["lenses", "check", "--config", str(EXAMPLE / "gralkord.toml")]) == 0
    assert capsys.readouterr().out == "ok: default, work, decisions, habits\n"
    assert lenses.lens("work").ontology.labels == ("Person", "Team")
    assert lenses.lens("decisions").ontology.labels == ("Person", "Choice")


async def test_the_example_does_what_it_says(path, graph):
    """The agent's turns go through its lenses, decisions through the process; operators are apart."""
    said = {"agent": "assistant", "session": "s1"}
    await path.say("I live in Oslo.", **said)
    await path.say("We decided to live in Rome.", "decisions", turn="t2", **said)
    await path.say("I live in Bern.", operator="bob", turn="t3", **{**said, "session": "s2"})
    await path.flush("s1")
    await path.flush("s2")
    await path.work()
    assert await graph.read(WORK, EPISODES) == [["Ann: I live in Oslo."]]
    assert await graph.read(DECISIONS, EPISODES) == [["Ann: We decided to live in Rome."]]
    assert await graph.read(Group("default", "bob", "work").id, EPISODES) == [
        ["Bob: I live in Bern."]
    ]
    assert await graph.read(ANN, EPISODES) == []
    # Each turn of the agent was generalised as well, whatever came of it.
    origins = await graph.read(ALL, "MATCH (o:Origin) RETURN count(o)")
    assert origins == [[3]]
    searched = path.parts.lenses.searched("default", "ann", (), "assistant")
    assert [group.id for group in searched] == [ANN, WORK, DECISIONS, ALL]
