"""An invented history of two siblings, and questions whose answers changed over time."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Final

import orjson

from gralkord.models import Capture

OPERATOR: Final = "nadia"


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question about the sample.

    Attributes:
        text: The question.
        expected: Ids of the turns that answer it; one of them must be found.
    """

    text: str
    expected: tuple[str, ...]


QUESTIONS: Final = (
    DemoQuestion("Which flat does Nadia live in now?", ("demo:8:4",)),
    DemoQuestion("Where is Owen an apprentice since he quit Northway Logistics?", ("demo:4:6",)),
    DemoQuestion("On which date is Grandma's party now?", ("demo:5:3",)),
    DemoQuestion("Does Nadia eat fish?", ("demo:5:9", "demo:5:10")),
    DemoQuestion("What does Nadia drink since she gave up coffee?", ("demo:7:5", "demo:7:7")),
    DemoQuestion("Why can Nadia not run the half marathon?", ("demo:7:1",)),
    DemoQuestion("Where does the spare key of the shed hang?", ("demo:7:12",)),
    DemoQuestion("Which nuts is Nadia allergic to?", ("demo:1:9",)),
    DemoQuestion("When does Nadia fly to Leeds Bradford?", ("demo:8:8",)),
    DemoQuestion("What did Owen buy when he sold the Volvo?", ("demo:4:8",)),
    DemoQuestion("Who plays the accordion at the party?", ("demo:2:7",)),
    DemoQuestion("What is the kitten from the harbour called?", ("demo:8:6",)),
)


def load_sample() -> list[Capture]:
    """Return the turns of the sample, in the order in which they happened."""
    text = resources.files("gralkord.demo").joinpath("sample.jsonl").read_bytes()
    return [Capture.model_validate(orjson.loads(line)) for line in text.splitlines()]
