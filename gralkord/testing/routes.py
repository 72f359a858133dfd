"""The addresses at which the scripted model server is asked, as each provider has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from gralkord.testing.service import ModelService
from gralkord.testing.wire import MODEL, Problem, WireFormat
from gralkord.testing.wire_anthropic import AnthropicWire
from gralkord.testing.wire_google import GoogleWire
from gralkord.testing.wire_ollama import OllamaWire
from gralkord.testing.wire_openai import OpenAIWire
from gralkord.testing.wire_rerank import RerankWire

Ask = Callable[[Request, WireFormat, str], Awaitable[Response]]


def add_models(app: FastAPI, service: ModelService) -> None:
    """Let *app* answer as the providers do."""
    for path, ask, wire in (
        ("/v1/chat/completions", service.chat, OpenAIWire()),
        ("/v1/embeddings", service.embed, OpenAIWire()),
        ("/v1/messages", service.chat, AnthropicWire()),
        ("/v1/rerank", service.embed, RerankWire("documents")),
        ("/rerank", service.embed, RerankWire("texts")),
        ("/api/chat", service.chat, OllamaWire()),
        ("/api/embed", service.embed, OllamaWire()),
    ):
        app.add_api_route(path, _handler(ask, wire), methods=["POST"])
    app.add_api_route("/v1beta/models/{asked:path}", _google(service), methods=["POST"])

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "gralkord"}
        return {"object": "list", "data": [model]}

    @app.get("/api/tags")
    async def tags() -> dict[str, Any]:
        return {"models": [{"name": MODEL, "model": MODEL}]}


def _handler(ask: Ask, wire: WireFormat) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        return await ask(request, wire, "")

    return handle


def _google(service: ModelService) -> Callable[[Request, str], Awaitable[Response]]:
    wire: Final = GoogleWire()
    asks = {
        "generateContent": service.chat,
        "embedContent": service.embed,
        "batchEmbedContents": service.embed,
    }

    async def handle(request: Request, asked: str) -> Response:
        model, _, what = asked.partition(":")
        if what not in asks:
            return JSONResponse(wire.problem(Problem(404, f"no method {what}")), 404)
        return await asks[what](request, wire, model)

    return handle
