"""Lenses of the settings with their ontologies: where they are found, and what is refused."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from structlog.testing import capture_logs

from gralkord.cli.app import run
from gralkord.clock import SystemClock
from gralkord.config import DefaultLens, Lens, load_settings
from gralkord.doctor.case import Case
from gralkord.doctor.lenses import look
from gralkord.errors import ConfigError
from gralkord.groups import Group
from gralkord.lenses.load import load_lenses, warn_of_ontologies
from gralkord.lenses.ontology import parse_ontology
from gralkord.lenses.registry import LensRegistry

KINDS = 'entities = "open"\nrelationships = "open"\n[entity.Person]\n'
PLACED = "[default_lens]\nontology = 'kinds.toml'\n[lenses.work]\n[lenses.all]\nscope = 'global'\n"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a configuration beside an ontology; return its path. The process runs elsewhere."""
    monkeypatch.setattr("gralkord.log.configure", lambda **_: None)
    folder = tmp_path / "settings"
    folder.mkdir()
    (folder / "kinds.toml").write_text(KINDS)
    (folder / "bad.toml").write_text('entities = "strict"\n')
    monkeypatch.chdir(tmp_path)

    def write(text):
        path = folder / "gralkord.toml"
        path.write_text(text)
        return path

    return write


def test_an_ontology_is_looked_for_beside_the_settings(written):
    """The default lens has its own, and no other lens has it."""
    lenses = load_lenses(load_settings(written(PLACED), {}))
    assert lenses.lens("default").ontology.labels == ("Person",)
    assert [lenses.lens(name).ontology for name in ("work", "all")] == [None, None]


def test_a_variable_may_name_an_ontology(written):
    """It is found where one of the file is found."""
    environ = {"GRALKORD_LENSES__WORK__ONTOLOGY": "kinds.toml"}
    lenses = load_lenses(load_settings(written(PLACED), environ))
    assert lenses.lens("work").ontology == lenses.lens("default").ontology


def test_all_faults_of_all_ontologies_are_told_with_lens_and_file(written):
    """A file that two lenses name is told of once."""
    file = written(
        "[default_lens]\nontology = 'gone.toml'\n[lenses.a]\nontology = 'bad.toml'\n"
        "[lenses.b]\nontology = 'bad.toml'\n[lenses.c]\nontology = 'nothing'\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_lenses(load_settings(file, {}))
    first, *bad, last = str(caught.value.message).splitlines()
    assert first.startswith("default_lens.ontology: cannot read ")
    assert bad[0].startswith("lenses.a.ontology, lenses.b.ontology: ")
    assert "bad.toml: 2 faults" in bad[0]
    assert last.startswith("lenses.c.ontology: ontology 'nothing': neither a .toml file nor")


def test_warnings_are_logged_once(written):
    """Two lenses that look for the same have one warning."""
    file = written(f"{PLACED}ontology = 'kinds.toml'\n")
    with capture_logs() as logs:
        warn_of_ontologies(load_lenses(load_settings(file, {})))
    [warning] = logs
    assert (warning["lens"], warning["log_level"]) == ("default", "warning")
    assert "entity.Person" in warning["warning"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[lenses.'']\n", "''"),
        ("[lenses.' ']\n", "' '"),
        ("[lenses.'a ']\n", "'a '"),
        ("[lenses.default]\n", "'default' is reserved"),
        ("[lenses.Global]\n", "'Global' is reserved"),
        ("[lenses.a]\n[lenses.a]\n", "'a'"),
        ("[lenses.a]\n[lenses.A]\n", "'a' and 'A' are one name"),
        ('[lenses."caf\\u00e9"]\n[lenses."cafe\\u0301"]\n', "are one name"),
        ("[lenses.a]\nontology = ''\n", "lenses.a.ontology"),
        ("[lenses.a]\nontology = 7\n", "lenses.a.ontology"),
        ("[lenses.a]\nscope = 'all'\n", "lenses.a.scope"),
        ("[lenses.a]\nkinds = 'k.toml'\n", "lenses.a.kinds: no such setting"),
        ("[lenses.a]\nontology = 'bad.toml'\n", "lenses.a.ontology: "),
        ("[default_lens]\nscope = 'global'\n", "default_lens.scope: no such setting"),
    ],
)
def test_a_wrong_lens_is_refused_by_name(written, text, words):
    """The message says which lens is wrong."""
    with pytest.raises(ConfigError, match=re.escape(words)):
        load_lenses(load_settings(written(text), {}))


@pytest.mark.parametrize("command", [["config", "check"], ["lenses", "check", "--config"]])
def test_wrong_ontologies_are_found_before_the_start(written, capsys, command):
    """Commands that check the settings end with 2 and say which lens it is."""
    file = written("[lenses.a]\nontology = 'bad.toml'\n")
    assert run([*command, str(file)]) == 2
    assert "lenses.a.ontology: " in capsys.readouterr().err


