"""What became of a request: the wire model of answers that were not waited for."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gralkord.models.base import Wire


class Result(Wire):
    """What became of a request to change the graph."""

    id: str = Field(description="Its id, to ask again with for 7 days.")
    complete: bool = Field(description="Whether it is done; else it waits or is under way.")
    answer: dict[str, Any] | None = Field(None, description="What came of it, once it is done.")
