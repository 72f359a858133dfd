"""The in-memory twin: it keeps the contract, answers what it is told, and says what it cannot."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from gralkord import AsyncClient, Client
from gralkord.errors import BackendUnavailable, ConfigError, InvalidInput, NotFound, Permanent
from gralkord.models import RecallResult
from gralkord.testing import (
    InMemoryClient,
    Shelves,
    SyncInMemoryClient,
    connect,
    connect_sync,
)
from gralkord.testing.contract import MemoryContract
from gralkord.testing.twin.script import methods_of

TWINS = [(InMemoryClient, AsyncClient), (SyncInMemoryClient, Client)]
KETTLE = "The kettle is in the blue cupboard."
NOTHING = RecallResult(results=[], memory_block="nothing", took_ms=0)


class TestTwinKeepsTheContract(MemoryContract):
    """The asynchronous twin does what every client does."""

    lens = "work"

    def open_client(self):
        """Return a twin with a lens."""
        return InMemoryClient({"work": "operator"})


class TestSyncTwinKeepsTheContract(MemoryContract):
    """The synchronous twin does what every client does."""

    lens = "work"

    def open_client(self):
        """Return a twin with a lens."""
        return SyncInMemoryClient({"work": "operator"})


@pytest.mark.parametrize(("twin", "real"), TWINS)
def test_a_twin_has_every_method_of_its_client(twin, real):
    """Each public method has the same parameters, and is waited for or iterated the same way."""
    names = [name for name in methods_of(real) if name != "close"]
    assert len(names) > 25
    for name in [*names, "close"]:
        ours, theirs = getattr(twin, name), getattr(real, name)
        assert inspect.signature(ours) == inspect.signature(theirs), name
        assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs), name
        assert inspect.isasyncgenfunction(ours) == inspect.isasyncgenfunction(theirs), name
    assert issubclass(twin, real)


def test_it_loads_no_server_and_no_numbers():
    """A twin is made and asked without Redis, FalkorDB, Graphiti, numpy or a web framework."""
    code = (
        "import sys; from gralkord.testing import SyncInMemoryClient as T; t = T(); "
        "t.capture('s', 'ada', 'a', 'u', 'red kettle'); assert t.recall('ada', 'kettle').results; "
        "heavy = {'numpy', 'redis', 'falkordb', 'graphiti_core', 'fastapi', 'pytest'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_it_answers_what_it_is_told():
    """An answer that was told comes for all calls, or for some before those; then the memory's."""
    async with InMemoryClient() as twin:
        await twin.capture("s1", "ada", "helper", "Ada", KETTLE)
        twin.answer("recall", NOTHING, times=1)
        assert await twin.recall("ada", "kettle") is NOTHING
        assert (await twin.recall("ada", "kettle")).results[0].text == KETTLE
        twin.answer("recall", NOTHING)
        twin.answer("recall", BackendUnavailable("down for a test"), times=2)
        for _ in range(2):
            with pytest.raises(BackendUnavailable, match="down for a test"):
                await twin.recall("ada", "kettle")
        assert await twin.recall("bob", "anything") is NOTHING


async def test_an_answer_can_be_reckoned():
    """A function is called with the arguments; of a method that yields, all is yielded."""
    twin = InMemoryClient()
    twin.answer("recall", lambda query, **_: NOTHING.model_copy(update={"memory_block": query}))
    assert (await twin.recall("ada", query="pans")).memory_block == "pans"
    twin.answer("export", [b"1\n", b"2\n"])
    assert [line async for line in twin.export("ada")] == [b"1\n", b"2\n"]
    sync = SyncInMemoryClient()
    sync.answer("export", [b"1\n"])
    assert list(sync.export("ada")) == [b"1\n"]


async def test_arguments_are_checked_before_an_answer_is_given():
    """What the client would refuse is refused, whatever was told; nothing is kept."""
    twin = InMemoryClient()
    twin.answer("recall", NOTHING)
    with pytest.raises(InvalidInput, match="operator: must not be blank"):
        await twin.recall(" ", "kettle")
    with pytest.raises(TypeError):
        await twin.recall("ada")
    twin.answer("capture", NOTHING)
    await twin.capture("s1", "ada", "helper", "Ada", KETTLE)
    assert twin.shelves.of_tenant("default") == []


def test_only_methods_can_be_answered():
    """A name that the client does not have is refused, and those that it has are named."""
    with pytest.raises(InvalidInput, match="no 'recal'") as refusal:
        InMemoryClient().answer("recal", None)
    assert "recall, " in refusal.value.hint
    assert "answer" not in refusal.value.hint


async def test_every_call_is_noted():
    """The log holds methods and arguments in order, those that were refused too."""
    twin = InMemoryClient()
    await twin.capture("s1", "ada", "helper", user="Ada", turn=KETTLE)
    with pytest.raises(NotFound):
        await twin.memory("ada", "m1")
    async for _ in twin.watch_job((await twin.flush("s1")).flush):
        pass
    assert [call.method for call in twin.calls] == ["capture", "memory", "flush", "watch_job"]
    assert twin.calls_of("capture") == [
        {"session": "s1", "operator": "ada", "agent": "helper", "user": "Ada", "turn": KETTLE}
    ]


