"""The local embedder: the vectors of wordllama, without its code, its cache and its downloads."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from gralkord.errors import StartError
from gralkord.providers import local
from gralkord.providers.local import LocalEmbedder

TEXTS = ["Caroline moved to Berlin.", "What did Caroline research?", "日本語のテキスト", "😀 ok"]


@pytest.fixture(scope="module")
def embedder():
    return LocalEmbedder()


async def test_rows_are_unit_float32(embedder):
    """Each text becomes a float32 row of length one, in the order asked for."""
    rows = await embedder.embed(TEXTS)
    assert rows.dtype == np.float32
    assert rows.shape == (len(TEXTS), embedder.dimension)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-5)
    for index, text in enumerate(TEXTS):
        assert (await embedder.embed([text]))[0] == pytest.approx(rows[index], abs=1e-6)


async def test_the_space_has_a_name(embedder):
    """The fingerprint names package, weights and dimension."""
    assert embedder.fingerprint == "local:wordllama:l2_supercat:256"


async def test_alike_texts_are_near(embedder):
    """A question is nearer to its answer than to an unrelated sentence."""
    rows = await embedder.embed(
        ["Where does Ann live?", "Ann lives in Berlin.", "The soup needs salt."]
    )
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2


async def test_blank_texts_are_zero(embedder):
    """A text without a visible character is a zero row, never NaN."""
    rows = await embedder.embed(["", "   ", "\n\t", "\x00\x01", "a"])
    assert not np.isnan(rows).any()
    assert np.linalg.norm(rows, axis=1) == pytest.approx([0, 0, 0, 0, 1], abs=1e-5)
    assert not (await embedder.embed([""])).any()


async def test_no_texts_are_no_rows(embedder):
    """An empty batch gives an empty matrix of the right width."""
    assert (await embedder.embed([])).shape == (0, 256)


async def test_lone_surrogates_are_read(embedder):
    """A text that is not valid Unicode is embedded all the same."""
    rows = await embedder.embed(["caf\ud800e", "x" * 3000 + "\udfff"])
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-5)


async def test_a_remembered_row_cannot_be_spoiled(embedder):
    """Writing into a returned row does not change what the next caller gets."""
    first = await embedder.embed(["the same query"])
    kept = first.copy()
    first[:] = 0
    assert (await embedder.embed(["the same query"])) == pytest.approx(kept)


async def test_a_long_text_is_one_row(embedder):
    """A text of more tokens than are gathered at once is still the mean of all of them."""
    short = await embedder.embed(["red apples and green pears. " * 10])
    long = await embedder.embed(["red apples and green pears. " * 4000])
    assert short[0] @ long[0] > 0.999


async def test_batches_do_not_block_the_loop(embedder):
    """A large batch leaves the event loop free for others."""
    await embedder.load()
    threads = set()
    model = embedder._model
    original = model.embed_into

    def spy(texts, rows):
        threads.add(threading.current_thread())
        original(texts, rows)

    model.embed_into = spy
    try:
        await embedder.embed(["a sentence of some length"] * 2_000)
    finally:
        del model.embed_into
    assert threading.main_thread() not in threads


async def test_many_callers_load_once(monkeypatch):
    """Callers that come while the weights are being loaded wait for that one load."""
    loads = []
    load = local._Model.load
    monkeypatch.setattr(local._Model, "load", lambda folder: loads.append(1) or load(folder))
    embedder = LocalEmbedder()
    rows = await asyncio.gather(*(embedder.embed([f"text {i}"]) for i in range(8)))
    assert len(loads) == 1
    assert all(row.any() for row in rows)


async def test_missing_files_are_named(tmp_path, monkeypatch):
    """Without the weights the error names the file and the remedy."""
    monkeypatch.setattr(local, "_package_folder", lambda: tmp_path)
    with pytest.raises(StartError, match="l2_supercat_256") as caught:
        await LocalEmbedder().load()
    assert "wordllama" in caught.value.hint


def test_vectors_are_those_of_wordllama(tmp_path):
    """The rows equal wordllama's own, and nothing of it is imported, read from or put in a cache."""
    program = """
import asyncio, logging, pathlib, sys
from gralkord.providers.local import LocalEmbedder
texts = ["Caroline moved to Berlin.", "What did she research?", "日本語", "a " * 500]
mine = asyncio.run(LocalEmbedder().embed(texts))
assert not {"wordllama", "requests", "torch", "toml"} & set(sys.modules)
assert not logging.getLogger().handlers
assert not list(pathlib.Path.home().iterdir())
import wordllama
theirs = wordllama.WordLlama.load(
    cache_dir=pathlib.Path(wordllama.__file__).parent, disable_download=True
).embed(texts, norm=True)
assert abs(mine - theirs).max() < 1e-5
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
