"""What the scripted model writes instead of a right answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from gralkord.testing.faults import Fault

Json = dict[str, Any]


def spoil(fault: Fault | None, answer: Json, schema: Json) -> tuple[str, str]:
    """Return what the model writes instead of *answer*, and its finish reason."""
    text = _json(answer)
    if fault in {Fault.CUT_OFF, Fault.BROKEN_OFF}:
        written = text[: max(1, len(text) * 2 // 3)]
    elif fault in _WRAPPED:
        written = _WRAPPED[fault].format(text=text, empty=_json(_emptied(answer)))
    elif fault in _CHANGED:
        written = _CHANGED[fault](answer, schema)
    else:
        written = text
    return written, "length" if fault is Fault.CUT_OFF else "stop"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _emptied(answer: Json) -> Json:
    """Return what would read as if nothing had been found."""
    return {name: [] if isinstance(value, list) else None for name, value in answer.items()}


def _wrong_types(answer: Json, schema: Json) -> Json:
    names = schema.get("properties", {}).keys() | answer.keys()
    return {name: "many" if isinstance(answer.get(name), list) else ["many"] for name in names}


# What is written around the answer; `empty` reads as if nothing had been found.
_WRAPPED: Final[Mapping[Fault | None, str]] = {
    Fault.THINK: "<think>\nPerhaps {empty}? No.\n</think>\n\n{text}",
    Fault.CODE_FENCE: "```json\n{text}\n```",
    Fault.PROSE: "Sure! Here is the answer:\n\n{text}\n\nAnything else?",
    Fault.SEVERAL: "{empty}\n{text}",
    Fault.EMPTY: "",
    Fault.EMPTY_OBJECT: "{{}}",
    Fault.APOLOGY: "I am sorry, but I cannot find that out.",
}
# What is written instead of it.
_CHANGED: Final[Mapping[Fault | None, Callable[[Json, Json], str]]] = {
    Fault.SCHEMA_ECHO: lambda _answer, schema: _json(schema),
    Fault.WRONG_TYPES: lambda answer, schema: _json(_wrong_types(answer, schema)),
    Fault.OTHER_NAMES: lambda answer, _schema: _json({f"the_{key}": answer[key] for key in answer}),
    Fault.TWICE: lambda answer, _schema: f"{_json(answer)[:-1]}, {_json(_emptied(answer))[1:]}",
    Fault.PYTHON: lambda answer, _schema: repr(answer),
    Fault.SLIPS: lambda answer, _schema: f"// the answer\n{_json(answer)[:-1]},}}",
    Fault.QUOTED: lambda answer, _schema: _json(_json(answer)),
    Fault.TOOL_CALL: lambda answer, schema: _json(
        {"name": schema.get("title", "answer"), "arguments": answer}
    ),
}
