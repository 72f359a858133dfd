"""What embedders do with texts and vectors, whatever makes these."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gralkord.config import ModelOptions, Models
from gralkord.errors import ConfigError, MalformedOutput, ModelOutage, StartError
from gralkord.providers.build import build_embedder, build_embedders
from gralkord.providers.embedders.choice import Embedders, fingerprint_of
from gralkord.providers.embedders.embedder import SourceEmbedder, together
from gralkord.providers.embedders.memo import Memo
from gralkord.providers.embedders.profiles import PROFILES, profile_of
from gralkord.testing.models import NullEmbedder


class Letters:
    """Counts letters; keeps what it was asked."""

    most_texts = 3
    most_characters = 100

    def __init__(self, dimension=4):
        self.dimension = dimension
        self.batches = []
        self.spoil = None

    async def vectors(self, texts, purpose):
        """Return a row for each text."""
        self.batches.append(list(texts))
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for mark in text:
                row[ord(mark) % self.dimension] += 1
        return rows if self.spoil is None else self.spoil(rows)

    async def close(self):
        """Do nothing."""


@pytest.fixture
def source():
    """Where vectors come from."""
    return Letters()


@pytest.fixture
def embedder(source):
    """An embedder of documents and questions with prefixes."""
    return SourceEmbedder(source, "test:letters", PROFILES["e5"])


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("text-embedding-3-small", "plain"),
        ("intfloat/multilingual-e5-large-instruct", "e5-instruct"),
        ("intfloat/e5-small-v2", "e5"),
        ("multilingual-e5-base", "e5"),
        ("Qwen/Qwen3-Embedding-0.6B", "qwen3"),
        ("qwen3-embedding:0.6b", "qwen3"),
        ("BAAI/bge-small-en-v1.5", "bge"),
        ("BAAI/bge-m3", "plain"),
        ("nomic-embed-text:latest", "nomic"),
        ("embeddinggemma", "gemma"),
        ("gemini-embedding-2", "gemma"),
        ("gemini-embedding-001", "task"),
        ("some-model", "plain"),
        ("line5", "plain"),
    ],
)
def test_a_profile_is_found_by_the_models_name(model, name):
    """Models that want prefixes get them without being told."""
    assert profile_of(model, ModelOptions(), "models.embedder").name == name


def test_settings_win_over_the_name():
    """A profile or a prefix that is set holds; only what changes documents changes the space."""
    options = ModelOptions(profile="e5", query_prefix="ask: ")
    profile = profile_of("some-model", options, "models.embedder")
    assert profile.prepare("x", query=True) == "ask: x"
    assert profile.prepare("x", query=False) == "passage: x"
    assert profile.label == "e5"
    other = profile_of("some-model", ModelOptions(document_prefix="doc: "), "models.embedder")
    assert other.label.startswith("prefix-")
    with pytest.raises(ConfigError, match="no profile"):
        profile_of("some-model", ModelOptions(profile="nothing"), "models.embedder")


async def test_texts_are_prepared_sent_once_and_come_back_in_order(embedder, source):
    """Prefixes are put before, equal texts sent once, in batches; each row has length 1."""
    rows = await embedder.embed(["a", "b", "a", " ", "c", "d"])
    assert source.batches == [["passage: a", "passage: b", "passage: c"], ["passage: d"]]
    assert rows.shape == (6, 4)
    assert (rows[0] == rows[2]).all()
    assert not rows[3].any()
    assert np.allclose(np.linalg.norm(rows[[0, 1, 4, 5]], axis=1), 1)
    await embedder.embed(["a"], query=True)
    assert source.batches[2:] == [["query: a"]]


async def test_what_was_embedded_is_remembered(embedder, source):
    """A second call sends only what is new; who changes a row changes no memory."""
    first = await embedder.embed(["a", "b"])
    first[0] = 0
    again = await embedder.embed(["b", "a", "new"])
    assert source.batches[1:] == [["passage: new"]]
    assert again[1].any()


def test_a_memo_forgets_what_was_not_used():
    """It stays within its bytes; what is asked for stays longest."""
    row = np.ones(4, dtype=np.float32)
    memo = Memo(most_bytes=3 * (16 + 2 + 300))
    for text in "abc":
        memo.put(text, row)
    assert memo.get("a") is not None
    memo.put("d", row)
    assert [memo.get(text) is not None for text in "abcd"] == [True, False, True, True]
    assert len(memo) == 3


async def test_the_dimension_is_that_of_the_first_vector(embedder):
    """Before it nothing is claimed; after it the fingerprint names provider, model, transform, length."""
    assert fingerprint_of(embedder) == ""
    with pytest.raises(ModelOutage):
        _ = embedder.dimension
    assert embedder.fits("test:letters:e5:4")
    assert embedder.fits("test:letters:e5:5")
    assert not embedder.fits("test:letters:plain:4")
    assert not embedder.fits("")
    await embedder.embed(["a"])
    assert (embedder.fingerprint, embedder.dimension) == ("test:letters:e5:4", 4)
    assert embedder.fits("test:letters:e5:4")
    assert not embedder.fits("test:letters:e5:5")


async def test_vectors_of_another_length_are_a_fault_of_the_settings(embedder, source):
    """Nothing of the other length is returned or remembered."""
    await embedder.embed(["a"])
    source.dimension = 5
    with pytest.raises(ConfigError, match="5 numbers, not 4") as failure:
        await embedder.embed(["b"])
    assert "gralkord reembed" in (failure.value.hint or "")
    source.dimension = 4
    await embedder.embed(["b"])


async def test_a_length_that_a_model_cannot_make_is_named_as_the_setting_it_is(source):
    """A server that does not heed `dimension` is not taken for another model."""
    embedder = SourceEmbedder(source, "test:letters", PROFILES["plain"], dimension=3)
    with pytest.raises(ConfigError, match="4 numbers, not 3") as failure:
        await embedder.embed(["a"])
    assert "`dimension`" in (failure.value.hint or "")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: rows * np.nan,
        lambda rows: rows * np.inf,
        lambda rows: rows[:-1],
        lambda rows: rows[:, :0],
    ],
)
async def test_vectors_that_are_none_are_refused(embedder, source, spoil):
    """Numbers that are none, too few vectors, vectors without numbers: an error, no memory of it."""
    source.spoil = spoil
    with pytest.raises(MalformedOutput):
        await embedder.embed(["a", "b"])
    source.spoil = None
    assert (await embedder.embed(["a", "b"])).any()


async def test_texts_that_cannot_be_sent_are_mended(embedder, source):
    """Lone surrogates are replaced, very long texts cut, invisible ones not sent."""
    rows = await embedder.embed(["\ud800x", "\x00\n", "y" * 50_000])
    assert [len(text) for batch in source.batches for text in batch] == [11, 20_009]
    assert rows.any(axis=1).tolist() == [True, False, True]


async def test_after_a_failure_no_call_goes_on():
    """The calls beside the one that failed are cancelled."""
    ended = []

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def fail():
        await asyncio.sleep(0)
        raise ModelOutage

    with pytest.raises(ModelOutage):
        await together([wait(), fail(), wait()])
    assert ended == [True, True]


def test_a_group_gets_the_embedder_that_fits():
    """Its own space's, the present one where it has none yet, nobody where none fits."""
    new, old = NullEmbedder(8), NullEmbedder(4)
    both = Embedders(new, (old,))
    assert both.fitting("") is new
    assert both.fitting("null:8") is new
    assert both.fitting("null:4") is old
    assert both.fitting("null:5") is None
    assert Embedders.of(both) is both
    assert Embedders.of(None).fitting("") is None
    assert list(Embedders.of(old)) == [old]


