"""What the doctor thinks of what it finds."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from types import SimpleNamespace

import httpx
import numpy as np
import pytest

from gralkord import __version__
from gralkord.clock import SystemClock
from gralkord.config import Models, Settings
from gralkord.config.models import Budget
from gralkord.doctor import daemon, graph, machine, packages, prices, queue, role, samples, server
from gralkord.doctor import run as running
from gralkord.doctor.case import Case, Tally, data_directory
from gralkord.doctor.cost import estimate
from gralkord.doctor.findings import NOT_LOOKED, Finding, Report
from gralkord.doctor.ranking import order
from gralkord.doctor.run import Doctor, Section
from gralkord.doctor.server import ServerFacts
from gralkord.doctor.vectors import sense, shape
from gralkord.errors import BackendUnavailable
from gralkord.providers.base import Ranked
from gralkord.providers.embedders.choice import Embedders
from gralkord.providers.ledger import Call
from gralkord.providers.local import FINGERPRINT, LocalEmbedder

ALWAYS = {"appendonly": "yes", "appendfsync": "always"}
PAID = "openai:gpt-5"


def case_of(tmp_path, environ=None, **settings):
    """Return an installation where nothing runs."""
    return Case(Settings(**settings), environ or {}, tmp_path, SystemClock())


def config(**changes):
    """Return what a server says whose settings are these."""
    return ServerFacts(0.001, config=ALWAYS | {k.replace("_", "-"): v for k, v in changes.items()})


@pytest.mark.parametrize(
    ("facts", "wanted", "state", "word"),
    [
        (config(), "always", "ok", "at each write"),
        (config(appendfsync="everysec"), "everysec", "ok", "each second"),
        (config(), "everysec", "ok", "at each write"),
        (config(appendfsync="everysec"), "always", "warn", "the last second"),
        (config(appendfsync="no"), "everysec", "fail", "appendfsync is no"),
        (config(appendonly="no"), "always", "fail", "no append-only file"),
        (config(no_appendfsync_on_rewrite="yes"), "always", "warn", "rewritten"),
        (ServerFacts(0.001), "always", "warn", "does not tell"),
        (ServerFacts(0.001, info={"aof_enabled": "0"}), "always", "fail", "no append-only file"),
        (ServerFacts(0.001, info={"aof_enabled": "1"}), "always", "warn", "does not tell"),
    ],
)
def test_durability_of_the_queue(facts, wanted, state, word):
    """The queue must keep a file, and sync it as often as is configured."""
    found = queue.persistence(facts, wanted)
    assert (found.state, bool(found.mend)) == (state, state != "ok")
    assert word in found.found


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (config(appendfsync="everysec"), "ok"),
        (config(appendfsync="no"), "warn"),
        (config(appendonly="no"), "fail"),
        (ServerFacts(0.001), "warn"),
    ],
)
def test_durability_of_the_graph(facts, state):
    """The graph must keep a file; how often it is synced by itself matters less."""
    assert graph.persistence(facts).state == state


@pytest.mark.parametrize(
    ("info", "settings", "state"),
    [
        ({}, {}, None),
        ({"aof_last_write_status": "err"}, {}, "fail"),
        ({"aof_last_bgrewrite_status": "err"}, {}, "warn"),
        ({"rdb_last_bgsave_status": "err"}, {"save": "3600 1"}, "fail"),
        ({"rdb_last_bgsave_status": "err"}, {"save": ""}, None),
        (
            {"rdb_last_bgsave_status": "err"},
            {"save": "3600 1", "stop-writes-on-bgsave-error": "no"},
            None,
        ),
    ],
)
def test_a_server_that_cannot_write_its_files_is_told(info, settings, state):
    """Each way in which Redis fails at its files has its own consequence."""
    found = server.sick_persistence("queue", ServerFacts(0.001, info=info, config=settings))
    assert (found.state if found else None) == state


@pytest.mark.parametrize(
    ("settings", "state"),
    [
        ({"maxmemory-policy": "noeviction", "maxmemory": "100"}, None),
        ({"maxmemory-policy": "allkeys-lru", "maxmemory": "100"}, "fail"),
        ({"maxmemory-policy": "allkeys-lru", "maxmemory": "0"}, "warn"),
    ],
)
def test_a_server_that_deletes_what_it_holds_is_told(settings, state):
    """An eviction policy deletes memories when memory is short."""
    found = server.eviction("graph", ServerFacts(0.001, config=settings))
    assert (found.state if found else None) == state


@pytest.mark.parametrize(
    ("used", "limit", "state"), [(10, 100, "ok"), (71, 100, "fail"), (10, 0, "warn")]
)
def test_memory_of_the_queue(used, limit, state):
    """From 70 % on intake is closed; without a limit nobody closes it in time."""
    info = {"used_memory": str(used * 10**6), "maxmemory": str(limit * 10**6)}
    assert queue.memory(ServerFacts(0.001, info=info)).state == state


@pytest.mark.parametrize(
    ("rights", "state"),
    [("+@all", "ok"), ("-@all", "fail"), ("-@all +ping", "fail"), (None, "skip")],
)
def test_the_user_that_replays_the_file(rights, state):
    """Without rights of the user `default` a restart forgets."""
    assert server.users("queue", ServerFacts(0.001, default_rights=rights)).state == state


@pytest.mark.parametrize(
    ("skew", "state"), [(0.2, "ok"), (-5.0, "warn"), (90.0, "fail"), (None, "skip")]
)
def test_clocks_of_servers(skew, state):
    """A clock that is far off is told, with the direction."""
    found = server.clock("queue", ServerFacts(0.001, skew=skew))
    assert found.state == state
    if skew == -5.0:
        assert "5.0 s behind" in found.found


def test_clocks_of_providers():
    """The Date of an answer is compared with our clock, and never more than a warning."""
    ours = SimpleNamespace(now=lambda: datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC))
    dates = {
        "Fri, 01 May 2026 11:59:59 GMT": "ok",
        "Fri, 01 May 2026 11:00:00 GMT": "warn",
        "": "skip",
        "soon": "skip",
    }
    for said, state in dates.items():
        assert role.clock("llm.clock", httpx.Headers({"Date": said}), 0.2, ours).state == state
    cached = httpx.Headers({"Date": "Fri, 01 May 2026 11:00:00 GMT", "Age": "3600"})
    assert role.clock("llm.clock", cached, 0.2, ours).state == "skip"


@pytest.mark.parametrize(
    ("settings", "state", "mend"),
    [
        ({"socket": "/run/q.sock"}, "ok", ""),
        ({"host": "127.0.0.1", "password": "p"}, "ok", ""),
        ({"host": "q.example", "password": "p", "tls": True}, "ok", ""),
        ({"host": "127.0.0.1"}, "warn", "queue.password_file"),
        ({"host": "q.example", "password": "p"}, "warn", "queue.tls"),
        ({"host": "q.example"}, "warn", "queue.password_file and queue.tls"),
    ],
)
def test_who_else_can_reach_a_server(settings, state, mend):
    """What is missing is named by its setting; the password is not told."""
    found = server.access("queue", Settings(queue=settings).queue)
    assert found.state == state
    assert mend in found.mend


@pytest.mark.parametrize(
    ("written", "state"), [("8.2.3", "ok"), ("7.0.0", "ok"), ("6.2.14", "fail"), ("", "skip")]
)
def test_version_of_the_queue(written, state):
    """Redis 7 is the oldest that will do."""
    info = {"redis_version": written} if written else {}
    assert queue.version(ServerFacts(0.001, info=info)).state == state


@pytest.mark.parametrize(
    ("version", "state"), [("4.16.3", "ok"), ("4.2.0", "fail"), ("unknown", "warn")]
)
def test_version_of_the_graph(version, state):
    """FalkorDB 4.16 is the oldest that will do, and a plain Redis will not."""
    assert graph.version({"redis": "8.2.3", "falkordb": version}).state == state


@pytest.mark.parametrize(
    ("limits", "state"),
    [
        ({"TIMEOUT_MAX": "0", "RESULTSET_SIZE": "-1"}, "ok"),
        ({"TIMEOUT_MAX": "60000", "RESULTSET_SIZE": "-1"}, "ok"),
        ({"TIMEOUT_MAX": "1000", "RESULTSET_SIZE": "-1"}, "fail"),
        ({"TIMEOUT_MAX": "0", "RESULTSET_SIZE": "10000"}, "fail"),
        (None, "skip"),
    ],
)
def test_limits_of_queries(limits, state):
    """A limit of the module that is below ours refuses queries or cuts answers off."""
    assert graph.query_limits(limits).state == state


def test_a_graph_that_keeps_queries_is_told():
    """The texts of queries are memories."""
    assert graph.texts({"CMD_INFO": "1"}).state == "warn"
    assert graph.texts({"CMD_INFO": "0"}).state == "ok"
    assert graph.texts({}).state == "skip"


def test_vectors_of_other_embedders_are_told():
    """Groups whose vectors nobody can read are named by their embedder, with the mend."""
    ours = Embedders(LocalEmbedder())
    assert graph.vectors([("a", FINGERPRINT), ("b", "")], ours).state == "ok"
    found = graph.vectors([("a", FINGERPRINT), ("b", "openai:x:plain:8")], ours)
    assert found.state == "warn"
    assert "1 group of openai:x:plain:8" in found.found
    assert "reembed" in found.mend
    old = Embedders(None, (LocalEmbedder(),))
    assert graph.vectors([("a", FINGERPRINT)], old).state == "ok"


@pytest.mark.parametrize(
    ("version", "bounds", "fits"),
    [
        ("2.2.1", "<3,>=2.2", True),
        ("2.10.0", ">=2.2", True),
        ("2.1.9", "<3,>=2.2", False),
        ("3.0.0", "<3,>=2.2", False),
        ("0.4.0.post1", "<0.5,>=0.4.0", True),
        ("1.4.1", "==1.4.1", True),
        ("1.4.2", "==1.4.1", False),
        ("1.5", "!=1.5", False),
        ("1.9.3", "~=1.9.0", True),
        ("1.10.0", "~=1.9.0", False),
        ("2.0", "", True),
    ],
)
def test_bounds_of_versions(version, bounds, fits):
    """Versions are compared by their numbers."""
    assert packages.fits(version, bounds) is fits


def test_packages_that_do_not_fit_are_named():
    """What is missing and what is too old; those of extras are not needed."""
    declared = ["pytest>=999", "no-such-package", "fastembed>=1; extra == 'fastembed'", "pytest"]
    assert [line.split(" is ")[0] for line in packages.unmet(declared)] == [
        "pytest",
        "no-such-package",
    ]


def test_our_own_packages_fit():
    """The environment of the tests is as it is declared."""
    assert packages.judge().state == "ok"


def test_the_data_directory(tmp_path):
    """It need not be there; it must be a directory, and its parts closed to others."""
    assert machine.directory(tmp_path / "new").state == "ok"
    file = tmp_path / "file"
    file.touch()
    assert machine.directory(file).state == "fail"
    (tmp_path / "queue").mkdir(mode=0o755)
    found = machine.directory(tmp_path)
    assert (found.state, "queue" in found.found) == ("warn", True)
    (tmp_path / "queue").chmod(0o700)
    assert machine.directory(tmp_path).state == "ok"


@pytest.mark.parametrize(("free", "state"), [(10**12, "ok"), (10**9, "warn"), (10**7, "fail")])
def test_space_on_the_disk(tmp_path, monkeypatch, free, state):
    """Room that runs out is told before it has."""
    usage = SimpleNamespace(total=10**12, used=0, free=free)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    assert machine.disk(tmp_path / "new").state == state


def test_syncs_of_the_disk_are_measured(tmp_path):
    """Where the queue is embedded; the file that it takes is gone then."""
    found = machine.sync(case_of(tmp_path))
    assert found.facts["milliseconds"] >= 0
    assert list(tmp_path.iterdir()) == []
    assert machine.sync(case_of(tmp_path, queue={"host": "q"})).state == "skip"


def test_files_with_secrets(tmp_path):
    """A key that others can read is told by its file, without the key."""
    key = tmp_path / "key"
    key.write_text("sk-secret")
    key.chmod(0o644)
    found = machine.secrets(case_of(tmp_path, {"OPENAI_API_KEY_FILE": str(key)}))
    assert (found.state, str(key) in found.found) == ("warn", True)
    assert "sk-secret" not in f"{found}"
    key.chmod(0o600)
    assert machine.secrets(case_of(tmp_path, models={"api_key_file": str(key)})).state == "ok"


def test_a_settings_file_with_a_key_in_it(tmp_path):
    """It is a file with secrets too."""
    file = tmp_path / "gralkord.toml"
    file.touch(mode=0o644)
    settings = Settings(models={"api_key": "sk-secret"})
    case = Case(settings, {}, tmp_path, SystemClock(), config_file=file)
    assert machine.secrets(case).state == "warn"


def test_embedded_servers_are_needed_where_none_are_named(tmp_path, monkeypatch):
    """A package that is missing is told with its install line, if it is needed."""
    assert machine.servers(Settings()).state == "ok"
    monkeypatch.setattr(machine, "find_spec", lambda _: None)
    assert "pip install" in machine.servers(Settings()).mend
    remote = Settings(queue={"host": "q"}, graph={"host": "g"})
    assert machine.servers(remote).state == "ok"


def test_what_the_daemon_says_of_itself():
    """Another version, parts that are down, a model that is held back, and work that waits."""
    assert daemon.version({"version": __version__}).state == "ok"
    assert daemon.version({"version": "0.0.0"}).state == "warn"
    assert daemon.parts({"ready": True, "parts": {"queue": "ok", "graph": "ok"}}).state == "ok"
    assert daemon.parts({"ready": True, "parts": {"graph": "is down"}}).state == "warn"
    assert daemon.parts({"ready": False, "parts": {"queue": "is down"}}).state == "fail"
    assert daemon.model({"state": "ok"}).state == "ok"
    assert daemon.model({"state": "outage", "reason": "no answer"}).state == "warn"
    assert daemon.model({"state": "misconfigured"}).state == "fail"
    assert daemon.budget({"state": "none"}).state == "ok"
    assert daemon.budget({"state": "ok", "operators_spent": 0}).state == "ok"
    assert "budget of 1 operator" in daemon.budget({"state": "ok", "operators_spent": 1}).found
    assert daemon.budget({"state": "spent", "operators_spent": 0}).state == "warn"
    assert daemon.budget({"state": "the queue does not answer"}).state == "warn"
    assert daemon.work({"intake": {"oldest_seconds": None}}).state == "ok"
    assert daemon.work({"index": {"oldest_seconds": 1.0}}).state == "ok"
    assert daemon.work({"index": {"oldest_seconds": 100.0}}).state == "warn"
    assert daemon.letters({"dead_letters": 0}).state == "ok"
    assert "1 dead letter" in daemon.letters({"dead_letters": 1}).found


def test_a_daemon_with_other_settings_is_told():
    """Model and embedder are compared, as far as they are known here."""
    status = {"model": "gpt-5", "embedder": None}
    assert daemon.settings(status, "gpt-5", "local").state == "ok"
    assert daemon.settings(status, None, "local").state == "ok"
    found = daemon.settings(status, "none", "openai:e")
    assert found.state == "warn"
    assert "its model is gpt-5, here it is none" in found.found


async def test_prices_and_budgets(tmp_path):
    """A price that is not known is told; a budget in dollars cannot do without."""

    async def look(**settings):
        case = case_of(tmp_path, {"OPENAI_API_KEY": "k"}, **settings)
        return {found.name.partition(".")[2]: found async for found in prices.look(case)}

    plain = {"llm": PAID}
    assert (await look(models=plain))["prices"].state == "warn"
    local = {"llm": "ollama:m"}
    assert (await look(models=local))["prices"].state == "ok"
    dollars = {"tenant": {"usd": 1}}
    assert (await look(models=plain, budget=dollars))["budget"].state == "fail"
    assert (await look(models=local, budget=dollars))["budget"].state == "ok"
    for since, state in ((None, "ok"), ("2020-01-01", "warn"), ("2999-01-01", "warn")):
        price = {"input": 1, "output": 2, "since": date.fromisoformat(since) if since else None}
        priced = plain | {"options": {PAID: {"price": price}}}
        found = await look(models=priced, budget=dollars)
        assert (found["prices"].state, found["budget"].state) == (state, "ok")
        assert found["options"].state == "ok"
    power = {"input": 1, "since": date(2020, 1, 1)}
    found = await look(models=local | {"options": {"ollama:m": {"price": power}}})
    assert "2020-01-01" in found["prices"].found
    idle = plain | {"options": {"openai:gpt-4": {"concurrency": 1}}}
    assert (await look(models=idle))["options"].state == "warn"
    gateway = "openai-compatible:e@http://h"
    before = {"embedders_before": [gateway], "options": {"openai-compatible:e": {}}}
    found = await look(models=before)
    assert (found["options"].state, found["prices"].state) == ("ok", "warn")


def test_what_samples_may_cost_is_said_first(tmp_path):
    """Calls, tokens and dollars of the roles that are asked; nothing when offline."""
    models = Models(
        llm=PAID,
        embedder="openai:e",
        options={PAID: {"price": {"input": 1, "output": 2}}},
    )
    settings = Settings(models=models, budget=Budget())
    case = Case(settings, {"OPENAI_API_KEY": "k"}, tmp_path, SystemClock())
    both = estimate(case, ())
    assert both.calls == 4
    assert both.cost_usd > 0
    assert both.unpriced == ("openai:e",)
    assert "openai:e is not known" in str(both)
    assert estimate(case, {"embedder.sense"}).calls == 2
    assert estimate(case, {"queue"}).calls == 0
    longer = Case(settings, {"OPENAI_API_KEY": "k"}, tmp_path, SystemClock(), long=True)
    assert estimate(longer, {"llm"}).tokens > both.tokens + 20_000
    offline = Case(settings, {"OPENAI_API_KEY": "k"}, tmp_path, SystemClock(), offline=True)
    assert str(estimate(offline, ())) == "no model is asked"


def test_the_sample_is_understood_or_not():
    """What the answer leaves out is named."""
    fact = samples.SampleFact(subject="Ida", relation="LIVES_IN", object="Bergen, Norway")
    assert samples.understood(samples.DoctorSample(people=["Ida", "Tomas"], facts=[fact])) == []
    assert samples.understood(samples.DoctorSample(people=[], facts=[])) == [
        "Ida",
        "Tomas",
        "Bergen",
    ]


def test_the_picture_is_a_png():
    """It has the signature and a size."""
    data = samples.picture().data
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data[16:24] == (64).to_bytes(4) * 2


def test_vectors_are_judged_by_form_and_sense():
    """They must be of length 1, and the right text must be nearest."""
    good = np.eye(3, 4, dtype=np.float32)
    assert shape(good, "x:y:plain:4", 0.01).state == "ok"
    assert shape(good, "x:y:plain:4", 10.0).state == "warn"
    assert shape(good * 2, "x:y:plain:4", 0.01).state == "fail"
    assert shape(good * np.float32("nan"), "x:y:plain:4", 0.01).state == "fail"
    assert sense(np.array([0.1, 0.9, 0.2], dtype=np.float32)).state == "ok"
    assert sense(np.array([0.9, 0.1, 0.2], dtype=np.float32)).state == "warn"


def test_orders_are_judged():
    """The right text must come first, and soon; a reranker that scores nothing is of no use."""
    right, wrong = Ranked(samples.BEST, 0.9), Ranked(samples.BEST + 1, 0.8)
    assert order([right, wrong], 0.1).state == "ok"
    assert order([right, wrong], 10.0).state == "warn"
    assert order([wrong, right], 0.1).state == "warn"
    assert order([], 0.1).state == "fail"


async def test_tallies_count_what_was_used():
    """A part's calls count in the whole, and a price that is not known is told."""
    whole = Tally()
    part = Tally(whole=whole)
    await part.permit(None)
    await part.record(Call("llm", PAID, "doctor", None, 10, 0, 5, 0.1))
    assert len(part.calls) == 1
    assert whole.to_dict() == {
        "calls": 1,
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "cost_usd": 0,
        "unpriced": 1,
    }


