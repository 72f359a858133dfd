"""One tree of errors. Each class answers "retry or not?" and carries what the user can do.

``retry`` says whether the same request may succeed later without being changed. ``counted`` says
whether an item of work that failed this way has used up one of its attempts: waiting for a model or
a server that is down never does.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar


class GralkorError(Exception):
    """Something went wrong in gralkord."""

    code: ClassVar[str] = "error"
    retry: ClassVar[bool] = False
    counted: ClassVar[bool] = True

    def __init__(
        self,
        message: str | None = None,
        *,
        field: str | None = None,
        limit: float | str | None = None,
        hint: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.message = message or (type(self).__doc__ or self.code).splitlines()[0]
        self.field = field
        self.limit = limit
        self.hint = hint
        self.retry_after = retry_after
        super().__init__(self.message)

    def to_dict(self) -> dict[str, object]:
        """Return the wire form: ``code``, ``message``, ``retry`` and what else is known."""
        known = {
            "field": self.field,
            "limit": self.limit,
            "hint": self.hint,
            "retry_after": self.retry_after,
        }
        return {"code": self.code, "message": self.message, "retry": self.retry} | {
            key: value for key, value in known.items() if value is not None
        }


class Transient(GralkorError):
    """A part failed for now; the same work may succeed later."""

    code = "transient"
    retry = True


class BackendUnavailable(Transient):
    """The queue Redis or the graph FalkorDB does not answer."""

    code = "backend_unavailable"
    counted = False


class QueueFull(Transient):
    """The queue refuses new work until some of the backlog is done."""

    code = "queue_full"


class TooMany(Transient):
    """As many requests of this kind are under way as the daemon takes at a time."""

    code = "too_many"


class RateLimited(Transient):
    """The model provider asks for fewer requests."""

    code = "rate_limited"
    counted = False


class ModelOutage(Transient):
    """The model provider does not answer."""

    code = "model_outage"
    counted = False


class BudgetSpent(Transient):
    """What may be spent on models today is spent; understanding goes on tomorrow."""

    code = "budget_spent"
    counted = False


class AnswerTimeout(Transient):
    """The model did not finish this answer in time, though it answers others."""

    code = "answer_timeout"


class MalformedOutput(Transient):
    """The model's answer did not fit the schema, also after one repair turn.

    Attributes:
        raw: What the model wrote, or as much as is kept of it; for the dead letter only.
    """

    code = "malformed_output"
    raw: str = ""


class InterpretParseFailed(Transient):
    """The model's interpretation of memories is cut off, or is none.

    Attributes:
        raw: What the model wrote; it is memory, so it stands in no message.
    """

    code = "interpret_parse_failed"
    raw: str = ""


class ProcessFailed(Transient):
    """An ingestion process of the user's own has raised an error, or did not end in time."""

    code = "process_failed"


class NotYet(Transient):
    """The work waits for other work that is still under way."""

    code = "not_yet"
    counted = False


class LeaseLost(Transient):
    """Another process holds the lease now; this one must stop and write nothing more."""

    code = "lease_lost"
    counted = False


class DeadlineExpired(Transient):
    """The deadline passed before there was anything to answer."""

    code = "recall_deadline_expired"


class Permanent(GralkorError):
    """The request can never succeed as it is."""

    code = "permanent"


class InvalidInput(Permanent):
    """A field of the request is not acceptable."""

    code = "invalid_input"


class Malformed(InvalidInput):
    """The body is not JSON."""

    code = "malformed"


class GeneralisationParseFailed(InvalidInput):
    """A text that begins as a generalisation is passed on cannot be read as one.

    Attributes:
        raw: The text; it is memory, so it stands in no message.
    """

    code = "generalisation_parse_failed"
    raw: str = ""


class TooLarge(InvalidInput):
    """The body is larger than the limit."""

    code = "too_large"


class WrongMediaType(InvalidInput):
    """The body is not sent as JSON."""

    code = "wrong_media_type"


class SessionConflict(Permanent):
    """The session is bound to another operator or agent."""

    code = "session_conflict"


class UnknownLens(Permanent):
    """No lens of that name is configured."""

    code = "unknown_lens"


class NotFound(Permanent):
    """There is nothing of that name."""

    code = "not_found"


class Unauthorized(Permanent):
    """The request carries no valid token."""

    code = "unauthorized"


class Forbidden(Permanent):
    """The request comes from a place that may not call."""

    code = "forbidden"


class WrongMethod(Permanent):
    """The path exists, but not with this method."""

    code = "wrong_method"


class InternalError(Permanent):
    """The daemon met an error of its own; its log has the details."""

    code = "internal"


class QueryRefused(Permanent):
    """The graph refused a query: its text or a value in it is not acceptable."""

    code = "query_refused"


class NoModel(Permanent):
    """No language model is configured."""

    code = "no_model"


class ConfigError(Permanent):
    """The configuration is not acceptable."""

    code = "config_error"


class StartError(Permanent):
    """A process could not be started."""

    code = "start_error"


def rebuild_error(content: Any) -> GralkorError | None:
    """Return the error whose wire form is *content*, or nothing if it is no such form."""
    if not isinstance(content, dict) or not isinstance(content.get("message"), str):
        return None
    code = content.get("code")
    kind = _classes().get(str(code)) or (Transient if content.get("retry") else Permanent)
    return kind(
        content["message"],
        field=content.get("field"),
        limit=content.get("limit"),
        hint=content.get("hint"),
        retry_after=content.get("retry_after"),
    )


@cache
def _classes() -> dict[str, type[GralkorError]]:
    """Return the error classes by code; what single modules derive does not go over the wire."""
    kinds = (kind for kind in globals().values() if isinstance(kind, type))
    return {kind.code: kind for kind in kinds if issubclass(kind, GralkorError)}
