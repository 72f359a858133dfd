"""``gralkord eval``: measure what recall finds."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from gralkord.cli.options import AsJson, directory, help_alone, usage

if TYPE_CHECKING:
    from gralkord.evaluation.sets import Conversation

_MEASURED = """
Without --url and --data-dir it starts a daemon of its own, without a model, and stops it again.

Exit codes: 0 measured, 1 failed, 2 a file or the command line is wrong.
"""
_RETRIEVAL = f"""
Examples:

  gralkord eval retrieval conversation.json --format locomo

  gralkord eval retrieval conversations/*.json --format locomo --json

  gralkord eval retrieval mine.json --format set --out today.json
{_MEASURED}"""
_FIXTURES = f"""
Examples:

  gralkord eval fixtures

  gralkord eval fixtures --as-turns --out today.json

  gralkord eval fixtures --config with-another-embedder.toml
{_MEASURED}"""
_GENERATED = f"""
Examples:

  gralkord eval generated --turns 10000 --seed 7

  gralkord eval generated --turns 500 --write set.json
{_MEASURED}"""
_ABLATIONS = """
Examples:

  gralkord eval ablations

  gralkord eval ablations conversations/*.json --format locomo --json

No daemon is needed or started.

Exit codes: 0 measured, 1 failed, 2 a file or the command line is wrong.
"""
_COMPARE = """
Examples:

  gralkord eval compare yesterday.json today.json

  gralkord eval compare yesterday.json today.json --measure 1000t --worse-than 0.01

Exit codes: 0 compared, 1 the second is worse than allowed, 2 a file or the command line is wrong.
"""


class Where(NamedTuple):
    """The daemon that is measured: one that runs, or one that is started with a configuration."""

    url: str | None
    data_dir: Path | None
    config: Path | None


class Format(StrEnum):
    """What a file holds."""

    LOCOMO = "locomo"
    SET = "set"


FormatOption = Annotated[
    Format, typer.Option("--format", help="`locomo`, or `set`: one of your own.")
]
AsTurns = Annotated[
    bool, typer.Option("--as-turns", help="Have the memories of sets said, not told.")
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the figures and what came of each question."),
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the temporary data directory, name it.")]
MeasuredUrl = Annotated[
    str | None, typer.Option("--url", help="Measure this running daemon.", metavar="URL")
]
MeasuredDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        parser=directory,
        help="Measure the daemon of this data directory.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="TOML file with settings of the daemon that is started, such as its embedder.",
    ),
]
Turns = Annotated[int, typer.Option(min=0, max=1_000_000, help="Turns of noise.")]
Seed = Annotated[int, typer.Option(help="Another number makes another set.")]
Questions = Annotated[int, typer.Option(min=1, max=100, help="Of each category, at most.")]


def register(app: typer.Typer) -> None:
    """Add the command ``eval`` with its measurements to *app*."""
    group = typer.Typer(help="Measure what recall finds.")
    group.callback(invoke_without_command=True)(help_alone)
    group.command(epilog=_RETRIEVAL)(retrieval)
    group.command(epilog=_FIXTURES)(fixtures)
    group.command(epilog=_GENERATED)(generated)
    group.command(epilog=_ABLATIONS)(ablations)
    group.command(epilog=_COMPARE)(compare)
    app.add_typer(group, name="eval")


def retrieval(
    *,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Files of conversations and questions."),
    ],
    file_format: FormatOption = Format.LOCOMO,
    as_turns: AsTurns = False,
    as_json: AsJson = False,
    out: Out = None,
    keep: Keep = False,
    config: Config = None,
    url: MeasuredUrl = None,
    data_dir: MeasuredDir = None,
) -> None:
    """Score which share of the evidence of each question recall returns."""
    conversations = _read(files, file_format, as_turns=as_turns)
    _measure(str(file_format), conversations, as_json, out, keep, Where(url, data_dir, config))


def fixtures(
    *,
    as_turns: AsTurns = False,
    as_json: AsJson = False,
    out: Out = None,
    keep: Keep = False,
    config: Config = None,
    url: MeasuredUrl = None,
    data_dir: MeasuredDir = None,
) -> None:
    """Score a small set that comes with gralkord: look-alikes, contradictions, no answers."""
    from gralkord.evaluation.sets import FIXTURES

    conversations = _read([FIXTURES], Format.SET, as_turns=as_turns)
    _measure("fixtures", conversations, as_json, out, keep, Where(url, data_dir, config))


def generated(
    *,
    turns: Turns = 2_000,
    seed: Seed = 1,
    questions: Questions = 20,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the set instead of measuring it."),
    ] = None,
    as_json: AsJson = False,
    out: Out = None,
    keep: Keep = False,
    config: Config = None,
    url: MeasuredUrl = None,
    data_dir: MeasuredDir = None,
) -> None:
    """Score a long conversation made by rules: dates, changes of mind, needles among noise."""
    from gralkord.evaluation.generated import generate
    from gralkord.evaluation.sets import conversation_of

    made = generate(turns, seed, questions)
    if write:
        _write(write, made.model_dump_json(exclude_none=True, indent=1))
        return
    _measure("generated", [conversation_of(made)], as_json, out, keep, Where(url, data_dir, config))


def ablations(
    *,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Files of conversations and questions. Default: the fixtures and a generated set.",
        ),
    ] = None,
    file_format: FormatOption = Format.LOCOMO,
    as_turns: AsTurns = False,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Tell what each part of a score is worth: the same questions without it."""
    import asyncio

    from gralkord import log
    from gralkord.cli import eval_shown
    from gralkord.cli.output import emit
    from gralkord.cli.progress import progress
    from gralkord.evaluation.ablations import VARIANTS, ablate
    from gralkord.evaluation.generated import generate
    from gralkord.evaluation.sets import FIXTURES, conversation_of

    log.configure(level="warning")
    _check(out)
    if files:
        conversations = _read(files, file_format, as_turns=as_turns)
    else:
        conversations = _read([FIXTURES], Format.SET, as_turns=as_turns)
        conversations.append(conversation_of(generate(2_000)))
    with usage(), progress("ablations", len(VARIANTS)) as advance:
        report = asyncio.run(ablate(conversations, advance))
    if out:
        _write(out, _pretty(report))
    if as_json:
        emit(report)
    else:
        eval_shown.show_ablations(report)


def compare(
    *,
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="What --out has written.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="The same of another run.")],
    measure: Annotated[
        str, typer.Option(help="`@5`, `@10`, `@20`, `@50`, `500t`, `1000t` or `2000t`.")
    ] = "@10",
    worse_than: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Exit with 1 if the mean is lower by more than this."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two runs question by question."""
    from gralkord.cli import eval_shown
    from gralkord.cli.output import FAILURE, emit
    from gralkord.evaluation import compare as comparison

    with usage():
        first, second = comparison.read_run(before), comparison.read_run(after)
        report = comparison.compare(first, second, measure)
    if as_json:
        emit(report)
    else:
        eval_shown.show_comparison(report)
    if worse_than is not None and report["overall"]["difference"] < -worse_than:
        raise typer.Exit(FAILURE)


def _read(files: Sequence[Path], file_format: Format, *, as_turns: bool) -> list[Conversation]:
    from gralkord.evaluation.run import read_conversations
    from gralkord.evaluation.sets import read_set

    with usage():
        if file_format is Format.LOCOMO:
            return read_conversations(files)
        return [read_set(file, as_turns=as_turns) for file in files]


def _measure(
    what: str,
    conversations: Sequence[Conversation],
    as_json: bool,
    out: Path | None,
    keep: bool,
    where: Where,
) -> None:
    import asyncio

    from gralkord import log
    from gralkord.cli import eval_shown
    from gralkord.cli.output import emit
    from gralkord.cli.progress import progress
    from gralkord.evaluation.run import evaluate
    from gralkord.evaluation.stack import until_signal

    log.configure(level="warning")
    _check(out)
    if where.config and (where.url or where.data_dir):
        raise typer.BadParameter("--config is for a daemon that is started: not with --url")
    steps = sum(conversation.turns + conversation.questions for conversation in conversations)

    def kept(path: Path) -> None:
        typer.echo(f"kept {path}", err=True)

    with progress(f"{what} retrieval", steps) as advance:
        run = evaluate(
            conversations,
            url=where.url,
            data_dir=where.data_dir,
            config=where.config,
            on_progress=advance,
            on_kept=kept if keep else None,
        )
        evaluated = asyncio.run(until_signal(run))
    if evaluated.left_out:
        typer.echo(f"{evaluated.left_out} questions without readable evidence left out", err=True)
    if out:
        _write(out, _pretty(evaluated.to_dict()))
    if as_json:
        emit(evaluated.summary)
    else:
        eval_shown.show_run(evaluated.summary)


def _pretty(content: Any) -> str:
    import json

    return json.dumps(content, ensure_ascii=False, indent=1)


def _check(out: Path | None) -> None:
    """Refuse, before anything is measured, a file that can hardly be written.

    Raises:
        BadParameter: Its folder is not there, or it is a folder.
    """
    if out and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise typer.BadParameter(f"cannot write {out}")


def _write(path: Path, text: str) -> None:
    """Write a file.

    Raises:
        BadParameter: It cannot be written.
    """
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {error.strerror}") from error
