"""What becomes of malformed outputs: repaired, or a typed error; never "no facts".

    python bench/malformed.py [--outputs 10000]

A scripted server writes only outputs that are spoilt in one of many ways, in the formats of four
providers, and the real client asks it for entities and facts over HTTP. A call ends well only with
exactly the right answer; everything else must be a typed error that keeps the text.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from figures import Figure, main, note
from pydantic import BaseModel, Field

from gralkord.config import Models
from gralkord.errors import MalformedOutput
from gralkord.providers.base import ChatMessage, LanguageModel
from gralkord.providers.build import build_model
from gralkord.testing.faults import MALFORMED, FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

PROVIDERS = ("openai-compatible", "anthropic", "google", "ollama")
SAID = "Ann: I work at Acme in Berlin. I adopted a dog.\nBob: I live in Rome."
PROMPT = (
    f"<CURRENT_MESSAGE>\n{SAID}\n</CURRENT_MESSAGE>\n"
    '<ENTITIES>\n[{"name": "Ann"}, {"name": "Bob"}, {"name": "Acme"}, {"name": "Berlin"}, '
    '{"name": "Rome"}]\n</ENTITIES>\n'
    "<REFERENCE_TIME>\n2026-05-01T12:00:00Z\n</REFERENCE_TIME>\n"
)
AT_ONCE = 8
BATCH = 2_000


class ExtractedEntity(BaseModel):
    """As Graphiti has it."""

    name: str
    entity_type_id: int
    episode_indices: list[int] = Field(default_factory=lambda: [0])


class ExtractedEntities(BaseModel):
    """As Graphiti has it."""

    extracted_entities: list[ExtractedEntity]


class Edge(BaseModel):
    """As Graphiti has it."""

    source_entity_name: str
    target_entity_name: str
    relation_type: str
    fact: str
    valid_at: str | None = None
    invalid_at: str | None = None


class ExtractedEdges(BaseModel):
    """As Graphiti has it."""

    edges: list[Edge]


SCHEMAS = (ExtractedEntities, ExtractedEdges)


@dataclass(frozen=True, slots=True)
class Fates:
    """What became of malformed outputs.

    Attributes:
        outputs: How many there were.
        kinds: Of how many kinds.
        fates: Number of calls by ``KIND: END``, the kind of the first output that a call was
            written, and how it ended.
    """

    outputs: int
    kinds: int
    fates: Mapping[str, int]

    def ended(self, end: str) -> int:
        """Return how many calls ended so."""
        return sum(number for name, number in self.fates.items() if name.endswith(f": {end}"))


async def run(outputs: int, seed: int = 1) -> Fates:
    """Ask until *outputs* were written; return what became of them."""
    written: Counter[str] = Counter()
    fates: Counter[str] = Counter()
    numbers = count()
    with ScriptedModelServer() as server:
        specs = [server.spec_of(provider) for provider in PROVIDERS]
        models = [build_model(Models(llm=spec, api_key="k"), {}) for spec in specs]
        right = {schema: await models[0].complete(asked(-1), schema) for schema in SCHEMAS}
        assert all(len(next(iter(answer.values()))) >= 3 for answer in right.values())
        while (so_far := sum(written.values())) < outputs:
            server.forget()
            server.set_faults(FaultPlan(rate=1, kinds=sorted(MALFORMED), seed=seed + so_far))
            ends: dict[int, str] = {}

            async def work(batch: int, ends: dict[int, str]) -> None:
                while len(server.requests) < batch:
                    number = next(numbers)
                    schema = SCHEMAS[number % 2]
                    model = models[number // 2 % len(models)]
                    ends[number] = await fate(model, number, schema, right[schema])

            batch = min(BATCH, outputs - so_far)
            await asyncio.gather(*(work(batch, ends) for _ in range(AT_ONCE)))
            tally(server, ends, written, fates)
        for model in models:
            await model.close()
    return Fates(sum(written.values()), len(written), dict(sorted(fates.items())))


def tally(
    server: ScriptedModelServer,
    ends: dict[int, str],
    written: Counter[str],
    fates: Counter[str],
) -> None:
    """Enter what the log says was written, and how the calls ended that it was written to."""
    shown: dict[int, list[str]] = {}
    for entry in server.requests:
        fault = entry.fault or "none"
        written[fault] += 1
        number = int(entry.prompt.rpartition("call ")[2].partition(".")[0])
        shown.setdefault(number, []).append(fault)
    for number, end in ends.items():
        well = "repaired" if len(shown[number]) > 1 else "read at once"
        fates[f"{shown[number][0]}: {well if end == 'right' else end}"] += 1


async def fate(
    model: LanguageModel, number: int, schema: type[BaseModel], right: dict[str, Any]
) -> str:
    """Return how a call ended: ``right``, ``wrong`` (or with nothing), or the error's code."""
    try:
        answer = await model.complete(asked(number), schema)
    except MalformedOutput as error:
        return error.code
    return "right" if answer == right else "wrong"


def asked(number: int) -> list[ChatMessage]:
    """Return a prompt that can be told from others in the log."""
    said = f"{PROMPT}\ncall {number}."
    return [ChatMessage("system", "Be exact."), ChatMessage("user", said)]


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Return what became of the outputs."""
    found = await run(options.outputs, options.seed)
    for name, number in found.fates.items():
        note(f"{number:>6}  {name}")
    return [
        Figure("malformed outputs", found.outputs, "", least=options.outputs),
        Figure("kinds of them", found.kinds, "", least=12),
        Figure("calls that were answered right at once", found.ended("read at once"), ""),
        Figure("calls that were repaired", found.ended("repaired"), ""),
        Figure("calls that ended in a typed error", found.ended("malformed_output"), ""),
        Figure("calls that ended in anything else", found.ended("wrong"), "", 0),
    ]


if __name__ == "__main__":
    main((__doc__ or "").partition("\n")[0], measure, outputs=10_000, seed=1)
