"""Images in words, by every provider's model that sees."""

from __future__ import annotations

import struct

import pytest

from gralkord.config import Models
from gralkord.errors import ConfigError, InvalidInput, TooLarge
from gralkord.providers.base import Image
from gralkord.providers.build import Builder
from gralkord.testing.model_server import ScriptedModelServer

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 3, 2) + b"\x08\x02\x00\x00\x00"


@pytest.fixture(scope="module")
def server():
    with ScriptedModelServer() as running:
        yield running


@pytest.mark.parametrize("provider", ["openai-compatible", "anthropic", "google", "ollama"])
async def test_an_image_is_described(server, provider):
    """The image arrives whole, whatever the format, and comes back in words."""
    models = Models(vision=server.spec_of(provider), vision_api_key="k")
    vision = Builder.of(models, {}).vision()
    said = await vision.describe(Image("image/png", PNG), about="a cat")
    assert said == f"An image of {len(PNG)} bytes, a PNG of 3 by 2."
    assert "a cat" in server.requests[-1].prompt
    await vision.close()


async def test_the_language_model_may_see(server):
    """`llm` is the language model's own model and key."""
    vision = Builder.of(
        Models(llm=server.spec_of("google"), api_key="k", vision="llm"), {}
    ).vision()
    assert await vision.describe(Image("image/png", PNG))
    assert server.requests[-1].authorized
    await vision.close()
    with pytest.raises(ConfigError, match=r"models\.vision is 'llm', but models\.llm names none"):
        Builder.of(Models(vision="llm"), {}).vision()
    assert Builder.of(Models(), {}).vision() is None


async def test_what_is_no_image_is_not_sent(server):
    """Other files, and images that are too large for some provider, are refused here."""
    vision = Builder.of(Models(vision=server.spec), {}).vision()
    before = len(server.requests)
    with pytest.raises(InvalidInput, match="application/pdf"):
        await vision.describe(Image("application/pdf", b"%PDF"))
    with pytest.raises(TooLarge):
        await vision.describe(Image("image/png", bytes(4_000_000)))
    assert len(server.requests) == before
