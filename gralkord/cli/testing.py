"""``gralkord testing``: what helps to test a program that uses gralkord."""

from __future__ import annotations

import json
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gralkord.cli.options import help_alone
from gralkord.errors import GralkorError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gralkord.testing.faults import FaultPlan


class Way(StrEnum):
    """A way to ask for a schema."""

    JSON_SCHEMA = "json_schema"
    TOOLS = "tools"
    JSON_OBJECT = "json_object"


app = typer.Typer(help="Help for testing programs that use gralkord.")

_EPILOG = """
Examples:

  gralkord testing model-server --port 8400

  gralkord testing model-server --fault rate_limited --fault cut_off --fault-rate 0.3 --seed 7

  gralkord testing model-server --replay facts.json --latency-ms 200 --token-ms 5 --json

Then: gralkord up --model openai-compatible:scripted@URL, or as another provider, see --json.

Exit codes: 0 stopped, 1 could not start, 2 wrong usage.
"""


def register(parent: typer.Typer) -> None:
    """Add the commands ``testing …`` to *parent*."""
    parent.add_typer(app, name="testing")


# A callback keeps ``model-server`` a subcommand even while it is the only one.
app.callback(invoke_without_command=True)(help_alone)


@app.command("model-server", epilog=_EPILOG)
def model_server(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.", min=0, max=65535)] = 0,
    latency_ms: Annotated[
        int | None, typer.Option(help="How long each answer takes; default 0.", min=0)
    ] = None,
    token_ms: Annotated[
        float | None, typer.Option(help="How much longer for each token of it.", min=0)
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            help="A way to fail: rate_limited, server_error, refused_key, refused, dropped, slow; "
            "or what to write: cut_off, broken_off, schema_echo, wrong_types, other_names, empty, "
            "empty_object, several, twice, apology, think, code_fence, prose, python, slips, "
            "quoted, tool_call. May be repeated."
        ),
    ] = None,
    fault_rate: Annotated[
        float | None, typer.Option(help="Share of the answers that fail; default 1.", min=0, max=1)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same seed fails the same requests; default 0.")
    ] = None,
    retry_after: Annotated[
        float | None, typer.Option(help="Seconds in a 429's Retry-After; default 1.", min=0)
    ] = None,
    requests_per_minute: Annotated[
        int | None,
        typer.Option(help="Requests a minute, told in headers; more get a 429.", min=1),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="JSON file with a whole plan of faults; options go over it.")
    ] = None,
    replay: Annotated[
        Path | None, typer.Option(help="JSON file: text to the facts and entities it holds.")
    ] = None,
    api_key: Annotated[str | None, typer.Option(help="Key that requests must carry.")] = None,
    without: Annotated[
        list[Way] | None,
        typer.Option(
            help="A way to ask for a schema that the server is not to know: json_schema, tools or "
            "json_object. May be repeated."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Serve a model that answers by rules, for tests and demos. Prints its base URL first."""
    from gralkord.testing.model_server import ScriptedModelServer
    from gralkord.testing.replay import Replay

    try:
        options = {
            "kinds": fault,
            "rate": fault_rate if fault_rate is not None else (1.0 if fault else None),
            "seed": seed,
            "latency_ms": latency_ms,
            "token_ms": token_ms,
            "retry_after": retry_after,
            "requests_per_minute": requests_per_minute,
        }
        given = {name: value for name, value in options.items() if value is not None}
        server = ScriptedModelServer(
            replay=Replay.load(replay) if replay else None,
            faults=_faults(plan, given),
            api_key=api_key,
            without=without or (),
            host=host,
            port=port,
        )
    except GralkorError as error:
        typer.echo(f"gralkord: {error.message}", err=True)
        raise typer.Exit(1) from error
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        told = {"url": server.url, "spec": server.spec, "specs": server.specs}
        typer.echo(json.dumps(told) if as_json else server.url)
        server.run()
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _faults(plan: Path | None, given: Mapping[str, object]) -> FaultPlan:
    """Return the plan of a file, with the options that are *given* over it.

    Raises:
        typer.BadParameter: A field of it is not acceptable.
        StartError: The file cannot be read.
    """
    from pydantic import ValidationError

    from gralkord.testing.faults import FaultPlan

    try:
        return FaultPlan.model_validate((_read(plan) if plan else {}) | dict(given))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = first["msg"].removeprefix("Value error, ")
        if plan and first["loc"][:1] not in {(name,) for name in given}:
            place = ".".join(map(str, first["loc"]))
            message, hint = f"{place}: {message}" if place else message, f"--plan {plan}"
        else:
            message, hint = f"{first['input']}: {message}" if first["loc"] else message, "--fault"
        raise typer.BadParameter(message, param_hint=hint) from None


def _read(plan: Path) -> dict[str, object]:
    """Return the plan in a file.

    Raises:
        StartError: It cannot be read.
    """
    from gralkord.errors import StartError

    try:
        content = json.loads(plan.read_bytes())
    except (OSError, ValueError) as error:
        raise StartError(f"{plan} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise StartError(f"{plan} holds no JSON object")
    return content
