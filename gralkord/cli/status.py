"""``gralkord status`` and ``gralkord backfill``: what waits, and queueing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gralkord.cli.options import AsJson, DataDir, Operator, Url, connected

if TYPE_CHECKING:
    from collections.abc import Mapping

_STATUS_EPILOG = """
Examples:

  gralkord status

  gralkord status --json
"""

_BACKFILL_EPILOG = """
Examples:

  gralkord backfill

  gralkord backfill --operator ada --json
"""


def register(app: typer.Typer) -> None:
    """Add the commands ``status`` and ``backfill`` to *app*."""
    app.command(epilog=_STATUS_EPILOG)(status)
    app.command(epilog=_BACKFILL_EPILOG)(backfill)


def status(url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Print what runs where, and how much waits."""
    from gralkord.cli.output import emit, printable, say, tree_lines

    with connected(url, data_dir) as client:
        content = client.status()
        if as_json:
            emit({"url": client.endpoint.url} | content)
            return
        say(f"daemon: {printable(client.endpoint.url, one_line=True)}")
    for name, part in content.items():
        if name == "queue" and isinstance(part, dict):
            part = queue_words(part)  # noqa: PLW2901
        for line in tree_lines({name: part}):
            say(line)


def queue_words(queue: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of the queue with its numbers put into words; the rest as it is."""
    words = dict(queue)
    if isinstance(intake := queue.get("intake"), dict):
        words["intake"] = f"{intake['state']}; {_waiting(intake['entries'], 'entries', intake)}"
    for lane in ("index", "understand"):
        if isinstance(look := queue.get(lane), dict):
            words[lane] = _waiting(look["items"], "items", look)
            if look["items"]:
                words[lane] += (
                    f"; groups: {look['ready']} ready, {look['leased']} at work, "
                    f"{look['waiting']} waiting for their next attempt"
                )
            if not look["complete"]:
                words[lane] = f"at least {words[lane]}"
    if isinstance(memory := queue.get("memory"), dict):
        words["memory"] = _size(memory["bytes"])
        if memory["limit"]:
            words["memory"] += f" of {_size(memory['limit'])} ({memory['percent']:g} %)"
    if not queue.get("counters", True):
        del words["counters"]
    return words


def _waiting(number: int, what: str, look: Mapping[str, Any]) -> str:
    if not number:
        return "nothing waits"
    words = "1 waits" if number == 1 else f"{number} {what} wait"
    age = look["oldest_seconds"]
    return words if age is None else f"{words}, the oldest for {_duration(age)}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _size(number: int) -> str:
    return f"{number / 1024 / 1024:.1f} MB"


def backfill(
    operator: Operator = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Of all operators, also if GRALKORD_OPERATOR is set.")
    ] = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Queue the passages that were never understood, of one operator or of all."""
    from gralkord.cli.output import emit, say

    with connected(url, data_dir) as client:
        content = client.backfill(None if everyone else operator)
    if as_json:
        emit(content)
    else:
        say(f"queued {content.get('items', 0)} items with {content.get('passages', 0)} passages")
