"""What cannot be is refused before anything is started, sent, asked or written, and by its name."""

from __future__ import annotations

import json
import re

import pytest

from gralkord import Client, errors
from gralkord.config import load_settings
from gralkord.errors import ConfigError, GralkorError, InvalidInput, rebuild_error
from gralkord.lenses.load import load_lenses
from gralkord.providers.build import build_model
from gralkord.testing import SyncInMemoryClient

LENSES = "[lenses.work]\n[lenses.all]\nscope = 'global'\n"

# A configuration, and what is said of it.
SETTINGS = [
    # The graph: a shape, a host, a port.
    ("graph = 'localhost'\n", "graph"),
    ("[graph]\nport = 6380\nusername = 'me'\n", "host is missing"),
    ("[graph]\npassword = 'secret-word'\n", "host is missing"),
    ("[graph]\ntls = true\n", "host is missing"),
    ("[graph]\nhost = ' '\n", "graph.host"),
    ("[graph]\nhost = 'h'\nport = 0\n", "graph.port"),
    ("[graph]\nhost = 'h'\nport = -1\n", "graph.port"),
    ("[graph]\nhost = 'h'\nport = 'many'\n", "graph.port"),
    ("[graph]\nhost = 'h'\ntls = 'perhaps'\n", "graph.tls"),
    ("[graph]\nread_timeout_ms = 0\n", "graph.read_timeout_ms"),
    # Numbers that must be in a range.
    ("[recall]\ndeadline_ms = 0\n", "recall.deadline_ms"),
    ("[recall]\ndeadline_ms = -5\n", "recall.deadline_ms"),
    ("[recall]\ndeadline_ms = 'soon'\n", "recall.deadline_ms"),
    ("[generalise]\nmin_confidence = 1.5\n", "generalise.min_confidence"),
    ("[generalise]\nmin_confidence = 'high'\n", "generalise.min_confidence"),
    ("[default_lens]\ngeneralise_on_flush = 'often'\n", "default_lens.generalise_on_flush"),
    ("[default_lens]\ngeneralise_hours = -1\n", "default_lens.generalise_hours"),
    ("[default_lens]\ngeneralise_hours = 1e-320\n", "default_lens.generalise_hours"),
    ("[default_lens]\nlearn = 'often'\n", "default_lens.learn"),
    # Models are looked at together with the environment, see test_build_model.
    ("[models]\nllm = 7\n", "models.llm"),
    # The registry of lenses: its shape, its names, what each of them is made of.
    ("lenses = 'work'\n", "lenses"),
    ("lenses = ['work']\n", "lenses"),
    ("[lenses]\nwork = 'operator'\n", "lenses.work"),
    ("[lenses.work]\nscope = 'all'\n", "lenses.work.scope"),
    ("[lenses.work]\ningestion = 'shred'\n", "lenses.work.ingestion"),
    ("[lenses.work]\ningestion = 'json:nothing'\n", "lenses.work.ingestion"),
    ("[lenses.work]\ningestion = 'json:decoder'\n", "lenses.work.ingestion"),
    ("[lenses.work]\nontology = 'json:JSONDecoder'\n", "lenses.work.ontology"),
    ("[lenses.default]\n", "'default' is reserved"),
    ("[lenses.global]\n", "'global' is reserved"),
    ("[lenses.a]\n[lenses.A]\n", "'a' and 'A' are one name"),
    # Agents and their lenses.
    ("[agents.bot]\nsearch_lenses = ['nowhere']\n", "default_lens must be set"),
    (f"{LENSES}[agents.bot]\ngeneralise_lens = 'work'\n", "default_lens must be set"),
    (f"{LENSES}[agents.bot]\nsearch_lenses = ['work']\n", "default_lens must be set"),
    (
        f"{LENSES}[agents.bot]\ndefault_lens = 'work'\ngeneralise_lens = 'work'\n",
        "must be another lens",
    ),
    (f"{LENSES}[agents.bot]\ndefault_lens = 'nowhere'\n", "nowhere"),
    (f"{LENSES}[agents.bot]\ndefault_lens = 'work'\nsearch_lenses = 7\n", "search_lenses"),
    ("[agents.' ']\n", "' '"),
    # A key that nobody knows.
    ("interpert = true\n", "interpert: no such setting"),
]