def test_a_registry_refuses_names_that_are_taken():
    """Also one that is made without settings; an ontology is some lens's."""
    for name in ("default", "global", " "):
        with pytest.raises(ConfigError, match=repr(name)):
            LensRegistry({name: Lens()})
    kinds = parse_ontology(KINDS, "kinds.toml")
    with pytest.raises(ConfigError, match="'other'"):
        LensRegistry({"work": Lens()}, DefaultLens(), {"other": kinds})


@pytest.mark.parametrize(
    ("group", "named", "lens"),
    [
        (Group("t", "ann", "default"), None, "default"),
        (Group("t", "ann", "work"), None, "work"),
        (Group("t", "ann", "work"), "shared", "work"),
        (Group("t", "ann", "gone"), None, None),
        (Group("t", "ann", "shared"), None, None),
        (Group("t"), "shared", "shared"),
        (Group("t"), "gone", None),
        (Group("t"), "work", None),
        (Group("t"), None, "shared"),
    ],
)
def test_work_in_a_group_is_done_through_one_lens(group, named, lens):
    """The group tells which; where lenses share it, the work itself does, and it must be theirs."""
    lenses = LensRegistry({"work": Lens(), "shared": Lens(scope="global")})
    found = lenses.through(group, named)
    assert (found.name if found else None) == lens


def test_of_several_global_lenses_none_is_guessed():
    """Work of an earlier version does not say which; then it is none."""
    lenses = LensRegistry({"a": Lens(scope="global"), "b": Lens(scope="global")})
    assert lenses.through(Group("t"), None) is None


