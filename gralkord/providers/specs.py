"""Model specs, ``provider:model[@base_url]``: how the settings name a model, and what they mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from gralkord.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

Role = Literal["llm", "llm_small", "embedder", "reranker", "vision"]
ROLES: Final[tuple[Role, ...]] = ("llm", "llm_small", "embedder", "reranker", "vision")

OLLAMA_HOST: Final = "OLLAMA_HOST"


@dataclass(frozen=True, slots=True)
class Provider:
    """Somebody who serves models.

    Attributes:
        name: As specs spell it.
        roles: What its models can do here.
        key_variables: Environment variables that may hold its key, the first one that is set wins;
            none: it has no key of its own, and works without.
        base_url: Where it is reached; empty: the spec must say so.
        default_llm: Model that its key alone selects.
        suffix: Path that a base URL without one gets.
    """

    name: str
    roles: frozenset[Role]
    key_variables: tuple[str, ...] = ()
    base_url: str = ""
    default_llm: str = ""
    suffix: str = ""

    @property
    def key_variable(self) -> str:
        """The variable that messages name."""
        return self.key_variables[0] if self.key_variables else ""


_CHAT: Final[frozenset[Role]] = frozenset({"llm", "llm_small", "vision"})
_ALL: Final[frozenset[Role]] = frozenset({*_CHAT, "embedder"})

PROVIDERS: Final[Mapping[str, Provider]] = {
    each.name: each
    for each in (
        # The defaults are those of the library that extracts, graphiti-core 0.31, or of the
        # original program where that has another.
        Provider(
            name="openai",
            roles=_ALL,
            key_variables=("OPENAI_API_KEY",),
            base_url="https://api.openai.com/v1",
            default_llm="gpt-6-luna",
            suffix="/v1",
        ),
        Provider(
            name="google",
            roles=_ALL,
            key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            base_url="https://generativelanguage.googleapis.com/v1beta",
            default_llm="gemini-3.1-flash-lite",
            suffix="/v1beta",
        ),
        Provider(
            name="anthropic",
            roles=_CHAT,
            key_variables=("ANTHROPIC_API_KEY",),
            base_url="https://api.anthropic.com/v1",
            default_llm="claude-haiku-4-5-latest",
            suffix="/v1",
        ),
        Provider(name="openai-compatible", roles=frozenset({*_ALL, "reranker"}), suffix="/v1"),
        Provider(name="ollama", roles=_ALL, base_url="http://127.0.0.1:11434"),
    )
}
# Ways that a client may have completed the address it was given.
_TAILS: Final = re.compile(r"/(chat/completions|embeddings|rerank|messages|api/chat|api/embed)$")
_ADDRESS: Final = re.compile(r"@https?://", re.IGNORECASE)
# An address that does not begin as one should, at the end of what would else be a model's name.
_HALF_ADDRESS: Final = re.compile(r"@(\w+://|[^@/\s]+:\d{1,5}(/|$))")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model as the settings name it.

    Attributes:
        written: The words themselves.
        source: The setting or variable they stand in.
        role: What it is to do.
        provider: Who speaks at the address.
        model: The name of the model there.
        base_url: What the paths of requests are appended to.
    """

    written: str
    source: str
    role: Role
    provider: Provider
    model: str
    base_url: str

    @property
    def name(self) -> str:
        """Provider and model, as the ledger and fingerprints call it."""
        return f"{self.provider.name}:{self.model}"


def supported(role: Role) -> str:
    """Return the specs that *role* takes, for messages."""
    special = {
        "embedder": ["local", "onnx:DIRECTORY", "fastembed:MODEL"],
        "reranker": ["llm"],
        "vision": ["llm"],
    }.get(role, [])
    remote = [
        f"{each.name}:MODEL" + ("" if each.base_url else "@http://HOST:PORT/v1")
        for each in PROVIDERS.values()
        if role in each.roles
    ]
    return ", ".join(["none", *special, *remote])


def parse_spec(
    written: str, source: str, role: Role = "llm", environ: Mapping[str, str] | None = None
) -> ModelSpec | None:
    """Read ``provider:model[@base_url]``; None for ``none`` and for a blank.

    A base URL without a path gets the provider's usual one; one with a path is taken as it is.

    Args:
        written: The spec.
        source: The setting or variable it stands in, for messages.
        role: What the model is to do.
        environ: Environment variables, for the host of Ollama.

    Raises:
        ConfigError: It is not such a spec, or the provider has no models for *role*.
    """
    written = written.strip()
    if written in {"", "none"}:
        return None
    name, _, rest = written.partition(":")
    provider = PROVIDERS.get(name.strip())
    if provider is None or role not in provider.roles:
        raise ConfigError(
            f"{source} is {shown(written)!r}: supported are {supported(role)}", field=source
        )
    at = _ADDRESS.search(rest)
    model, address = (rest[: at.start()], rest[at.start() + 1 :]) if at else (rest, "")
    _check_name(model, written, source)
    base_url = provider.base_url
    if address:
        base_url = _base_url(address, provider, written, source)
    elif provider.name == "ollama" and (host := (environ or {}).get(OLLAMA_HOST, "").strip()):
        base_url = _base_url(_ollama_host(host), provider, host, OLLAMA_HOST)
    if not base_url:
        raise ConfigError(
            f"{source} is {shown(written)!r}: the address is missing; "
            f"write {provider.name}:MODEL@http://HOST:PORT{provider.suffix}",
            field=source,
        )
    return ModelSpec(written, source, role, provider, model.strip(), base_url)


def shown(written: str) -> str:
    """Return *written* without what may be a secret: a user and password, or a query."""
    return re.sub(r"//\S*@", "//", re.sub(r"\?\S*", "?", written))


def _check_name(model: str, written: str, source: str) -> None:
    wrong = ""
    if not model.strip():
        wrong = "the model's name is missing"
    elif not model.isprintable():
        wrong = "the model's name holds a control character"
    elif _HALF_ADDRESS.search(model):
        wrong = "an address begins with http:// or https://"
    if wrong:
        raise ConfigError(f"{source} is {shown(written)!r}: {wrong}", field=source)


def _ollama_host(value: str) -> str:
    """Return the address in Ollama's own variable, which may be ``host``, ``host:port`` or a URL.

    A server that listens everywhere is reached on this machine.
    """
    value = value.rstrip("/")
    if "://" not in value:
        value = f"http://{value}"
    value = value.replace("//0.0.0.0", "//127.0.0.1").replace("//[::]", "//[::1]")
    tail = value.partition("://")[2]
    has_port = re.search(r":\d+$", tail.rpartition("]")[2] if "[" in tail else tail)
    return value if has_port or value.startswith("https") else f"{value}:11434"


def _base_url(address: str, provider: Provider, written: str, source: str) -> str:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:  # its words may be a part of a password
        parts, port = urlsplit(""), None
    if "@" in parts.netloc:
        # Not repeated in the message: it holds a password.
        raise ConfigError(
            f"{source}: an address may not hold a user or password; use models.api_key",
            field=source,
        )
    if (
        parts.scheme not in {"http", "https"}
        or not parts.hostname
        or parts.query
        or parts.fragment
        or not address.isprintable()
        or " " in address
        or port == 0
    ):
        raise ConfigError(
            f"{source} is {shown(written)!r}: not an address of a server", field=source
        )
    path, completed = _TAILS.subn("", parts.path.rstrip("/"))
    if provider.name == "ollama":
        path = path.removesuffix("/v1").removesuffix("/api")
    if not path and not completed:
        path = provider.suffix
    return f"{parts.scheme}://{parts.netloc.lower()}{path}"
