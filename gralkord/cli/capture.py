"""``gralkord capture``: store one turn."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gralkord.cli.options import (
    AsJson,
    DataDir,
    LensesOfTurn,
    Operator,
    Url,
    connected,
    read_bytes,
    read_text,
    required,
)

_EPILOG = """
Examples:

  gralkord capture "I moved to Lisbon" -o ada --session s1 --agent helper --user Ada

  gralkord capture "Where is my tea?" --assistant "On the shelf" -o ada -s s1 -a helper -u Ada

  cat note.txt | gralkord capture - -o ada -s s1 -a helper -u Ada

  gralkord capture --json-input turn.json

  gralkord capture --json-input trace.json --shape openai-chat -o ada -s s1 -a helper -u Ada

A JSON capture has the fields session, operator, agent, user and turn; options fill in what it
leaves out. With --shape it is a list instead: what the agent's framework tells of one turn. Where
that has no words there is nothing to capture, which is said, and no failure.
"""


class Role(StrEnum):
    """Who speaks."""

    user = "user"
    behaviour = "behaviour"
    assistant = "assistant"


class Shape(StrEnum):
    """What a trace consists of."""

    events = "events"
    openai_chat = "openai-chat"
    openai_responses = "openai-responses"
    anthropic = "anthropic"
    langchain = "langchain"


def register(app: typer.Typer) -> None:
    """Add the command ``capture`` to *app*."""
    app.command(epilog=_EPILOG)(capture)


def capture(
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT", help="What was said; `-` reads it, or a JSON capture, from stdin."
        ),
    ] = None,
    *,
    operator: Operator = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", help="Session the turn belongs to.")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Name of the agent.")] = None,
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="Name of the one it talks to.")
    ] = None,
    role: Annotated[Role, typer.Option(help="Who says TEXT.")] = Role.user,
    speaker: Annotated[
        str | None, typer.Option(help="Name of who says TEXT, if not the user or the agent.")
    ] = None,
    assistant: Annotated[str | None, typer.Option(help="What the agent answered.")] = None,
    event_time: Annotated[
        str | None, typer.Option(help="When it happened, ISO 8601; UTC if without a zone.")
    ] = None,
    turn_id: Annotated[
        str | None, typer.Option(help="Id of the turn; the same id is the same turn.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="What the turn was taken from.")] = None,
    offset: Annotated[
        str | None,
        typer.Option(help="Where in the source it stands; other words there replace those before."),
    ] = None,
    meta: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TEXT", help="What you say about it; may be repeated."),
    ] = None,
    lens: LensesOfTurn = None,
    json_input: Annotated[
        Path | None, typer.Option(help="Read a JSON capture from this file; `-` is stdin.")
    ] = None,
    shape: Annotated[
        Shape | None, typer.Option(help="The JSON is the trace of a turn, of this shape.")
    ] = None,
    failure: Annotated[
        str | None, typer.Option(help="Why the turn of the trace ended without an answer.")
    ] = None,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Store one turn. Once this returns it is not lost."""
    if (failure and not shape) or (shape and json_input is None):
        raise typer.BadParameter("--failure needs --shape, and that needs --json-input")
    if (text is None) == (json_input is None):
        raise typer.BadParameter("give either TEXT or --json-input")
    raw = None
    if shape:
        required(operator=operator, session=session, agent=agent, user=user)
    if json_input is not None:
        from gralkord.wire import parse_object

        content = read_bytes(json_input)
        raw = _trace_in(content, shape, failure) if shape else parse_object(content)
        if shape and not raw:
            _skip(as_json=as_json)
            return
    elif text is not None:
        text = read_text(text, "text")
        raw = _capture_in(text)
    fields: dict[str, Any] = {
        "session": session,
        "operator": operator,
        "agent": agent,
        "user": user,
        "turn_id": turn_id,
        "event_time": event_time,
        "source": source,
        "offset": offset,
        "metadata": metadata_of(meta),
        "lenses": lens or None,
    }
    if raw is None:
        required(operator=operator, session=session, agent=agent, user=user)
        raw = {"turn": _turn(text or "", role, speaker, assistant)}
    given = {name: value for name, value in fields.items() if value is not None}
    _send(given | raw, url, data_dir, as_json=as_json)


def metadata_of(pairs: list[str] | None) -> dict[str, str] | None:
    """Return what ``NAME=TEXT`` options say.

    Raises:
        BadParameter: One has no name, or no text.
    """
    found: dict[str, str] = {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"--meta {pair[:64]!r} is not NAME=TEXT")
        found[name] = text
    return found or None


def _turn(
    text: str, role: Role, speaker: str | None, assistant: str | None
) -> list[dict[str, str]]:
    messages = [{"role": role.value, "content": text}]
    if speaker is not None:
        messages[0]["speaker"] = speaker
    if assistant is not None:
        messages.append({"role": "assistant", "content": assistant})
    return messages


def _trace_in(content: bytes, shape: Shape, failure: str | None) -> dict[str, Any]:
    """Return the capture that a trace is; an empty one, if there is nothing to capture.

    Raises:
        InvalidInput: It is no trace of that shape.
    """
    import orjson

    from gralkord.agents import turn_of
    from gralkord.errors import InvalidInput

    try:
        trace = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"the trace is no JSON: {error}", field="trace") from None
    turn = turn_of(trace, shape.value, failure=failure)
    return {"turn": [message.model_dump(exclude_none=True) for message in turn]} if turn else {}


def _capture_in(text: str) -> dict[str, Any] | None:
    """Return the JSON capture that *text* is, if it is one."""
    from gralkord.errors import InvalidInput
    from gralkord.wire import parse_object

    if not text.lstrip().startswith("{"):
        return None
    try:
        content = parse_object(text.encode(errors="surrogatepass"))
    except InvalidInput:
        return None  # any other text may begin with a brace
    return content if isinstance(content.get("turn"), list) else None


def _skip(*, as_json: bool) -> None:
    from gralkord.cli.output import emit, say

    told = "nothing to capture"
    if as_json:
        emit({"receipt": None, "notes": [told]})
    else:
        say(told)


def _send(raw: dict[str, Any], url: str | None, data_dir: Path | None, *, as_json: bool) -> None:
    from gralkord.cli.output import emit, printable, say
    from gralkord.errors import GralkorError

    with connected(url, data_dir) as client:
        [outcome] = client.capture_many([raw])
    if isinstance(outcome, GralkorError):
        raise outcome
    if as_json:
        emit(outcome.model_dump())
        return
    state = "captured before" if outcome.duplicate else "captured"
    turn_id = printable(outcome.turn_id, one_line=True)
    say(f"{state}: turn {turn_id}, receipt {outcome.receipt}, durability {outcome.durability}")
    for note in outcome.notes:
        say(f"note: {printable(note, one_line=True)}")
