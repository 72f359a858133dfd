"""The parts of the scripted model that need no server: models, smallest answers, recordings."""

from __future__ import annotations

import json
from datetime import date, datetime
from enum import Enum
from typing import Literal
from uuid import UUID

import numpy as np
import pytest
from pydantic import BaseModel, Field, ValidationError

from gralkord.errors import ConfigError, ModelOutage
from gralkord.providers.base import ChatMessage
from gralkord.testing.faults import Fault, FaultPlan, Faults
from gralkord.testing.models import NullEmbedder, ScriptedModel, ScriptExhausted
from gralkord.testing.replay import Replay
from gralkord.testing.smallest import smallest

ASK = [ChatMessage("user", "?")]


class Said(BaseModel):
    text: str


async def test_a_script_is_played_in_order():
    """Queued answers are returned one by one, and queued exceptions raised."""
    model = ScriptedModel([{"text": "one"}, ModelOutage()])
    model.queue({"text": "two"})
    assert await model.complete(ASK, Said) == {"text": "one"}
    with pytest.raises(ModelOutage):
        await model.complete(ASK, Said)
    assert model.left == 1
    assert await model.complete(ASK, Said) == {"text": "two"}


async def test_an_empty_script_raises():
    """A call that the test did not expect fails it and names the stage."""
    with pytest.raises(ScriptExhausted, match=r"call 1 \(distil\)"):
        await ScriptedModel().complete(ASK, Said, stage="distil")


async def test_calls_are_kept():
    """What the model was asked can be looked at afterwards."""
    model = ScriptedModel([{"text": "one"}])
    await model.complete(ASK, Said, small=True, max_tokens=5, stage="distil")
    (call,) = model.calls
    assert (call.messages, call.schema) == (tuple(ASK), Said)
    assert (call.small, call.max_tokens, call.stage) == (True, 5, "distil")


async def test_a_script_that_does_not_fit_is_the_tests_fault():
    """A queued answer is held to the schema."""
    with pytest.raises(ValidationError):
        await ScriptedModel([{"words": 1}]).complete(ASK, Said)


async def test_the_null_embedder_sees_no_likeness():
    """All rows are zero, of the asked-for width."""
    rows = await NullEmbedder(8).embed(["a", "b"])
    assert rows.shape == (2, 8)
    assert rows.dtype == np.float32
    assert not rows.any()


class Colour(Enum):
    RED = "red"


class Inner(BaseModel):
    at: datetime
    day: date
    key: UUID
    colour: Colour
    kind: Literal["only"]


class Everything(BaseModel):
    inner: Inner
    many: list[Inner] = Field(min_length=2)
    maybe: int | None
    count: int = Field(gt=3, le=10)
    tenth: float = Field(ge=0.25)
    below: int = Field(lt=0)
    name: str = Field(min_length=3)
    flag: bool
    pair: tuple[int, str]
    mapping: dict[str, int]
    either: int | str
    absent: str = "default"


def test_the_smallest_instance_is_valid():
    """The smallest instance of a schema passes its own model, and holds required fields only."""
    value = smallest(Everything.model_json_schema())
    Everything.model_validate_json(json.dumps(value))
    assert "absent" not in value
    assert value["maybe"] is None
    assert value["mapping"] == {}


class Endless(BaseModel):
    inner: Endless


def test_a_schema_without_end_is_refused():
    """A schema that only an infinite object fits is an error, not a hang."""
    with pytest.raises(ValueError, match="no finite instance"):
        smallest(Endless.model_json_schema())


def test_fault_plans_repeat():
    """The same seed gives the same faults at about the rate asked for; another seed others."""
    plan = FaultPlan(rate=0.3, kinds=("rate_limited", "cut_off"), seed=7)

    def drawn(plan):
        faults = Faults(plan)
        return [faults.draw() for _ in range(400)]

    first = drawn(plan)
    assert first == drawn(plan)
    assert first != drawn(plan.model_copy(update={"seed": 8}))
    assert 80 < sum(fault is not None for fault in first) < 160
    assert set(first) == {None, Fault.RATE_LIMITED, Fault.CUT_OFF}


def test_listed_faults_come_first():
    """Faults listed for the next requests are shown in order, then the rate decides."""
    faults = Faults(FaultPlan(next=("dropped", None, "empty")))
    assert [faults.draw() for _ in range(4)] == [Fault.DROPPED, None, Fault.EMPTY, None]


@pytest.mark.parametrize("wrong", [{"rate": 0.5}, {"kinds": ["fire"]}, {"rate": 2}, {"speed": 1}])
def test_fault_plans_are_checked(wrong):
    """A plan that cannot be carried out is refused."""
    with pytest.raises(ValidationError):
        FaultPlan.model_validate(wrong)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("not json", "Invalid JSON"),
        ("[]", "should be an object"),
        ('{"a": [{"subject": "Ann"}]}', "Field required"),
        ('{"a": {"facs": []}}', "facs"),
        ('{"": []}', "a text is empty"),
    ],
)
def test_recordings_are_checked(tmp_path, written, message):
    """A file of recordings that cannot be read says where it is wrong."""
    file = tmp_path / "facts.json"
    file.write_text(written)
    with pytest.raises(ConfigError, match=message) as caught:
        Replay.load(file)
    assert str(file) in str(caught.value)


def test_a_missing_recording_is_named(tmp_path):
    """A file that is not there is named."""
    with pytest.raises(ConfigError, match=r"nowhere\.json"):
        Replay.load(tmp_path / "nowhere.json")
