"""A call to a model that is to be made, and when it may be."""

from __future__ import annotations

from dataclasses import dataclass, field

from gralkord.providers.endpoint import Limits


@dataclass(frozen=True, slots=True)
class Planned:
    """A call that is to be made.

    Attributes:
        id: Tells it from every other call of any process.
        endpoint: Where, as `gralkord.providers.endpoint.Endpoint.name`.
        limits: What the settings say that may be asked of it.
        tokens: How many it will use, both ways, as far as that can be told before.
        lane: Whether nothing can be understood while that endpoint is out.
    """

    id: str
    endpoint: str
    limits: Limits = field(default_factory=Limits)
    tokens: int = 0
    lane: bool = True


@dataclass(frozen=True, slots=True)
class Turn:
    """When a call may be made.

    Attributes:
        wait: Seconds until then, or until it is worth asking again.
        start: That moment, in ms of the limiter's own clock; 0: no turn is reserved yet.
        held: Whether the limiter wants to hear how the call goes.
        far: Whether that is too far off to be waited for; nothing is reserved then.
        out: Whether the endpoint is known not to answer, and others try whether it is back.
        probe: Whether this call is the one that tries.
    """

    wait: float = 0.0
    start: int = 0
    held: bool = False
    far: bool = False
    out: bool = False
    probe: bool = False
