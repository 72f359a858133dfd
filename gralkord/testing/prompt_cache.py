"""What a provider would have cached of a prompt: the beginning that it has read before."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from gralkord.testing.wire import CHARACTERS_PER_TOKEN

BLOCK_TOKENS: Final = 128
LEAST_TOKENS: Final = 1_024
_BLOCK: Final = BLOCK_TOKENS * CHARACTERS_PER_TOKEN
_KEPT: Final = 50_000


class PromptCache:
    """Remembers beginnings of prompts, as OpenAI does: from 1,024 tokens on, in steps of 128."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def enter(self, model: str, prompt: str) -> int:
        """Return how many tokens at the beginning of *prompt* are known, and remember it."""
        digest = hashlib.blake2b(model.encode(), digest_size=16)
        known, unbroken = 0, True
        for start in range(0, len(prompt) - _BLOCK + 1, _BLOCK):
            digest.update(prompt[start : start + _BLOCK].encode(errors="replace"))
            name = digest.digest()
            unbroken = unbroken and name in self._seen
            known += BLOCK_TOKENS * unbroken
            self._seen[name] = None
            self._seen.move_to_end(name)
        while len(self._seen) > _KEPT:
            self._seen.popitem(last=False)
        return known if known >= LEAST_TOKENS else 0
