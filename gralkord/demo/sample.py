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
        answer: A word of the answer, which the memory found must hold.
        turn_id: The turn that answers it.
    """

    text: str
    answer: str
    turn_id: str


QUESTIONS: Final = (
    DemoQuestion("Which flat does Nadia live in now?", "Nygårdshøyden", "demo:8:4"),
    DemoQuestion("Where did Owen become an apprentice?", "boatyard", "demo:4:6"),
    DemoQuestion("On which date is Grandma's party now?", "22 June", "demo:5:3"),
    DemoQuestion("Does Nadia eat fish?", "fish is fine", "demo:5:10"),
    DemoQuestion("What does Nadia drink since she gave up coffee?", "rooibos", "demo:7:7"),
    DemoQuestion("Why can Nadia not run the half marathon?", "ligament", "demo:7:1"),
    DemoQuestion("Where does the spare key of the shed hang?", "watering can", "demo:7:12"),
    DemoQuestion("Which nuts is Nadia allergic to?", "hazelnuts", "demo:1:9"),
    DemoQuestion("When does Nadia fly to Leeds Bradford?", "21 December", "demo:8:8"),
    DemoQuestion("What did Owen buy when he sold the Volvo?", "cargo bike", "demo:4:8"),
    DemoQuestion("Who plays the accordion at the party?", "Teodor", "demo:2:7"),
    DemoQuestion("What is the kitten from the harbour called?", "Pickle", "demo:8:6"),
)


def load_sample() -> list[Capture]:
    """Return the turns of the sample, in the order in which they happened."""
    text = resources.files("gralkord.demo").joinpath("sample.jsonl").read_bytes()
    return [Capture.model_validate(orjson.loads(line)) for line in text.splitlines()]