def test_settings_name_embedders():
    """Local by default and by name, none, and those of before."""
    assert build_embedder(Models()).inline
    assert build_embedder(Models(embedder=" local ")).fingerprint.startswith("local:")
    assert build_embedder(Models(embedder="none")) is None
    models = Models(
        embedder="openai:text-embedding-3-small",
        embedders_before=["local", "ollama:nomic-embed-text"],
    )
    found = build_embedders(models, {"OPENAI_API_KEY": "sk-x"})
    assert [each.inline for each in found] == [False, True, False]
    assert found.present.fits("openai:text-embedding-3-small:plain:1536")
    assert found.before[1].fits("ollama:nomic-embed-text:nomic:768")


def test_a_local_server_may_take_its_time():
    """Ollama has 180 seconds unless the settings say otherwise."""

    def seconds(**more):
        models = Models(embedder="ollama:m", **more)
        return build_embedder(models)._source.endpoint.timeout_seconds

    assert seconds() == 180
    assert seconds(timeout_seconds=600) == 600
    assert seconds(options={"ollama:m": {"timeout_seconds": 5}}) == 5


def test_a_key_goes_to_no_other_provider():
    """The key of the embedder's setting is not shown to those of before at other addresses."""
    models = Models(
        embedder="openai-compatible:new@http://a:1",
        embedder_api_key="sk-secret",
        embedders_before=["openai-compatible:old@http://b:2", "openai-compatible:old@http://a:1"],
    )
    found = build_embedders(models, {})
    assert [each._source.endpoint.key for each in found] == ["sk-secret", None, "sk-secret"]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("anthropic:m", "supported are none, local, onnx"),
        ("bogus", "supported are"),
        ("onnx:", "directory is missing"),
        ("fastembed:", "model is missing"),
        ("openai:m", "OPENAI_API_KEY"),
    ],
)
def test_what_cannot_be_is_said_at_the_start(written, words):
    """Each mistake is one clear sentence that names the setting."""
    with pytest.raises(ConfigError, match=words):
        build_embedder(Models(embedder=written))