async def test_every_check_is_told_whatever_happens(tmp_path, monkeypatch):
    """A section that ends early, fails or breaks leaves no check out, and no other section."""

    async def ends(_):
        yield Finding("one.a", "ok", "well")
        yield Finding("one.b", "fail", "it is down")

    async def fails(_):
        yield Finding("two.a", "warn", "so so")
        raise BackendUnavailable("gone", hint="come back")

    async def breaks(_):
        raise LookupError("secret words")
        yield

    sections = (
        Section("one", ("a", "b", "c"), ends),
        Section("two", ("a", "b", "c"), fails),
        Section("three", ("a", "b"), breaks),
    )
    monkeypatch.setattr(running, "SECTIONS", sections)
    seen = []
    report = await Doctor(case_of(tmp_path)).run(seen.append)
    told = {found.name: (found.state, found.found) for found in report.findings}
    assert seen == list(report.findings)
    assert told["one.c"] == ("skip", f"{NOT_LOOKED}it is down")
    assert told["two.b"] == ("fail", "gone")
    assert told["two.c"] == ("skip", f"{NOT_LOOKED}gone")
    assert told["three.a"] == ("fail", "the check itself failed: LookupError")
    assert report.failed
    assert report.counts() == {"ok": 1, "warn": 1, "fail": 3, "skip": 3}
    some = await Doctor(case_of(tmp_path), {"one.a", "two"}).run()
    assert [found.name for found in some.findings] == ["one.a", "two.a", "two.b", "two.c"]


