"""How embedders want their texts: what stands before a question, and before what is remembered.

A model that was trained with such words finds much less without them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gralkord.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gralkord.config import ModelOptions

_TASK: Final = "Given a question, retrieve passages of a memory that help to answer it"


@dataclass(frozen=True, slots=True)
class Profile:
    """What is put before texts.

    Attributes:
        name: As the settings call it; part of fingerprints.
        query: Put before questions.
        document: Put before what is remembered.
        tasks: Whether the request itself tells questions from documents, where it can.
    """

    name: str
    query: str = ""
    document: str = ""
    tasks: bool = False

    @property
    def label(self) -> str:
        """What fingerprints call it.

        Prefixes of questions are no part of it: they change no vector that is stored.
        """
        known = PROFILES.get(self.name)
        if known is not None and known.document == self.document:
            return self.name
        return "prefix-" + hashlib.blake2b(self.document.encode(), digest_size=4).hexdigest()

    def prepare(self, text: str, *, query: bool) -> str:
        """Return *text* as the model wants it."""
        return (self.query if query else self.document) + text


PROFILES: Final[Mapping[str, Profile]] = {
    each.name: each
    for each in (
        Profile("plain"),
        Profile("e5", "query: ", "passage: "),
        Profile("e5-instruct", f"Instruct: {_TASK}\nQuery: "),
        Profile("qwen3", f"Instruct: {_TASK}\nQuery:"),
        Profile("bge", "Represent this sentence for searching relevant passages: "),
        Profile("nomic", "search_query: ", "search_document: "),
        Profile("gemma", "task: search result | query: ", "title: none | text: "),
        Profile("mxbai", "Represent this sentence for searching relevant passages: "),
        Profile("arctic", "query: "),
        # The provider is told by a field of the request.
        Profile("task", tasks=True),
    )
}
# By a model's name, in this order.
_BY_NAME: Final = (
    (r"e5.*instruct", "e5-instruct"),
    (r"(^|[/_-])e5([/_-]|$)|multilingual-e5", "e5"),
    (r"qwen3[-_]?embedding", "qwen3"),
    (r"bge-(small|base|large)-en", "bge"),
    (r"nomic-embed", "nomic"),
    (r"embeddinggemma|embedding-gemma|gemini-embedding-2", "gemma"),
    (r"mxbai-embed", "mxbai"),
    (r"arctic-embed", "arctic"),
    (r"gemini-embedding-001|^text-embedding-00\d", "task"),
)


def profile_of(model: str, options: ModelOptions, source: str) -> Profile:
    """Return the profile that the settings name, else the one that fits the model's name.

    Args:
        model: The model's name.
        options: What the settings say of it.
        source: The setting that names the model, for messages.

    Raises:
        ConfigError: There is no such profile.
    """
    if options.profile is not None and options.profile not in PROFILES:
        raise ConfigError(
            f"models.options: {options.profile!r}, for what {source} names, is no profile; "
            f"there are {', '.join(sorted(PROFILES))}",
            field="models.options",
        )
    name = options.profile or _by_name(model)
    known = PROFILES[name]
    return Profile(
        known.name,
        known.query if options.query_prefix is None else options.query_prefix,
        known.document if options.document_prefix is None else options.document_prefix,
        known.tasks,
    )


def _by_name(model: str) -> str:
    for pattern, name in _BY_NAME:
        if re.search(pattern, model.lower()):
            return name
    return "plain"
