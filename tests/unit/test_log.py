"""Log lines: what they look like and what never gets into them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gralkord import log
from gralkord.errors import ConfigError


def lines_of(program: str, **environ: str) -> list[dict]:
    """Return the log lines of a process that runs *program* after the set-up."""
    run = subprocess.run(
        [sys.executable, "-c", f"from gralkord import log; log.configure()\n{program}"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == ""
    return [json.loads(line) for line in run.stderr.splitlines()]


def test_events_are_json_lines():
    """An event and its fields are one JSON object on standard error."""
    program = "import structlog; structlog.get_logger('a.b').info('turn_routed', turns=3)"
    [line] = lines_of(program)
    assert line["event"] == "turn_routed"
    assert (line["level"], line["logger"], line["turns"]) == ("info", "a.b", 3)
    assert line["timestamp"].endswith("Z")


def test_libraries_log_the_same_way():
    """What a library says with the standard logging module is a line of the same form."""
    [line] = lines_of("import logging; logging.getLogger('lib').warning('slow: %s', 3)")
    assert (line["event"], line["level"], line["logger"]) == ("slow: 3", "warning", "lib")


def test_the_level_comes_from_the_environment():
    """Only events of the level asked for, and above, are written."""
    program = "import structlog; l = structlog.get_logger(); l.info('a'); l.error('b')"
    assert [line["event"] for line in lines_of(program)] == ["a", "b"]
    assert [line["event"] for line in lines_of(program, GRALKORD_LOG_LEVEL="error")] == ["b"]


def test_graphiti_does_not_repeat_memories():
    """A query that failed is logged by graphiti-core with its texts, so it is not heard."""
    program = "import logging; logging.getLogger('graphiti_core.driver').error('secret text')"
    assert lines_of(program) == []
    assert len(lines_of(program, GRALKORD_LOG_LEVEL="debug")) == 1


def test_text_that_is_not_unicode_can_be_logged():
    """A path that is not UTF-8 does not break the log."""
    [line] = lines_of("import structlog; structlog.get_logger().info('x', path='a\\udcff')")
    assert line["path"] == "a\udcff"


def test_an_unknown_level_is_refused():
    """A level that does not exist is said, with those that do."""
    with pytest.raises(ConfigError, match="must be one of debug, info"):
        log.configure(environ={"GRALKORD_LOG_LEVEL": "loud"})