# A call, and the field that is named.
CALLS = [
    ("capture", [" ", "ada", "bot", "Ada", "words"], "session"),
    ("capture", ["s", None, "bot", "Ada", "words"], "operator"),
    ("capture", ["s", "ada", "", "Ada", "words"], "agent"),
    ("capture", ["s", "ada", "bot", "\t", "words"], "user"),
    ("capture", ["s", "ada", "bot", "Ada", ""], "turn"),
    ("flush_and_await", ["s", 0], "timeout"),
    ("flush_and_await", ["s", -1.0], "timeout"),
    ("flush", [" "], "session"),
    ("recall", ["ada", " "], "query"),
    ("recall", [" ", "who?"], "operator"),
    ("recall", ["ada", "who?", {"agent": " "}], "agent"),
    ("recall", ["ada", "who?", {"session": " "}], "session"),
    ("recall", ["ada", "who?", {"max_results": 0}], "max_results"),
    ("recall", ["ada", "who?", {"deadline_ms": 0}], "deadline_ms"),
    ("recall", ["ada", "who?", {"lenses": [7]}], "lenses.0"),
    ("search", ["ada", " "], "query"),
    ("search", ["ada", "who?", [7]], "lenses.0"),
    ("search", ["ada", "who?", {"max_results": 0}], "max_results"),
    ("memory_add", ["ada", "bot", "words", " "], "source_description"),
    ("memory_add", ["ada", "bot", " ", "a note"], "content"),
    ("memory_add", ["ada", " ", "words", "a note"], "agent"),
    ("ingest", ["ada", "words", ""], "source_description"),
    ("recall", ["ada", "who?", {"lenses": 7}], "lenses"),
    ("observe", ["ada", ["words"], {"metadata": 7}], "metadata"),
    ("observe", ["ada", ["words"], {"id": ""}], "id"),
    ("observe", ["ada", 7], "messages"),
    ("add_memory", ["ada", "words", {"tags": 7}], "tags"),
    ("add_memory", ["ada", "words", {"tags": "abc"}], "tags"),
    ("add_memory", ["ada", "words", {"metadata": 7}], "metadata"),
    ("add_memory", ["ada", "words", {"id": " "}], "id"),
    ("update_memory", ["ada", None, {"content": "words"}], "id"),
    ("update_memory", ["ada", "m", {"tags": 7}], "tags"),
    ("ingest", ["ada", 7, "a note"], "content"),
    ("ingest", ["ada", "words", "a note", {"metadata": 7}], "metadata"),
    ("capture", ["s", "ada", "bot", "Ada", "words", {"lenses": 7}], "lenses"),
    ("generalise", [" "], "operator"),
    ("search_generalisations", ["ada", " "], "query"),
    ("search_generalisations", ["ada", "who?", 0], "max_results"),
    ("build_communities", [" "], "operator"),
]


@pytest.mark.parametrize(("text", "words"), SETTINGS)
def test_a_wrong_setting_is_refused_at_the_start(tmp_path, text, words):
    """Loading what a process starts from fails with the name in the message, and shows no secret."""
    file = tmp_path / "gralkord.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        load_lenses(load_settings(file, {}))
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize(
    "lens",
    ["[lenses.'a [lens: b']\n", "[lenses.'\u540d\u524d']\n", "[lenses.'a-b']\n[lenses.a_b]\n"],
)
def test_a_name_that_looks_odd_is_no_other(tmp_path, lens):
    """Neither marks in a name nor a hyphen make it another lens: groups hold the whole name."""
    file = tmp_path / "gralkord.toml"
    file.write_text(lens)
    lenses = load_lenses(load_settings(file, {}))
    names = lenses.names()
    groups = {lenses.group("default", "ann", lenses.lens(name)).id for name in names}
    assert len(groups) == len(names) > 1


@pytest.mark.parametrize("client", ["twin", "real"])
@pytest.mark.parametrize(("method", "words", "field"), CALLS)
def test_a_wrong_call_is_refused_before_it_is_sent(client, method, words, field):
    """The field is named by a client that no daemon answers, and by the twin."""
    more = words[-1] if isinstance(words[-1], dict) else {}
    words = words[:-1] if more else words
    asked = SyncInMemoryClient() if client == "twin" else Client("http://127.0.0.1:9")
    with asked, pytest.raises(InvalidInput) as caught:
        asking(asked, method, words, more)
    assert (caught.value.field or "").startswith(field)


def asking(client, method, words, more):
    """Call a method; where the answer comes bit by bit, ask for the first."""
    found = getattr(client, method)(*words, **more)
    return list(found) if method == "build_communities" else found


def test_every_error_is_plain_data():
    """Whatever is raised goes over the wire as JSON and comes back as itself, without a trace."""
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, GralkorError)
    ]
    assert len(kinds) > 20
    for kind in kinds:
        said = json.loads(json.dumps(kind("what\nwas wrong", field="f", hint="h").to_dict()))
        again = rebuild_error(said)
        assert (type(again), again.message, again.retry) == (kind, "what\nwas wrong", kind.retry)


def test_a_model_is_never_guessed_of_a_provider_that_is_not_chosen():
    """A provider that no role names needs no key, and its key chooses nothing beside a spec."""
    settings = load_settings(None, {"GRALKORD_MODELS__LLM": "none"})
    assert build_model(settings.models, {"OPENAI_API_KEY": "sk-1", "GOOGLE_API_KEY": "k"}) is None
