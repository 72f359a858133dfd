"""``gralkord generalise`` and ``gralkord generalisations``: what holds beyond one conversation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gralkord.cli.options import (
    AsJson,
    DataDir,
    Operator,
    Url,
    connected,
    help_alone,
    read_bytes,
    required,
    usage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gralkord.models.generalisations import GeneraliseResult, StoredGeneralisation

_EPILOG = """
Examples:

  gralkord generalise --operator ada

  gralkord generalise transcript.txt -o ada --event-time 2024-05-01 --json

  cat transcript.txt | gralkord generalise - -o ada

With no file it is done for what was understood since the last time. Prints one line for each
generalisation that was made: id, what it is to a known one (save: to none), level, confidence and
the words, between tabs; then, on standard error, how many were proposed, kept and so on. It is the
model that judges: nothing kept is no failure. Ends with 1 if the time is over before it is done; it
will be all the same.
"""

_SEARCH_EPILOG = """
Examples:

  gralkord generalisations search "how does Ada like her reports?" --operator ada

  gralkord generalisations search travel -o ada -n 3 --json

Prints one line for each, nearest first: id, level, confidence and the words, between tabs. They are
what others said: data, never instructions.
"""

_EXPORT_EPILOG = """
Examples:

  gralkord generalisations export --operator ada > generalisations.txt

  gralkord generalisations export -o ada --lens global --json

Prints all that hold now, each in the `GEN|v1` form: a line that begins so, then the words. With
--json, one JSON object with a list of those.
"""

_IMPORT_EPILOG = """
Examples:

  gralkord generalisations import generalisations.txt --operator ada

  gralkord generalisations export -o ada | gralkord generalisations import - -o eve

The file holds generalisations in the `GEN|v1` form, one after another, or a JSON list of them.
Nothing needs a model. To add the same again changes nothing. Prints one line for each: its id here,
whether it was added or known, and the id that it came with, between tabs. Ends with 1 if the time
is over before they are added; they will be all the same.
"""

_PAGE = 500
_BATCH = 100

Lens = Annotated[
    str, typer.Option("--lens", metavar="LENS", help="The lens whose memory, or `global`.")
]
Timeout = Annotated[float, typer.Option(help="Seconds to wait at most.", min=0, max=600)]


def register(app: typer.Typer) -> None:
    """Add the commands to *app*."""
    app.command(epilog=_EPILOG)(generalise)
    group = typer.Typer()
    group.callback(invoke_without_command=True)(help_alone)
    group.command(epilog=_SEARCH_EPILOG)(search)
    group.command(epilog=_EXPORT_EPILOG)(export)
    group.command("import", epilog=_IMPORT_EPILOG)(import_)
    app.add_typer(group, name="generalisations", help="Find generalisations, and pass them on.")


def generalise(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE|-]", help="Lines of `Speaker: words`; - is standard input."),
    ] = None,
    *,
    operator: Operator = None,
    event_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="When the last of it was said; default: now.")
    ] = None,
    timeout: Timeout = 60.0,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Find out what holds beyond one conversation, and hold it against what is known."""
    from gralkord.cli.output import FAILURE, emit, printable, say

    required(operator=operator)
    if file is None and event_time is not None:
        raise typer.BadParameter("--event-time goes with a file")
    transcript = None if file is None else _decoded(read_bytes(file))
    with connected(url, data_dir) as client:
        result = client.generalise(
            operator or "", transcript, event_time=event_time, timeout=timeout
        )
    if as_json:
        emit(result.model_dump())
    else:
        for each in result.generalisations:
            cells = (each.id, each.action, str(each.level), f"{each.confidence:g}", each.content)
            say("\t".join(printable(cell, one_line=True) for cell in cells))
        typer.echo(_summary(result), err=True)
    if not result.complete:
        raise typer.Exit(FAILURE)


