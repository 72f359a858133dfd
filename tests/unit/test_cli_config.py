from __future__ import annotations

import json
import os
import tomllib

import pytest
from structlog.testing import capture_logs

from gralkord.cli.app import run
from gralkord.config import Settings


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    """No setting in the environment, and no change of how this process logs."""
    monkeypatch.setattr("gralkord.log.configure", lambda **_: None)
    for name in os.environ:
        if name.startswith(
            ("GRALKORD_", "OPENAI_", "GOOGLE_", "GEMINI_", "ANTHROPIC_", "OLLAMA_", "GRALKOR_")
        ):
            monkeypatch.delenv(name)


@pytest.fixture
def written(tmp_path):
    """Write a configuration file; return its path as text."""

    def write(text):
        path = tmp_path / "gralkord.toml"
        path.write_text(text)
        return str(path)

    return write


def test_a_good_file_is_ok(written, capsys):
    """The summary says where queue and graph are, without passwords."""
    file = written(
        '[queue]\nhost = "redis.example"\npassword = "hunter2"\ntls = true\n'
        '[models]\nllm = "openai-compatible:m@http://127.0.0.1:1/v1"\n'
    )

    assert run(["config", "check", file]) == 0
    out = capsys.readouterr().out
    assert "redis.example:6379 with TLS" in out
    assert "embedded" in out
    assert "hunter2" not in out


