"""How long the import of one conversation takes, from the command line, until it is recallable."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon import running
from figures import Figure, main
from words import Dialogue

if TYPE_CHECKING:
    import argparse


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Import a made-up conversation, then again."""
    with tempfile.TemporaryDirectory() as folder:
        file = _write(Path(folder, "conversation.json"), options.turns)
        async with running() as (stack, _):
            first, first_seconds = await _import(file, stack.data_dir)
            again, again_seconds = await _import(file, stack.data_dir)
    if first["added"] != options.turns or again["duplicates"] != options.turns:
        raise RuntimeError(f"not imported as it should be: {first}, {again}")
    return [
        Figure(f"import of {options.turns} turns, command", first_seconds, "s", 5.0),
        Figure(f"import of {options.turns} turns, work in it", first["seconds"], "s"),
        Figure("the same again, adding nothing, command", again_seconds, "s"),
    ]


async def _import(file: Path, data_dir: Path) -> tuple[dict[str, Any], float]:
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "gralkord.cli.app", "import", "--format", "locomo"),
        *(str(file), "--operator", "import bench", "--data-dir", str(data_dir), "--json"),
        stdout=asyncio.subprocess.PIPE,
        env={name: os.environ[name] for name in os.environ if not name.startswith("GRALKORD_")},
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"gralkord import ended with exit code {process.returncode}")
    return json.loads(output), time.perf_counter() - began


def _write(file: Path, turns: int) -> Path:
    file.write_text(json.dumps(_conversation(turns)))
    return file


def _conversation(turns: int) -> dict[str, Any]:
    conversation: dict[str, Any] = {"speaker_a": "Ada", "speaker_b": "Ben"}
    for number, capture in enumerate(Dialogue().captures(turns, "x")):
        session, place = divmod(number, 25)
        name = f"session_{session + 1}"
        conversation[f"{name}_date_time"] = f"9:{session % 60:02} am on 8 May, 2023"
        message = capture.turn[0]
        conversation.setdefault(name, []).append(
            {
                "speaker": message.speaker,
                "dia_id": f"D{session + 1}:{place + 1}",
                "text": message.content,
            }
        )
    return {"sample_id": "bench-1", "conversation": conversation, "qa": []}


if __name__ == "__main__":
    main(__doc__ or "", measure, turns=600)
