from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gralkord.errors import InvalidInput
from gralkord.evaluation import talks
from gralkord.recall.fusion import Weights, fuse

BENCH = Path(__file__).parents[2] / "bench"

TURNS = [
    ("I keep bees on the roof.", "And how is your cello?"),
    ("My cello teacher is called {name}.", "The bees swarmed yesterday."),
    ("We sailed to an island last weekend.", "I have baked bread since March."),
]


def tale(number, speakers, name):
    """Return two people's talk over three sessions and three questions about it."""
    conversation = {"speaker_a": speakers[0], "speaker_b": speakers[1]}
    for session, texts in enumerate(TURNS, 1):
        conversation[f"session_{session}_date_time"] = f"1:56 pm on {session} May, 2023"
        conversation[f"session_{session}"] = [
            {"speaker": who, "dia_id": f"D{session}:{at}", "text": text.format(name=name)}
            for at, (who, text) in enumerate(zip(speakers, texts, strict=True), 1)
        ]
    asked = [
        (f"Where does {speakers[0]} keep bees?", ["D1:1"], 4),
        (f"Who teaches {speakers[0]} the cello?", ["D1:2; D2:1"], 1),
        ("When did the bees swarm in May 2023?", ["D2:2"], 2),
    ]
    qa = [dict(zip(("question", "evidence", "category"), each, strict=True)) for each in asked]
    return {"sample_id": f"tale-{number}", "conversation": conversation, "qa": qa}


@pytest.fixture
def tales(tmp_path):
    path = tmp_path / "tales.json"
    two = [tale(1, ("Ada", "Ben"), "Orsolya"), tale(2, ("Cleo", "Dag"), "Imre")]
    path.write_text(json.dumps(two))
    return path


def test_weights_are_fitted_and_measured(tales):
    """One JSON object: the weights beside those in use, and what both ways of measuring find."""
    command = [sys.executable, str(BENCH / "fit_weights.py"), str(tales), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert list(report) == ["questions", "weights", "in_use", "leave_one_out"]
    assert report["questions"] == 6
    assert report["weights"]["speaker"]["in_use"] == Weights().speaker
    assert all(np.isfinite(pair["fitted"]) for pair in report["weights"].values())
    for found in (report["in_use"], report["leave_one_out"]):
        assert list(found["overall"]["at"]) == ["5", "10", "20", "50"]
        assert list(found["overall"]["tokens"]) == ["500", "1000", "2000"]
        assert found["overall"]["at"]["10"] == 1.0
        assert list(found["by_conversation"]) == ["tale-1", "tale-2"]
        assert list(found["by_category"]) == ["1", "2", "4"]


async def test_what_is_fitted_is_what_recall_adds_up(tales):
    """The parts times the weights in use are the scores of the fusion."""
    weights = Weights()
    for talk in await talks.read_talks([tales]):
        for case in talk.cases:
            (scores,) = fuse([case.arms], [], weights).passages
            shown = np.isfinite(scores)
            mine = case.parts() @ [getattr(weights, part) for part in talks.PARTS]
            assert shown.any()
            assert mine[shown] == pytest.approx(scores[shown], rel=1e-5)


async def test_a_conversation_is_not_left_out_while_it_is_there_twice(tales):
    """The same conversation again would be fitted to and searched."""
    with pytest.raises(InvalidInput, match="tale-1 is given 2 times"):
        await talks.read_talks([tales, tales])
