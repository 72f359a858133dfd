"""Read the parameters after the question mark of a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gralkord.wire import Model, read_model

if TYPE_CHECKING:
    from pydantic import BaseModel
    from starlette.requests import Request


def read_query(request: Request, model: type[Model]) -> Model:
    """Return the query parameters of *request* as a *model*.

    Raises:
        InvalidInput: They do not fit it.
    """
    raw: dict[str, Any] = dict(request.query_params)
    for name, field in model.model_fields.items():
        if field.annotation is int and (text := raw.get(name, "")).isascii() and text.isdecimal():
            raw[name] = int(text[:20])
        elif field.annotation is bool and raw.get(name) in {"true", "false"}:
            raw[name] = raw[name] == "true"
    return read_model(model, raw)


def query_parameters(model: type[BaseModel]) -> dict[str, Any]:
    """Return the part of an operation's description that lists its query parameters."""
    schema = model.model_json_schema()
    shapes, required = schema["properties"], schema.get("required", ())
    return {
        "parameters": [
            {
                "name": name,
                "in": "query",
                "required": name in required,
                "description": shape.pop("description", ""),
                "schema": shape,
            }
            for name, shape in shapes.items()
        ]
    }
