"""The description of the HTTP interface: OpenAPI, and a page of it that needs no network."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from gralkord.rpc.auth import PUBLIC_PATHS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fastapi import FastAPI
    from pydantic import BaseModel

_REF: Final = "#/components/schemas/"

IDEMPOTENCY_KEY: Final[dict[str, Any]] = {
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": "Id of the turn, if the body names none. In a batch, a colon and the "
            "index are appended.",
            "schema": {"type": "string", "maxLength": 256},
        }
    ]
}

_SECURITY: Final = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}

PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
}

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1a1a1a;background:#fff}code,th{font-family:ui-monospace,monospace;font-size:.9em}"
    "table{border-collapse:collapse;width:100%}td,th{border-top:1px solid #ddd;padding:.3rem .6rem;"
    "text-align:left;vertical-align:top}h2{margin-top:2.5rem}"
    "@media(prefers-color-scheme:dark){body{color:#eee;background:#16181c}td,th{border-color:#444}"
    "a{color:#8ab4f8}}"
)


def json_body(model: str, *, required: bool = True) -> dict[str, Any]:
    """Return the part of an operation that says that its body is a *model*."""
    content = {"application/json": {"schema": {"$ref": _REF + model}}}
    return {"requestBody": {"required": required, "content": content}}


def schema(app: FastAPI, bodies: Iterable[type[BaseModel]]) -> dict[str, Any]:
    """Return the OpenAPI document of *app*.

    Args:
        app: The HTTP app.
        bodies: Models of request bodies; the routes read them by themselves.
    """
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
    )
    _, definitions = models_json_schema(
        [(model, "validation") for model in bodies], ref_template=_REF + "{model}"
    )
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(definitions.get("$defs", {}))
    components["securitySchemes"] = _SECURITY
    document["security"] = [{name: []} for name in _SECURITY]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path in PUBLIC_PATHS:
                operation["security"] = []
    return document


def page(document: dict[str, Any]) -> str:
    """Return an HTML page that lists the operations and models of *document*."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{_STYLE}</style></head><body><main><h1>{title}</h1>",
        f"<p>{escape(document['info']['description'])} The whole description: ",
        '<a href="/openapi.json">openapi.json</a>.</p>',
        *_operations(document),
        *_models(document),
        "</main></body></html>",
    ]
    return "\n".join(parts)


def _operations(document: dict[str, Any]) -> Iterator[str]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>"
            yield f"<p>{escape(operation.get('description') or operation.get('summary', ''))}</p>"
            yield "<table>"
            for parameter in operation.get("parameters", ()):
                yield _row(f"{parameter['in']} {parameter['name']}", parameter["description"])
            if body := operation.get("requestBody"):
                yield _row("body", _kind(body["content"]["application/json"]["schema"]), html=True)
            for status, answer in operation.get("responses", {}).items():
                shape = answer.get("content", {}).get("application/json", {}).get("schema", {})
                yield _row(status, f"{escape(answer['description'])} {_kind(shape)}", html=True)
            yield "</table>"


def _models(document: dict[str, Any]) -> Iterator[str]:
    for name, model in sorted(document["components"]["schemas"].items()):
        yield f'<h2 id="{escape(name)}"><code>{escape(name)}</code></h2>'
        yield f"<p>{escape(model.get('description', ''))}</p><table>"
        required = model.get("required", ())
        for key, shape in model.get("properties", {}).items():
            need = "required" if key in required else ""
            text = escape(shape.get("description", ""))
            yield _row(key, f"{_kind(shape)} {need}<br>{text}", html=True)
        yield "</table>"


def _row(name: str, text: str, *, html: bool = False) -> str:
    return f"<tr><th>{escape(name)}</th><td>{text if html else escape(text)}</td></tr>"


def _kind(shape: dict[str, Any]) -> str:
    """Return what a schema allows, as HTML."""
    if "$ref" in shape:
        name = escape(shape["$ref"].removeprefix(_REF))
        return f'<a href="#{name}"><code>{name}</code></a>'
    if "anyOf" in shape:
        return " or ".join(_kind(one) for one in shape["anyOf"])
    if "enum" in shape:
        return " or ".join(f"<code>{escape(str(value))}</code>" for value in shape["enum"])
    kind = escape(str(shape.get("type", "")))
    if kind == "array":
        return f"list of {_kind(shape.get('items', {}))}"
    return kind