def test_a_good_file_is_json_if_asked(written, capsys):
    """With --json the summary is an object."""
    assert run(["config", "check", written(""), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["ok"], summary["graph"]) == (True, "embedded")
    assert summary["models"] == {
        "llm": "none",
        "llm_small": "none",
        "embedder": "local",
        "reranker": "none",
        "vision": "none",
    }


def test_every_role_is_told(written, capsys, monkeypatch):
    """The summary names the spec of each role, and no key."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hunter2")
    file = written('[models]\nllm = "openai:gpt-5"\nembedder = "ollama:nomic-embed-text"\n')
    assert run(["config", "check", file, "--json"]) == 0
    out = capsys.readouterr().out
    models = json.loads(out)["models"]
    assert (models["llm"], models["llm_small"]) == ("openai:gpt-5", "openai:gpt-5")
    assert models["embedder"] == "ollama:nomic-embed-text"
    assert "hunter2" not in out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[quue]\n", "quue: no such setting"),
        ("[rpc]\nport = 70000\n", "rpc.port"),
        ("[rpc]\nhost = '0.0.0.0'\n", "127.0.0.1"),
        ("[queue]\ntls = true\n", "host is missing"),
        ("[queue]\nhost = ''\n", "queue.host"),
        ("[recall]\ndeadline_ms = 0\n", "recall.deadline_ms"),
        ("[recall]\ndeadline_ms = 600001\n", "recall.deadline_ms"),
        ("[capture]\nidle_seconds = 1e300\n", "capture.idle_seconds"),
        ("[capture]\nidle_seconds = inf\n", "capture.idle_seconds"),
        (f"[capture]\nflush_turns = {10**30}\n", "capture.flush_turns"),
        (f"[capture]\nflush_bytes = {10**30}\n", "capture.flush_bytes"),
        (f"[queue]\nmax_memory_mb = {10**11}\n", "queue.max_memory_mb"),
        (f"[queue]\nintake_limit = {10**30}\n", "queue.intake_limit"),
        (f"[queue]\nbacklog_limit = {10**30}\n", "queue.backlog_limit"),
        ("[queue]\nproducer_user = 'a b'\n", "producer_user must be a name without blanks"),
        ("[queue]\nproducer_user = ''\n", "producer_user must be a name without blanks"),
        ("[queue]\nproducer_user = 'default'\n", "the user that the daemon itself logs in as"),
        (
            "[queue]\nhost = 'q'\nusername = 'g'\nproducer_user = 'g'\n",
            "the user that the daemon itself logs in as",
        ),
        ("[models]\ntimeout_seconds = inf\n", "models.timeout_seconds"),
        ("[models]\nllm = 'nobody:model'\n", "nobody:model"),
        ("[models]\nllm = 'openai:gpt'\n", "OPENAI_API_KEY"),
        ("[models]\nembedder = 'anthropic:e'\n", "models.embedder is 'anthropic:e'"),
        ("[models]\nembedder = 'google:e'\n", "GOOGLE_API_KEY"),
        ("[models]\nembedder = 'fastembed:'\n", "models.embedder is 'fastembed:'"),
        ("[models]\nembedders_before = ['openai:e']\n", "models.embedders_before is 'openai:e'"),
        ("[models]\nvision_api_key_file = '/nowhere'\n", "models.vision_api_key_file: /nowhere"),
        ("[models.options.'a:b']\nconcurrency = 0\n", 'models.options."a:b".concurrency'),
        ("[models.options.'a:b'.price]\noutput = 1\n", 'models.options."a:b".price.input'),
        ("[models.options.'a:b']\nfields = { a = [inf] }\n", 'options."a:b".fields: must be JSON'),
        ("[models.options.a]\nfields = { a = 2026-01-01 }\n", "options.a.fields: must be JSON"),
        ("[models.options.a]\nrename = { b = ' ' }\n", "models.options.a.rename.b"),
        ("[models.options.a]\ndrop = ['']\n", "models.options.a.drop.0"),
        ("[models.options]\na = 5\n", "models.options.a: must be a table"),
        ("[budget]\noperators = 5\n", "budget.operators: must be a table"),
        ("[models.options.a.price]\noutput = 1\n", "models.options.a.price.input: must be set"),
        ("[models]\nconcurrency = true\n", "models.concurrency: must not be true or false"),
        ("[budget.tenant]\nusd = true\n", "budget.tenant.usd: must not be true or false"),
        (
            "[budget.tenant]\nusd = 1\n[models]\nllm = 'openai-compatible:m@http://gw.example'\n",
            'models.options."openai-compatible:m@http://gw.example".price',
        ),
        ("[graph]\nhost = 'g'\npassword_file = '/nowhere'\n", "graph.password_file: /nowhere"),
        ("data_dir = ''\n", "data_dir: must not be blank"),
        ("[lenses.'']\n", "lenses: the name '': must not be blank"),
        ('[lenses."a\\u009b"]\n', "lenses: the name 'a\\x9b': control character U+009B"),
        ("not toml", "is not TOML"),
    ],
)
def test_a_bad_file_is_one_clear_sentence(written, capsys, text, words):
    """The message names the setting, on one line, with exit code 2."""
    assert run(["config", "check", written(text)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("GRALKORD_MODEL__LLM", "model (GRALKORD_MODEL__LLM): no such setting"),
        ("GRALKORD_MODELS__CONCURRENCY", "models.concurrency (GRALKORD_MODELS__CONCURRENCY): "),
        ("GRALKORD_MODELS", "models (GRALKORD_MODELS): "),
    ],
)
def test_a_bad_variable_is_named(written, capsys, monkeypatch, variable, words):
    """What stands in the environment is not to be looked for in the file."""
    monkeypatch.setenv(variable, "x")
    assert run(["config", "check", written("[models]\ntimeout_seconds = 5\n")]) == 2
    assert words in capsys.readouterr().err


def test_credentials_of_the_service_manager_count(written, capsys, monkeypatch, tmp_path):
    """The key of a role that only systemd hands over is there, as it is for the daemon."""
    (tmp_path / "gralkord_llm-api-key").write_text("k")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    file = written('[models]\nllm = "openai:m"\n')
    assert run(["config", "check", file]) == 0
    assert run(["config", "show", file]) == 0
    assert f'api_key_file = "{tmp_path}/gralkord_llm-api-key"' in capsys.readouterr().out


def test_options_of_no_model_are_told(written, capsys):
    """A spec that is written otherwise would leave a model without its limits."""
    file = written(
        '[models]\nllm = "ollama:m"\nembedders_before = ["ollama:e@http://h"]\n'
        '[models.options."ollama:m:8b"]\n[models.options."ollama:e"]\n[models.options.local]\n'
    )
    with capture_logs() as logs:
        assert run(["config", "check", file]) == 0
    assert [(each["event"], each["spec"]) for each in logs] == [
        ("model_options_of_no_role", "ollama:m:8b")
    ]


def test_a_missing_file_is_said_to_be(tmp_path, capsys):
    """A file that is not there is named, as JSON if asked."""
    assert run(["config", "check", str(tmp_path / "none.toml"), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "config_error"
    assert "none.toml" in error["message"]


def test_the_settings_in_force_are_shown_as_toml(written, capsys, monkeypatch):
    """What is shown is a file again: it has all settings in force and no secret."""
    file = written(
        '[graph]\nhost = "g"\npassword = "hunter2"\n[lenses."the work/\\u202e"]\nscope = "global"\n'
        '[rpc]\nallowed_origins = ["https://a.example"]\n'
    )
    monkeypatch.setenv("GRALKORD_CAPTURE__FLUSH_TURNS", "7")

    assert run(["config", "show", file]) == 0
    out = capsys.readouterr().out
    assert "hunter2" not in out
    assert "\u202e" not in out
    again = Settings.model_validate(tomllib.loads(out))
    assert again.capture.flush_turns == 7
    assert again.rpc.allowed_origins == ["https://a.example"]
    assert list(again.lenses) == ["the work/\u202e"]


def test_settings_of_single_models_are_shown_as_toml(written, capsys):
    """Tables by spec, tables in tables, and fields of requests can be read again."""
    file = written(
        '[models.options."openai:gpt-5@https://gw.example/v1"]\nconcurrency = 2\n'
        'rename = { max_tokens = "most" }\nfields = { a = [{ b = "c" }], d = { e = 1 } }\n'
        "price = { input = 1.25, output = 10, since = 2026-01-01 }\n"
        '[budget.operators."ann/1"]\nusd = 0.5\n'
    )
    assert run(["config", "show", file]) == 0
    again = Settings.model_validate(tomllib.loads(capsys.readouterr().out))
    options = again.models.options["openai:gpt-5@https://gw.example/v1"]
    assert options.fields == {"a": [{"b": "c"}], "d": {"e": 1}}
    assert options.rename == {"max_tokens": "most"}
    assert (options.price.output, options.price.since.year) == (10, 2026)
    assert again.budget.operators["ann/1"].usd == 0.5


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_passwords_in_addresses_are_not_shown(written, capsys, as_json):
    """No model can be at such an address, but somebody may have written one."""
    spec = "openai-compatible:m@http://user:hunter2@h/v1"
    keyed = "google:m@http://h/v1?key=hunter2"
    file = written(
        f'[models]\nllm = "{spec}"\nembedder = "{keyed}"\nembedders_before = ["{keyed}"]\n'
        f'[models.options."{spec}"]\nconcurrency = 2\n'
    )
    assert run(["config", "show", file, *as_json]) == 0
    out = capsys.readouterr().out
    assert "hunter2" not in out
    assert out.count("openai-compatible:m@http://h/v1") == 2


def test_fields_hold_any_characters(written, capsys):
    """What is shown can be read again whatever stands in it."""
    file = written('[models.options.a]\nfields = { "b \\u007f" = "\\u0085\\u202e\\U000e0001" }\n')
    assert run(["config", "show", file]) == 0
    again = Settings.model_validate(tomllib.loads(capsys.readouterr().out))
    assert again.models.options["a"].fields == {"b \x7f": "\x85\u202e\U000e0001"}


def test_the_settings_are_json_if_asked(written, capsys):
    """With --json the same is one object, secrets hidden too."""
    assert (
        run(["config", "show", written('[graph]\nhost="g"\npassword="hunter2"\n'), "--json"]) == 0
    )
    out = capsys.readouterr().out
    assert "hunter2" not in out
    assert json.loads(out)["graph"]["host"] == "g"