async def test_reset_forgets_everything():
    """Memory, answers and log are as in the beginning."""
    twin = InMemoryClient()
    await twin.capture("s1", "ada", "helper", "Ada", KETTLE)
    twin.answer("recall", NOTHING)
    twin.reset()
    assert (await twin.recall("ada", "kettle")).results == []
    assert [call.method for call in twin.calls] == ["recall"]
    await twin.capture("s1", "bob", "other", "Bob", KETTLE)


@pytest.mark.parametrize("method", ["export", "reindex", "reembed"])
async def test_it_says_what_it_does_not_do(method):
    """What a twin cannot do is refused by name, with the way out."""
    with pytest.raises(Permanent, match="the in-memory twin does not do") as refusal:
        async for _ in getattr(InMemoryClient(), method)("ada"):
            pass
    assert "answer" in refusal.value.hint
    with pytest.raises(Permanent, match="does not do"):
        list(getattr(SyncInMemoryClient(), method)("ada"))


async def test_a_method_that_a_twin_lacks_is_refused():
    """What a later client sends over a connection of its own is refused as well."""

    class Later(InMemoryClient):
        async def stream_something(self):
            return self._http.stream("GET", "/v1/something")

    with pytest.raises(Permanent, match="does not do"):
        await Later().stream_something()
    with pytest.raises(AttributeError, match="no attribute 'recal'"):
        _ = Later().recal


def test_the_environment_chooses_the_client():
    """The URL `memory:` makes a twin with its lenses; another one makes the real client."""
    for url, environ in (("memory:", {}), (None, {"GRALKORD_URL": "memory:"})):
        twins = connect(url, environ=environ), connect_sync(url, environ=environ)
        assert [type(twin) for twin in twins] == [InMemoryClient, SyncInMemoryClient]
    assert "work" in connect_sync("memory:", lenses={"work": "operator"}).status()["lenses"]
    url, environ = "http://127.0.0.1:9", {"GRALKORD_URL": "memory:"}
    with connect_sync(url, environ=environ, token="t", timeout=1.0) as real:
        assert (type(real), real.endpoint.token) == (Client, "t")


def test_tenants_share_shelves_and_nothing_on_them():
    """Twins of two tenants over one memory do not see each other, in global lenses neither."""
    shelves = Shelves({"team": "global"})
    ours = SyncInMemoryClient(shelves=shelves)
    theirs = SyncInMemoryClient(tenant="other", shelves=shelves)
    fact = {"subject": "Ada", "predicate": "OWNS", "object": "a kettle"}
    ours.add_triples("ada", [fact], lens="team")
    ours.capture("s1", "ada", "helper", "Ada", KETTLE)
    theirs.capture("s1", "bob", "other", "Bob", "The kettle is on the roof.")
    assert [one.text for one in theirs.recall("ada", "kettle", lenses=["team"]).results] == []
    shared = ours.recall("bob", "kettle", lenses=["team"]).results
    assert [(one.text, one.lens) for one in shared] == [("Ada owns a kettle", "global")]
    assert ours.erase(everything=True).counts["graph"]["facts"] == 1
    assert len(theirs.recall("bob", "kettle").results) == 1


async def test_a_turn_of_two_lenses_is_recalled_once():
    """Words that two lenses hold are one memory of an answer."""
    twin = InMemoryClient({"work": "operator"})
    await twin.capture("s1", "ada", "helper", "Ada", KETTLE, lenses=["default", "work"])
    assert len((await twin.recall("ada", "kettle", lenses=["work"])).results) == 1


async def test_agents_have_lenses_of_their_own():
    """Their turns go there unless they name lenses, and their questions, and nobody else's."""
    twin = InMemoryClient(
        {"work": "operator", "kept": {"ingestion": "index"}},
        agents={"helper": {"default_lens": "work", "search_lenses": ["kept"]}},
    )
    await twin.capture("s1", "ada", "helper", "Ada", KETTLE)
    await twin.capture("s2", "ada", "other", "Ada", "The kettle is red.")
    await twin.capture("s1", "ada", "helper", "Ada", "The kettle is old.", lenses=["kept"])

    async def lenses(agent):
        found = await twin.recall("ada", "kettle", agent=agent)
        return {each.lens for each in found.results}

    assert await lenses("helper") == {"work", "default", "kept"}
    assert await lenses("other") == {"default"}
    assert (await twin.recall("bob", "kettle", agent="helper")).results == []
    with pytest.raises(ConfigError, match=r"agents\.helper\.default_lens: no lens is named 'gone'"):
        InMemoryClient(agents={"helper": {"default_lens": "gone"}})


def test_a_contract_without_a_lens_skips_the_tests_of_lenses():
    """What a client does not have is not tested."""
    from unittest import SkipTest

    with pytest.raises(SkipTest):
        MemoryContract().named_lens()
    with pytest.raises(NotImplementedError, match="say how your client is made"):
        _ = MemoryContract().memory


def test_a_broken_client_breaks_the_contract():
    """A client that mixes operators, or that takes any session, is found out."""

    class Mixing(SyncInMemoryClient):
        def recall(self, operator, query, **more):
            return super().recall("ada", query, **more)

        def capture(self, session, operator, agent, user, turn, **more):
            return super().capture(f"{operator}-{agent}", "ada", agent, user, turn, **more)

    class Broken(MemoryContract):
        def open_client(self):
            return Mixing()

    with pytest.raises(AssertionError):
        Broken().test_operators_never_see_each_other()
    with pytest.raises(AssertionError):
        Broken().test_a_session_keeps_its_operator_and_agent()
    with pytest.raises(AssertionError):
        Broken().test_what_was_captured_is_recalled()