@pytest.mark.parametrize("kind", ["onnx", "fastembed"])
def test_a_missing_package_is_said_with_the_line_that_installs_it(kind, monkeypatch):
    """The hint can be copied."""
    monkeypatch.setitem(
        __import__("sys").modules, f"{kind}runtime" if kind == "onnx" else kind, None
    )
    with pytest.raises(StartError, match="not installed") as caught:
        build_embedder(Models(embedder=f"{kind}:x"))
    assert caught.value.hint == f"pip install 'gralkord[{kind}]'"


class Session:
    """An ONNX model that looks each token's vector up, as the package would run it."""

    asked = ()

    def __init__(self, path, options, providers):
        assert providers == ["CPUExecutionProvider"]

    def get_inputs(self):
        """Name what it takes."""
        from types import SimpleNamespace

        return [SimpleNamespace(name=name) for name in ("input_ids", "attention_mask")]

    def run(self, wanted, inputs):
        """Return a vector for each token, of its number and 1."""
        assert sorted(inputs) == ["attention_mask", "input_ids"]
        ids = inputs["input_ids"].astype(np.float32)
        return [np.stack([ids, np.ones_like(ids)], axis=2)]


@pytest.fixture
def onnx_model(tmp_path, monkeypatch):
    """A directory with a model, and the package that runs it."""
    from types import SimpleNamespace

    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: number for number, word in enumerate(["[UNK]", "a", "b", "c", "query", ":"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "model.onnx").write_bytes(b"weights")
    runtime = SimpleNamespace(InferenceSession=Session, SessionOptions=SimpleNamespace)
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", runtime)
    return tmp_path


@pytest.mark.parametrize(
    ("pooling", "numbers"),
    [
        (None, [2, 1.5]),
        ("pooling_mode_cls_token", [1, 1]),
        ("pooling_mode_lasttoken", [3, 2]),
        ("pooling_mode_mean_tokens", [2, 1.5]),
    ],
)
async def test_an_onnx_model_is_pooled_as_its_directory_says(onnx_model, pooling, numbers):
    """Padding counts for nothing; rows come back in the order of the texts."""
    if pooling:
        (onnx_model / "1_Pooling").mkdir()
        (onnx_model / "1_Pooling" / "config.json").write_text(f'{{"{pooling}": true}}')
    spec = f"onnx:{onnx_model}"
    embedder = build_embedder(Models(embedder=spec, options={spec: {"profile": "plain"}}))
    rows = await embedder.embed(["a b c", "a b"])
    assert (rows[:, 0] / rows[:, 1]).tolist() == pytest.approx(numbers)
    name = f"onnx:{onnx_model.name}-"
    assert embedder.fingerprint.startswith(name)
    (onnx_model / "model.onnx").write_bytes(b"other weights")
    assert not build_embedder(Models(embedder=spec)).fits(embedder.fingerprint)


def test_a_directory_without_a_model_is_refused_at_the_start(onnx_model):
    """The message names the setting and the directory."""
    (onnx_model / "model.onnx").unlink()
    with pytest.raises(StartError, match=r"models\.embedder: .* holds no model\.onnx"):
        build_embedder(Models(embedder=f"onnx:{onnx_model}"))


async def test_fastembed_is_asked_as_it_wants(monkeypatch):
    """Its model is loaded at the first use; one that it does not have is said."""
    from types import SimpleNamespace

    class TextEmbedding:
        def __init__(self, name):
            if name == "nothing":
                raise ValueError("not supported")

        def embed(self, texts):
            return iter([np.array([len(text), 0.0]) for text in texts])

    package = SimpleNamespace(TextEmbedding=TextEmbedding)
    monkeypatch.setitem(__import__("sys").modules, "fastembed", package)
    embedder = build_embedder(Models(embedder="fastembed:BAAI/bge-small-en-v1.5"))
    assert (await embedder.embed(["a", "bb"])).tolist() == [[1, 0], [1, 0]]
    assert embedder.fingerprint == "fastembed:BAAI/bge-small-en-v1.5:bge:2"
    with pytest.raises(StartError, match="cannot be used: not supported"):
        await build_embedder(Models(embedder="fastembed:nothing")).embed(["a"])