async def test_what_to_mend_is_said(tmp_path):
    """A server that is not there is named with its settings, and so is a key that is missing."""
    nowhere = {"host": "127.0.0.1", "port": 1}
    case = case_of(tmp_path, queue=nowhere, graph=nowhere, models={"llm": PAID})
    report = await Doctor(case, {"queue", "graph", "llm"}).run()
    told = {found.name: found for found in report.findings if found.state == "fail"}
    for kind in ("queue", "graph"):
        found = told[f"{kind}.reachable"]
        assert found.found.startswith("127.0.0.1:1: ")
        assert f"{kind}.port" in found.mend
    assert told["llm.settings"].mend == "check OPENAI_API_KEY"


async def test_embedders_of_before_are_looked_at(tmp_path):
    """A daemon would not start with one that cannot be had."""
    case = case_of(tmp_path, models={"embedder": "none", "embedders_before": ["nobody:m"]})
    [found] = (await Doctor(case, {"embedder.settings"}).run()).findings
    assert found.state == "fail"
    assert "models.embedders_before is 'nobody:m'" in found.found


def test_reports_are_for_machines_too():
    """What is empty is left out."""
    findings = [Finding("a.b", "ok", "well"), Finding("a.c", "warn", "ill", "rest", {"days": 3})]
    content = Report(findings, {"calls": 0}).to_dict()
    assert content["ok"] is True
    assert content["checks"] == [
        {"name": "a.b", "state": "ok", "found": "well"},
        {"name": "a.c", "state": "warn", "found": "ill", "mend": "rest", "facts": {"days": 3}},
    ]


def test_the_data_directory_is_that_of_the_daemon_that_runs(tmp_path):
    """Where none is named and none runs it is the default one."""
    environ = {"HOME": str(tmp_path)}
    assert data_directory(Settings(), environ) == (tmp_path / ".local/share/gralkord", False)
    named = Settings(data_dir=tmp_path / "d")
    assert data_directory(named, environ) == (tmp_path / "d", False)


@pytest.mark.skipif(os.geteuid() != 0, reason="file modes mean nothing to root only")
def test_root_may_look_everywhere(tmp_path):
    """What belongs to another user is no matter for root."""
    os.chown(tmp_path, 12345, 12345)
    assert machine.directory(tmp_path).state == "ok"
