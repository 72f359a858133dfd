"""How each provider wants to be asked, and how it answers."""

from __future__ import annotations

from gralkord.providers.endpoint import Endpoint
from gralkord.providers.formats.anthropic import AnthropicFormat
from gralkord.providers.formats.base import Ask, ChatFormat, Reply, Request
from gralkord.providers.formats.google import GoogleFormat
from gralkord.providers.formats.ollama import OllamaFormat
from gralkord.providers.formats.openai import OpenAIFormat

__all__ = ["Ask", "ChatFormat", "Reply", "Request", "chat_format"]


def chat_format(endpoint: Endpoint) -> ChatFormat:
    """Return the format in which the language model at *endpoint* is asked first."""
    options = dict(endpoint.options)
    match endpoint.provider:
        case "anthropic":
            return AnthropicFormat(endpoint.model, options, thinking=endpoint.thinking)
        case "google":
            return GoogleFormat(endpoint.model, options)
        case "ollama":
            return OllamaFormat(endpoint.model, options, thinking=endpoint.thinking)
        case _:
            return OpenAIFormat(endpoint.model, options, limit_name=endpoint.limit_name)