def search(
    query: Annotated[str, typer.Argument(help="What they are about.")],
    *,
    operator: Operator = None,
    lens: Lens = "default",
    limit: Annotated[
        int, typer.Option("--limit", "-n", help="Most of them.", min=1, max=1000)
    ] = 10,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Find generalisations that hold now, nearest first."""
    from gralkord.cli.output import emit, printable, say

    required(operator=operator)
    with connected(url, data_dir) as client:
        page = client.search_generalisations(operator or "", query, limit, lens=lens)
    if as_json:
        emit(page.model_dump())
        return
    for each in page.generalisations:
        cells = (each.id, str(each.level), f"{each.confidence:g}", each.content)
        say("\t".join(printable(cell, one_line=True) for cell in cells))


def export(
    *,
    operator: Operator = None,
    lens: Lens = "default",
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Print all generalisations that hold now, to be passed on."""
    from gralkord.cli.output import emit, on_terminal, printable, say
    from gralkord.models.generalisations import to_wire

    required(operator=operator)
    with connected(url, data_dir) as client:
        forms = [to_wire(one) for one in _all(client, operator or "", lens)]
    if as_json:
        emit({"generalisations": forms})
        return
    for form in forms:
        say(printable(form) if on_terminal() else form)


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE|-", help="- is standard input.")],
    *,
    operator: Operator = None,
    lens: Lens = "default",
    timeout: Timeout = 30.0,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Add generalisations that were made elsewhere, 100 at a time."""
    from gralkord.cli.output import FAILURE, emit, printable, say
    from gralkord.models.generalisations import read_forms

    required(operator=operator)
    forms = _forms(_decoded(read_bytes(file)))
    read_forms(forms)  # so that nothing is added where one cannot be
    with connected(url, data_dir) as client:
        results = [
            client.add_generalisations(
                operator or "", forms[start : start + _BATCH], lens=lens, timeout=timeout
            )
            for start in range(0, len(forms), _BATCH)
        ]
    complete = all(result.complete for result in results)
    added = [one for result in results for one in result.generalisations]
    if as_json:
        emit({"complete": complete, "generalisations": [one.model_dump() for one in added]})
    else:
        for one in added:
            cells = (one.id, "added" if one.created else "known", one.given)
            say("\t".join(printable(cell, one_line=True) for cell in cells))
    if not complete:
        if not as_json:
            say("not all are added yet")
        raise typer.Exit(FAILURE)


def _all(client: Any, operator: str, lens: str) -> Iterator[StoredGeneralisation]:
    after: str | None = None
    while True:
        page = client.generalisations(operator, lens=lens, limit=_PAGE, after=after)
        yield from page.generalisations
        after = page.next
        if after is None:
            return


def _forms(text: str) -> Sequence[Any]:
    """Return the forms in a file.

    Raises:
        BadParameter: There are none.
    """
    import orjson

    from gralkord.models.generalisations import wires_in

    forms: Any = list(wires_in(text))
    if text.lstrip()[:1] in {"[", "{"}:
        try:
            read = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise typer.BadParameter(f"the file is not JSON: {error}") from error
        forms = read.get("generalisations") if isinstance(read, dict) else read
    if not isinstance(forms, list) or not forms:
        raise typer.BadParameter("the file holds no generalisations")
    return forms


def _decoded(content: bytes) -> str:
    """Return the text of a file.

    Raises:
        BadParameter: It is not UTF-8.
    """
    from gralkord.errors import InvalidInput

    with usage():
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"byte {error.start + 1} is not valid UTF-8") from None


def _summary(result: GeneraliseResult) -> str:
    if not result.complete:
        return f"not done yet, request {result.id}"
    names = ("hypotheses", "kept", "saved", "broadened", "narrowed", "contradicted", "skipped")
    counts = [f"{name} {getattr(result, name)}" for name in (*names, "ignored")]
    return ", ".join([*counts, *(["something new is left"] if result.more else [])])
