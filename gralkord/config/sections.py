"""All settings, by sections."""

from __future__ import annotations

import unicodedata
from typing import Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from gralkord.config.base import MOST_MB, MOST_WAITING, Host, Place, Section
from gralkord.config.lenses import Agent, Consolidate, DefaultLens, Generalise, Lens
from gralkord.config.models import Budget, Models
from gralkord.errors import ConfigError
from gralkord.mailbox.keys import Lane
from gralkord.models import Identifier
from gralkord.models.recall import MAX_TOKENS

DEFAULT_PORT: Final = 7767
RESERVED_LENSES: Final = ("default", "global")


class Server(Section):
    """How to reach a Redis or FalkorDB. With neither `host` nor `socket` it is embedded."""

    host: Host | None = Field(None, description="Host name or address of a remote server.")
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
        512, ge=64, le=MOST_MB, description="Memory limit of the embedded queue."
    )
    intake_limit: int = Field(
        200_000,
        gt=0,
        le=MOST_WAITING,
        description="Captures are refused while so many wait to be routed.",
    )
    backlog_limit: int = Field(
        20_000,
        gt=0,
        le=MOST_WAITING,
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


class RecallSettings(Section):
    """How recall answers."""

    deadline_ms: int = Field(12_000, gt=0, le=600_000, description="Wall-clock limit of a recall.")
    cache_mb: int = Field(
        1_024, gt=0, le=MOST_MB, description="Memory for group caches in one process."
    )
    max_tokens: int | None = Field(
        None,
        gt=0,
        le=MAX_TOKENS,
        description="Tokens that the memory block of an answer takes at most, unless a request "
        "says another limit.",
    )
    token_counter: str | None = Field(
        None,
        min_length=1,
        description="What counts tokens: `package.module:function`, which is given a text and "
        "returns a number. Default: an estimate by the number of characters.",
    )
    concurrency: int = Field(
        64,
        gt=0,
        le=MOST_WAITING,
        description="Recalls at once in one process that have everything. Beyond it models are "
        "left out; beyond four times as many, recalls are refused with 429.",
    )
    interpret: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Whether the language model picks what helps of what was found: `auto`: if "
        "there is one and it answers in half of the time; `on`: as long as there is time; `off`.",
    )
    interpret_tokens: int = Field(
        2_000, gt=0, le=100_000, description="Limit of the model's answer when it interprets."
    )
    rerank: Literal["off", "relevant_only", "full_reorder"] = Field(
        "off",
        description="Whether `models.reranker` puts what was found in order: all of it, or only "
        "what it gives a score above 0, which goes first.",
    )
    rerank_items: int = Field(
        30, gt=1, le=200, description="How many memories the reranker is shown."
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


class Settings(Section):
    """Everything that can be set."""

    data_dir: Place | None = Field(None, description="Where the embedded servers keep their files.")
    test: bool = Field(
        False,
        description="Log contents, too: bodies of requests and answers, prompts, and what models "
        "say, at level `debug`, which is then the usual one. Not where memories are real.",
    )
    queue: Queue = Field(default_factory=Queue)
    graph: Graph = Field(default_factory=Graph)
    rpc: Rpc = Field(default_factory=Rpc)
    capture: CaptureSettings = Field(default_factory=CaptureSettings)
    models: Models = Field(default_factory=Models)
    budget: Budget = Field(default_factory=Budget)
    recall: RecallSettings = Field(default_factory=RecallSettings)
    leases: Leases = Field(default_factory=Leases)
    worker: Worker = Field(default_factory=Worker)
    default_lens: DefaultLens = Field(default_factory=DefaultLens)
    lenses: dict[Identifier, Lens] = Field(
        default_factory=dict, description="Lenses besides `default`, by name."
    )
    lenses_from: str | None = Field(
        None,
        min_length=1,
        description="More lenses, written in Python: `package.module:name` of a mapping from names "
        "to what stands in a table `lenses.NAME`.",
    )
    agents: dict[Identifier, Agent] = Field(
        default_factory=dict, description="Agents with lenses of their own, by name."
    )
    generalise: Generalise = Field(default_factory=Generalise)
    consolidate: Consolidate = Field(default_factory=Consolidate)

    @field_validator("lenses")
    @classmethod
    def _lens_names(cls, lenses: dict[str, Lens]) -> dict[str, Lens]:
        seen: dict[str, str] = {}
        for name in lenses:
            if name != name.strip():
                raise ValueError(f"the name {name[:64]!r} has blanks around it")
            folded = unicodedata.normalize("NFKC", name).casefold()
            if folded in RESERVED_LENSES:
                raise ValueError(f"the name {name[:64]!r} is reserved")
            if folded in seen:
                raise ValueError(f"{seen[folded][:64]!r} and {name[:64]!r} are one name")
            seen[folded] = name
        return lenses

    @model_validator(mode="after")
    def _agents_lenses(self) -> Self:
        known = {"default", *self.lenses}
        for name, agent in self.agents.items():
            named: dict[str, list[str | None]] = {
                "default_lens": [agent.default_lens],
                "generalise_lens": [agent.generalise_lens],
                "search_lenses": [lens for lens in agent.search_lenses if lens != "global"],
            }
            for key, lenses in named.items():
                unknown = [lens for lens in lenses if lens is not None and lens not in known]
                if unknown:
                    raise ValueError(
                        f"agents.{name[:64]}.{key}: no lens is named {unknown[0][:64]!r}"
                    )
        return self
