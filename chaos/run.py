"""Be violent to a real gralkord under load; heal it, read what is there, and judge.

Exit codes: 0 every check holds, 1 one does not, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chaos.audit import Audit, Check, takeovers, until_drained
from chaos.processes import Shape, Stage
from chaos.producers import Producers
from chaos.report import Report, errors, events
from chaos.violence import KINDS, Violence, plan

# How long producers may need after the violence to send what was held up.
CATCH_UP_SECONDS: Final = 120.0
LAST_FLUSH_SECONDS: Final = 20.0
RECEIPTS: Final = 200
RECALLS: Final = 50
START_SECONDS: Final = 60.0

_NUMBERS: Final[dict[str, tuple[type[int | float], float, str]]] = {
    "seed": (int, 1, "the same seed does the same deeds at the same moments"),
    "minutes": (float, 5, "how long turns are sent and violence lasts"),
    "turns": (int, 10_000, "turns of all sessions together"),
    "operators": (int, 40, "operators, each with a graph of its own"),
    "sessions": (int, 200, "sessions of all operators together"),
    "workers": (int, 4, "worker processes"),
    "daemons": (int, 2, "daemons; one of them routes"),
    "every": (float, 3, "seconds from one deed to the next, on average"),
    "drain": (float, 600, "seconds to wait afterwards until nothing is under way"),
    "flush-turns": (int, 20, "turns of a session that become an episode"),
    "latency-ms": (int, 200, "how long the model takes for each answer"),
    "fault-rate": (float, 0.05, "share of the model's answers that are faults"),
}


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    seed: int
    minutes: float
    turns: int
    operators: int
    sessions: int
    workers: int
    daemons: int
    every: float
    drain: float
    flush_turns: int
    latency_ms: int
    fault_rate: float
    json: bool
    keep: bool


def main() -> None:
    """Run it as a program."""
    sys.exit(asyncio.run(_main(_options())))


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    for name, (kind, default, text) in _NUMBERS.items():
        told = f"{text}; default {default:g}"
        parser.add_argument(f"--{name}", type=kind, default=kind(default), help=told)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--keep", action="store_true", help="keep the directory with all logs")
    return Options(**vars(parser.parse_args()))


async def _main(options: Options) -> int:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):  # so that nothing is left behind
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    home = Path(tempfile.mkdtemp(prefix="gk-chaos-"))
    shape = Shape(
        seed=options.seed,
        workers=options.workers,
        daemons=options.daemons,
        flush_turns=options.flush_turns,
        latency_ms=options.latency_ms,
        fault_rate=options.fault_rate,
    )
    run = Run(options, Stage(home, shape))
    try:
        report = await run.run()
    except TimeoutError:
        run.tell(f"not ready within {START_SECONDS:g} s")
        for log in run.stage.logs():
            run.tell(f"{log.name}: {log.read_text(errors='replace')[-600:]}")
        return 1
    finally:
        await run.stage.stop()
        if options.keep:
            run.tell(f"kept: {home}")
        else:
            shutil.rmtree(home, ignore_errors=True)
    print(json.dumps(report.to_dict()) if options.json else report, flush=True)
    return 0 if report.good else 1


class Run:
    """One run from the first process to the last check."""

    def __init__(self, options: Options, stage: Stage) -> None:
        self.stage = stage
        self._options = options
        self._began = time.monotonic()
        self._spent: dict[str, float] = {}

    def tell(self, text: str) -> None:
        """Tell the person at the terminal what is being done."""
        print(f"{time.monotonic() - self._began:6.1f} {text}", file=sys.stderr, flush=True)

    async def run(self) -> Report:
        """Do everything; return what was found."""
        options, seconds = self._options, self._options.minutes * 60
        await self.stage.start()
        producers = Producers(self.stage, options.seed, options.operators, options.sessions)
        violence = Violence(self.stage, plan(self.stage.shape, seconds, options.every), self.tell)
        hit = Check("every kind of violence has hit")
        try:
            async with asyncio.timeout(START_SECONDS):
                await producers.until_ready()
            self._note("started")
            checks = [hit, await self._live(producers, violence, seconds)]
            checks += await self._settle(producers)
            audit = Audit(self.stage, producers.sessions)
            checks += [*self._processes(), *await audit.run()]
        finally:
            await producers.close()
        for kind in KINDS:
            hit.expect(violence.done[kind], kind)
        number, worst = await takeovers(self.stage)
        return Report(
            checks=checks,
            acknowledged=producers.acknowledged,
            written=audit.written,
            takeovers=number,
            worst_takeover=worst,
            figures=self._figures(producers, violence),
        )

    async def _live(self, producers: Producers, violence: Violence, seconds: float) -> Check:
        """Let sessions talk while violence is done; then let them finish in peace."""
        check = Check("every turn was acknowledged, every awaited flush answered")
        talk = asyncio.create_task(producers.run(self._options.turns, seconds))
        harm = asyncio.create_task(violence.run())
        progress = asyncio.create_task(self._progress(producers))
        try:
            await harm
            self.tell("healed")
            with suppress(TimeoutError):  # what is missing is told below
                await asyncio.wait_for(asyncio.shield(talk), CATCH_UP_SECONDS)
        finally:
            for task in (talk, harm, progress):
                task.cancel()
            await asyncio.gather(talk, harm, progress, return_exceptions=True)
        missing = self._options.turns - producers.acknowledged
        check.looked_at = self._options.turns + producers.heard.awaited
        check.faults += [f"{missing} turns were not acknowledged"] * bool(missing)
        self._note("lived")
        return check

    async def _settle(self, producers: Producers) -> list[Check]:
        """Flush all sessions and wait until nothing is under way."""
        drained = Check("everything is done in time")
        with suppress(TimeoutError):  # what is stuck is told below
            async with asyncio.timeout(self._options.drain):
                await producers.flush_all()
        left = await until_drained(self.stage, self._options.drain, self.tell)
        drained.looked_at = 1
        drained.faults += [f"{what}: {number}" for what, number in left.items()]
        self._note("drained")
        flushed = Check("every session's last flush is answered: understood", "lost")
        flushed.looked_at = len(producers.sessions)
        flushed.faults += await producers.flush_all(wait=0.1 if left else LAST_FLUSH_SECONDS)
        self._note("flushed")
        receipts = Check("receipts answer: understood", "lost")
        async for told, right in producers.receipts(RECEIPTS):
            receipts.expect(right, told)
        recalled = Check("what was stated is recalled", "lost")
        async for told, right in producers.recalls(RECALLS):
            recalled.expect(right, told)
        self._note("asked")
        return [drained, flushed, receipts, recalled]

    def _processes(self) -> list[Check]:
        """Look at how the processes have fared."""
        alive = Check("no process has given up by itself")
        for process in self.stage.processes:
            last = process.log.read_text(errors="replace").strip().rpartition("\n")[2]
            alive.expect(not process.ended, f"{process.name}: {process.ended} {last[:300]}")
        calm = Check("no process has logged an error")
        logs = self.stage.logs()
        calm.looked_at = len(logs)
        calm.faults += errors(logs)
        return [alive, calm]

    async def _progress(self, producers: Producers) -> None:
        while True:
            await asyncio.sleep(10)
            self.tell(f"acknowledged {producers.acknowledged}")

    def _note(self, what: str) -> None:
        now = time.monotonic() - self._began
        self._spent[what] = round(now - sum(self._spent.values()), 1)
        self.tell(what)

    def _figures(self, producers: Producers, violence: Violence) -> dict[str, dict[str, Any]]:
        heard = producers.heard
        return {
            "done": dict(sorted(violence.done.items())),
            "found nobody": dict(sorted(violence.missed.items())),
            "starts": {each.name: each.starts for each in self.stage.processes},
            "producers were told": dict(heard.failures.most_common()),
            "resent": {"turns": heard.resent},
            "flushes": {
                "asked for": heard.flushes,
                "awaited": heard.awaited,
                "complete": heard.complete,
                "slowest": round(max(heard.late, default=0.0), 1),
                **heard.reasons,
            },
            "logged": dict(sorted(events(self.stage.logs()).items())),
            "seconds": self._spent,
        }
