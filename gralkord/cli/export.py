"""``gralkord export``: memories as a file of lines, to be imported elsewhere."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from gralkord.cli.options import AsJson, DataDir, Url, connected

if TYPE_CHECKING:
    from collections.abc import Iterator

_EPILOG = """
Examples:

  gralkord export --operator ada -o ada.jsonl

  gralkord export --everything --with-vectors -o all.jsonl --json

  gralkord export --operator ada | gzip > ada.jsonl.gz

The file holds every word of these memories. `gralkord import` reads it, here or elsewhere. What
waits in the queue is not in it: `gralkord backup` takes that too.
"""


def register(app: typer.Typer) -> None:
    """Add the command ``export`` to *app*."""
    app.command("export", epilog=_EPILOG)(export)


def export(
    *,
    # No variable of the environment, unlike elsewhere: it would contradict --everything silently.
    operator: Annotated[
        str | None,
        typer.Option("--operator", metavar="OPERATOR", help="Whose memories, of all lenses."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--everything", help="Those of all operators, and what they share.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Default: standard output."),
    ] = None,
    vectors: Annotated[
        bool,
        typer.Option("--with-vectors", help="Vectors too; else they are made anew at the import."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write memories to a file: passages, entities, facts and episodes, with times and sources."""
    from gralkord.cli.output import emit, printable
    from gralkord.cli.progress import progress

    if (operator is None) != everything:
        raise typer.BadParameter("give either --operator or --everything")
    if as_json and output is None:
        raise typer.BadParameter("--json needs --output: standard output is for the lines")
    began = time.monotonic()
    lines = size = 0
    with connected(url, data_dir) as client, progress("exporting rows", None) as advance:
        found = client.export(operator, everything=everything, vectors=vectors)
        first = next(found)  # a refusal leaves no file
        with _opened(output, force=force) as stream:
            stream.write(first)
            for line in found:
                stream.write(line)
                lines += 1
                size += len(line)
                advance(1)
            stream.flush()
    rows, seconds = max(lines - 1, 0), round(time.monotonic() - began, 3)
    report = {
        "rows": rows,
        "bytes": size + len(first),
        "file": str(output) if output else None,
        "seconds": seconds,
    }
    if as_json:
        emit(report)
    elif output:
        text = f"{rows} rows, {report['bytes']} bytes, {seconds:.1f} s: {output}"
        typer.echo(printable(text, one_line=True), err=True)


@contextmanager
def _opened(output: Path | None, *, force: bool) -> Iterator[BinaryIO]:
    """Open the file to write to; it gets its name once it is whole."""
    if output is None:
        yield sys.stdout.buffer
        return
    if output.exists() and not force:
        raise typer.BadParameter(f"{output} exists; --force replaces it")
    draft = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {output}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(output)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
