"""Logging: one line per event, JSON for machines and colours for a terminal, on standard error."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import structlog

from gralkord.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

    from structlog.typing import Processor

LEVEL_VARIABLE: Final = "GRALKORD_LOG_LEVEL"
LEVELS: Final = ("debug", "info", "warning", "error", "critical")

# Loggers of libraries that repeat, at the level given, what users wrote or asked: graphiti-core
# logs a failed query together with its parameters, httpx each URL.
_TALKATIVE: Final = {
    "graphiti_core": logging.CRITICAL,
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
    "openai": logging.WARNING,
    "neo4j": logging.ERROR,
    "uvicorn.access": logging.WARNING,
    "asyncio": logging.WARNING,
}


def configure(
    *,
    level: str | None = None,
    console: bool | None = None,
    environ: Mapping[str, str] | None = None,
) -> None:
    """Send the events of this process, and of the libraries in it, to standard error.

    Args:
        level: The lowest level that is written, where ``GRALKORD_LOG_LEVEL`` names none; default:
            ``info``.
        console: Whether to write for a person; default: whether standard error is a terminal.
        environ: Environment variables; default: those of this process.

    Raises:
        ConfigError: ``GRALKORD_LOG_LEVEL`` is not one of `LEVELS`.
    """
    environ = os.environ if environ is None else environ
    name = (environ.get(LEVEL_VARIABLE) or level or "info").strip().lower()
    if name not in LEVELS:
        raise ConfigError(
            f"{LEVEL_VARIABLE} is {name!r}; it must be one of {', '.join(LEVELS)}",
            field=LEVEL_VARIABLE,
        )
    number = logging.getLevelNamesMapping()[name.upper()]
    console = sys.stderr.isatty() if console is None else console
    shared = _shared_processors()
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    handler = _StandardError()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_renderers(console=console),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    logging.captureWarnings(capture=True)
    for logger, lowest in _TALKATIVE.items():
        logging.getLogger(logger).setLevel(number if name == "debug" else max(number, lowest))


class _StandardError(logging.StreamHandler[Any]):
    """Writes to what ``sys.stderr`` is at the time of the event, also after it was replaced."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, value: Any) -> None:
        raise AttributeError(f"the stream is always sys.stderr, not {value!r}")


def _shared_processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]


def _renderers(*, console: bool) -> list[Processor]:
    if console:
        return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    return [structlog.processors.format_exc_info, _to_json]


def _to_json(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    line = {key: event.pop(key) for key in ("timestamp", "level", "event") if key in event}
    # json escapes lone surrogates, which paths that are not UTF-8 hold; orjson raises at them.
    return json.dumps({**line, **event}, default=str)
