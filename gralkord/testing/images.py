"""What the scripted model sees: the kind and the size of an image."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from gralkord.providers.base import Image

_PNG: Final = b"\x89PNG\r\n\x1a\n"


def described(images: Sequence[Image]) -> dict[str, Any]:
    """Answer ImageDescription: what can be told of each image without eyes."""
    said = [f"An image of {len(image.data)} bytes{_size(image.data)}." for image in images]
    return {"description": " ".join(said) or "There is no image."}


def _size(data: bytes) -> str:
    if not data.startswith(_PNG) or len(data) < 24:
        return ""
    width, height = struct.unpack(">II", data[16:24])
    return f", a PNG of {width} by {height}"
