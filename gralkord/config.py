"""Settings: flag, environment, file, default, in that order; unknown keys are refused.

The environment spells a key of the file in capitals with two underscores for each dot:
``recall.deadline_ms`` is ``GRALKORD_RECALL__DEADLINE_MS``.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from gralkord.errors import ConfigError
from gralkord.mailbox.keys import Lane
from gralkord.models import Identifier

ENV_PREFIX: Final = "GRALKORD_"
DEFAULT_PORT: Final = 7767

# What is said to be unlimited by a larger number would not fit where it goes.
_MOST_MB: Final = 1_048_576
_MOST_WAITING: Final = 1_000_000_000

# Read by the command line and the client to find a daemon; not settings of the daemon itself.
NOT_SETTINGS: Final = frozenset(
    {"CONFIG", "DATA_DIR", "URL", "TOKEN", "TOKEN_FILE", "OPERATOR", "LOG_LEVEL"}
)


def _not_blank(value: Any) -> Any:
    """Refuse a blank path, which would be the current directory."""
    if isinstance(value, str) and not value.strip():
        raise ValueError("must not be blank")
    return value


Place = Annotated[Path, BeforeValidator(_not_blank)]


class Section(BaseModel):
    """A part of the settings: frozen, and strict about names."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Server(Section):
    """How to reach a Redis or FalkorDB. With neither `host` nor `socket` it is embedded."""

    host: str | None = Field(
        None, min_length=1, description="Host name or address of a remote server."
    )
    port: int = Field(6379, gt=0, lt=65536, description="Port of a remote server.")
    socket: Place | None = Field(None, description="Unix socket of a local server.")
    username: str | None = Field(None, description="User of the server's ACL.")
    password: SecretStr | None = Field(None, description="Password, if the server asks for one.")
    password_file: Place | None = Field(None, description="File that holds the password.")
    tls: bool = Field(False, description="Speak TLS; the server's certificate is checked.")
    tls_ca: Place | None = Field(
        None, description="CA certificates to trust, instead of the system's."
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.host and self.socket:
            raise ValueError("give host or socket, not both")
        if not self.remote and (self.tls or self.password or self.password_file or self.username):
            raise ValueError("host is missing: a user, password or TLS needs a remote server")
        if self.password and self.password_file:
            raise ValueError("give password or password_file, not both")
        return self

    @property
    def remote(self) -> bool:
        """Whether somebody else runs this server."""
        return self.host is not None or self.socket is not None

    def secret(self) -> str | None:
        """Return the password, from the file if it stands there.

        Raises:
            ConfigError: The file cannot be read.
        """
        if self.password_file is None:
            return self.password.get_secret_value() if self.password else None
        try:
            return self.password_file.read_text().strip()
        except OSError as error:
            raise ConfigError(
                f"password_file {self.password_file} cannot be read: {error.strerror}",
                field="password_file",
            ) from error


class Rpc(Section):
    """Where the daemon listens."""

    host: str = Field("127.0.0.1", description="Address of the HTTP port; loopback only.")
    port: int = Field(DEFAULT_PORT, ge=0, lt=65536, description="HTTP port; 0 takes a free one.")
    allowed_origins: list[str] = Field(
        default_factory=list, description="Web origins, besides the daemon's own, that may call."
    )

    @model_validator(mode="after")
    def _loopback(self) -> Self:
        if self.host not in {"127.0.0.1", "::1", "localhost"}:
            raise ValueError("host must be 127.0.0.1, ::1 or localhost")
        return self


class CaptureSettings(Section):
    """When a session's buffered turns are handed over to be understood."""

    idle_seconds: float = Field(
        600, ge=0, le=31_536_000, description="Flush after so long without a turn; 0: never."
    )
    flush_turns: int = Field(
        40, gt=0, le=1_000_000, description="Flush when so many turns are buffered."
    )
    flush_bytes: int = Field(
        32_768, gt=0, le=1_000_000_000, description="Flush when so many bytes are buffered."
    )


class Queue(Server):
    """The queue Redis."""

    durability: Literal["always", "everysec"] = Field(
        "always", description="When the embedded queue syncs its file: each write, or each second."
    )
    max_memory_mb: int = Field(
        512, ge=64, le=_MOST_MB, description="Memory limit of the embedded queue."
    )
    intake_limit: int = Field(
        200_000,
        gt=0,
        le=_MOST_WAITING,
        description="Captures are refused while so many wait to be routed.",
    )
    backlog_limit: int = Field(
        20_000,
        gt=0,
        le=_MOST_WAITING,
        description="Captures of an operator are refused while so many items wait for one of its "
        "groups.",
    )
    producer_user: str | None = Field(
        None,
        description="ACL user of producers that write to the stream themselves; it may not while "
        "intake is closed. The embedded queue makes one named `producer`.",
    )

    @model_validator(mode="after")
    def _producers(self) -> Self:
        user = self.producer_user
        if user is not None and (user.split() != [user] or not user.isprintable()):
            raise ValueError("producer_user must be a name without blanks")
        if user == (self.username or "default"):
            raise ValueError("producer_user must not be the user that the daemon itself logs in as")
        return self


class Graph(Server):
    """The graph FalkorDB."""

    read_timeout_ms: int = Field(
        1_000, gt=0, le=600_000, description="Limit of one read outside recall."
    )


class Models(Section):
    """Which models do the understanding."""

    llm: str | None = Field(
        None,
        description="`none`, `openai:MODEL`, or `openai-compatible:MODEL@BASE_URL`; default: "
        "OpenAI's small model if OPENAI_API_KEY is set, else `none`.",
    )
    llm_small: str | None = Field(None, description="For small jobs; default: the same as `llm`.")
    embedder: Literal["local", "none"] = Field(
        "local", description="`local` (wordllama, nothing is downloaded) or `none`."
    )
    api_key: SecretStr | None = Field(
        None, description="Key for `llm`; default for `openai`: OPENAI_API_KEY."
    )
    api_key_file: Place | None = Field(None, description="File that holds the key.")
    timeout_seconds: float = Field(120, gt=0, le=3_600, description="Limit of one model call.")
    concurrency: int = Field(8, gt=0, le=1_024, description="Model calls at once, per process.")


class RecallSettings(Section):
    """How recall answers."""

    deadline_ms: int = Field(12_000, gt=0, le=600_000, description="Wall-clock limit of a recall.")
    cache_mb: int = Field(
        1_024, gt=0, le=_MOST_MB, description="Memory for group caches in one process."
    )


class Leases(Section):
    """How long a process may be silent before another takes its work over.

    A shorter lease is a sooner takeover, and more work done twice when a process was only slow.
    """

    index_seconds: float = Field(10, ge=1, le=600, description="Lease of a group's index lane.")
    understand_seconds: float = Field(
        30, ge=1, le=600, description="Lease of a group's understand lane."
    )
    router_seconds: float = Field(4, ge=1, le=60, description="Lease of the router.")

    def milliseconds(self) -> dict[Lane, int]:
        """Return the leases of the lanes in ms."""
        return {
            "index": int(self.index_seconds * 1000),
            "understand": int(self.understand_seconds * 1000),
        }


class Worker(Section):
    """The understand lane."""

    threads: int = Field(4, gt=0, le=256, description="Groups understood at once, per process.")


class Lens(Section):
    """A named channel into memory."""

    scope: Literal["operator", "global"] = Field(
        "operator", description="`operator`: each its own memory; `global`: one per tenant."
    )
    ingestion: Literal["store"] = Field("store", description="The ingestion process.")


class Settings(Section):
    """Everything that can be set."""

    data_dir: Place | None = Field(None, description="Where the embedded servers keep their files.")
    queue: Queue = Field(default_factory=Queue)
    graph: Graph = Field(default_factory=Graph)
    rpc: Rpc = Field(default_factory=Rpc)
    capture: CaptureSettings = Field(default_factory=CaptureSettings)
    models: Models = Field(default_factory=Models)
    recall: RecallSettings = Field(default_factory=RecallSettings)
    leases: Leases = Field(default_factory=Leases)
    worker: Worker = Field(default_factory=Worker)
    lenses: dict[Identifier, Lens] = Field(
        default_factory=dict, description="Lenses besides `default`, by name."
    )

    @model_validator(mode="after")
    def _lens_names(self) -> Self:
        for reserved in ("default", "global"):
            if reserved in self.lenses:
                raise ValueError(f"lenses: the name {reserved!r} is reserved")
        return self


def load_settings(
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the settings: *overrides* over *environ* over the file at *path* over the defaults.

    Args:
        path: A TOML file; default: the one that ``GRALKORD_CONFIG`` names, if any.
        environ: Environment variables; default: those of this process.
        overrides: Dotted key to value, as given by command-line flags; ``None`` values are ignored.

    Raises:
        ConfigError: A file that cannot be read, an unknown key, or a value out of its range.
    """
    environ = os.environ if environ is None else environ
    if path is None and environ.get(ENV_PREFIX + "CONFIG"):
        path = Path(environ[ENV_PREFIX + "CONFIG"])
    tree = _read_toml(path) if path else {}
    for key, value in _from_environ(environ).items():
        _put(tree, key, value)
    for key, value in (overrides or {}).items():
        if value is not None:
            _put(tree, key, value)
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        place = [str(part) for part in first["loc"]]
        message = str(first["msg"]).removeprefix("Value error, ")
        if place[-1:] == ["[key]"]:  # not a value but the name of a lens is wrong
            message = f"the name {place[-2][:64]!r}: {message}"
            place = place[:-2]
        key = ".".join(place)
        if first["type"] == "extra_forbidden":
            message = "no such setting"
        raise ConfigError(f"{key}: {message}" if key else message, field=key or None) from None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in environ.items():
        key = name.removeprefix(ENV_PREFIX)
        if key == name or key in NOT_SETTINGS:
            continue
        found[key.lower().replace("__", ".")] = value
    return found


def _put(tree: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    for parent in parents:
        branch = tree.setdefault(parent, {})
        if not isinstance(branch, dict):
            raise ConfigError(f"{parent} is a section, not a value", field=parent)
        tree = branch
    tree[last] = value