def test_lenses_are_listed_and_shown(written, capsys):
    """As lines and as JSON."""
    file = str(written(PLACED))
    assert run(["lenses", "list", "--config", file]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "work: operator, store, anything",
        "all: global, store, anything",
    ]
    assert run(["lenses", "show", "default", "--config", file, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["kinds"]["entity_types"][0]["name"]) == ("default", "Person")
    assert run(["lenses", "show", "default", "--config", file]) == 0
    assert "  Person" in capsys.readouterr().out.splitlines()
    assert run(["lenses", "check", "--config", file, "--json"]) == 0
    [warning] = json.loads(capsys.readouterr().out)["warnings"]
    assert warning["lens"] == "default"
    assert run(["lenses", "show", "nobody", "--config", file]) == 5
    assert "'nobody'" in capsys.readouterr().err


def test_an_ontology_is_checked_and_shown_by_itself(written, capsys):
    """As lines and as JSON; faults end with 2."""
    file = str(written("").parent / "kinds.toml")
    assert run(["ontology", "check", file]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("warning: entity.Person")
    assert last == f"ok: {file}: entities 1, relationships 0"
    assert run(["ontology", "show", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entities"] == "open"
    assert run(["ontology", "show", file]) == 0
    assert capsys.readouterr().out == "entities: open\n  Person\nrelationships: open\n"
    assert run(["ontology", "check", "gone.toml", "--json"]) == 2
    assert "gone.toml" in json.loads(capsys.readouterr().out)["error"]["message"]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module that can be imported; return its name."""
    monkeypatch.syspath_prepend(tmp_path)
    names = (f"shop_{number}" for number in itertools.count())

    def write(text):
        name = f"{next(names)}_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


@pytest.mark.parametrize(
    ("text", "reference", "words"),
    [
        ("", "gone_away:run", "gone_away cannot be imported"),
        ("", "{}:run", "has no run"),
        ("run = 7", "{}:run", "is no function"),
        ("def run(request): ...", "{}:run", "cannot be called with a request and a store"),
        ("1 / 0", "{}:run", "cannot be imported: ZeroDivisionError"),
        ("raise SystemExit(3)", "{}:run", "cannot be imported: SystemExit"),
        ("def run(request, store):\n    yield", "{}:run", "has a `yield`"),
        ("async def run(request, store):\n    yield", "{}:run", "has a `yield`"),
        ("class run:\n    def __init__(self, a, b): ...", "{}:run", "is no function"),
    ],
)
def test_a_process_that_cannot_be_is_refused_by_lens_and_name(
    written, module, text, reference, words
):
    """Before anything starts; all lenses at once."""
    named = reference.format(module(text))
    file = written(f"[lenses.a]\ningestion = '{named}'\n[lenses.b]\nontology = 'bad.toml'\n")
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        load_lenses(load_settings(file, {}))
    assert f"lenses.a.ingestion: {named}: " in caught.value.message
    assert "lenses.b.ontology: " in caught.value.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ingestion = 'keep'", "lenses.a.ingestion: must be one of store, generalise, consolidate"),
        ("ingestion = 'a b:c'", "lenses.a.ingestion: must be one of"),
        ("ingestion = 'index'\nscope = 'global'", "lenses.a: ingestion: `index` keeps words"),
        ("timeout_seconds = 0", "lenses.a.timeout_seconds"),
        ("search = { max_results = 0 }", "lenses.a.search.max_results"),
        ("search = { kinds = [] }", "lenses.a.search.kinds"),
        ("search = { kinds = ['words'] }", "lenses.a.search.kinds"),
        ("[agents.'']", "agents"),
        ("[agents.bot]\nsearch_lenses = ['a']", "agents.bot: default_lens must be set, too"),
        ("[agents.bot]\ngeneralise_lens = 'a'", "agents.bot: default_lens must be set, too"),
        (
            "[agents.bot]\ndefault_lens = 'a'\ngeneralise_lens = 'a'",
            "agents.bot: generalise_lens must be another lens than default_lens",
        ),
        ("[agents.bot]\ndefault_lens = 'b'", "agents.bot.default_lens: no lens is named 'b'"),
        (
            "[agents.bot]\ndefault_lens = 'a'\nsearch_lenses = ['global', 'b']",
            "agents.bot.search_lenses: no lens is named 'b'",
        ),
        (
            "[agents.bot]\ndefault_lens = 'a'\ngeneralise_lens = 'b'",
            "agents.bot.generalise_lens: no lens is named 'b'",
        ),
        ("[agents.bot]\nlens = 'a'", "agents.bot.lens: no such setting"),
    ],
)
def test_what_cannot_be_of_lenses_and_agents_is_refused_by_name(written, text, words):
    """When the settings are read."""
    with pytest.raises(ConfigError, match=re.escape(words)):
        load_settings(written(f"[lenses.a]\n{text}\n"), {})


def test_what_is_probably_not_meant_is_told(written, module, capsys):
    """Nothing of it keeps anything from starting."""
    name = module("def run(request, store): ...")
    file = written(
        "[lenses.general]\ningestion = 'generalise'\ntimeout_seconds = 4\n"
        "[lenses.kept]\ningestion = 'index'\nontology = 'kinds.toml'\n"
        f"[lenses.own]\ningestion = '{name}:run'\ntimeout_seconds = 4\n"
        "search = { max_results = 3, kinds = ['fact'] }\n"
        "[agents.bot]\ndefault_lens = 'own'\nsearch_lenses = ['own', 'kept', 'global']\n"
        "[agents.lost]\n"
    )
    assert run(["lenses", "check", "--config", str(file)]) == 0
    *warnings, last = capsys.readouterr().out.splitlines()
    assert [re.sub(r"/.*toml", "FILE", line) for line in warnings] == [
        "warning: general: no agent writes to it: it gets only what turns send to it by its name",
        "warning: general: timeout_seconds: has no effect, for the process is not your own",
        "warning: kept: FILE: entity.Person: has no description, so it will seldom be found",
        "warning: kept: ontology: has no effect, for `index` understands nothing",
        "warning: agent bot: search_lenses: 'own' is searched in any case",
        "warning: agent lost: has no settings",
    ]
    assert last == "ok: default, general, kept, own"
    assert run(["lenses", "list", "--config", str(file)]) == 0
    assert (
        capsys.readouterr().out.splitlines()[-1] == f"own: operator, {name}:run, anything, from bot"
    )
    assert run(["lenses", "show", "own", "--config", str(file), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["search"] == {"max_results": 3, "kinds": ["fact"]}
    assert shown["timeout_seconds"] == 4
    assert (shown["written_by"], shown["searched_by"]) == (["bot"], ["bot"])


@pytest.mark.parametrize(
    ("text", "states", "words"),
    [
        ("[lenses.a]\n", ["ok", "ok"], "2 lenses: default, a"),
        ("[lenses.a]\ningestion = 'generalise'\n", ["ok", "warn"], "a: no agent writes to it"),
        ("[lenses.a]\ningestion = 'gone_away:run'\n", ["fail"], "gone_away cannot be imported"),
    ],
)
async def test_the_doctor_looks_at_lenses(written, text, states, words):
    """What cannot be loaded fails, what is probably not meant is a warning."""
    settings = load_settings(written(text), {})
    case = Case(settings, {}, written("").parent, SystemClock())
    found = [finding async for finding in look(case)]
    assert [each.state for each in found] == states
    assert any(words in each.found for each in found)


PYTHON_LENSES = {"notes": {"ingestion": "index"}, "work": Lens(scope="global")}


def test_lenses_may_be_written_in_python(tmp_path):
    """Mappings and `Lens` objects stand beside the tables of the file."""
    path = tmp_path / "gralkord.toml"
    path.write_text(f'lenses_from = "{__name__}:PYTHON_LENSES"\n[lenses.other]\n')
    settings = load_settings(path, {})
    assert set(settings.lenses) == {"other", "notes", "work"}
    assert settings.lenses["notes"].ingestion == "index"
    assert settings.lenses["work"].scope == "global"


@pytest.mark.parametrize(
    ("reference", "more", "words"),
    [
        ("no.such.module:NAME", "", "cannot be loaded"),
        (f"{__name__}:NOTHING", "", "cannot be loaded"),
        (f"{__name__}:__name__", "", "is no mapping"),
        (f"{__name__}:PYTHON_LENSES", "[lenses.work]", "'work' stands in the settings, too"),
    ],
)
def test_lenses_that_cannot_be_read_from_python_fail_at_start(tmp_path, reference, more, words):
    """The message names the key and what is wrong."""
    path = tmp_path / "gralkord.toml"
    path.write_text(f'lenses_from = "{reference}"\n{more}\n')
    with pytest.raises(ConfigError, match=f"lenses_from: .*{words}"):
        load_settings(path, {})
