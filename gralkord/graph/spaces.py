"""Which of a group's vectors count: those of its present space, told by a tag in front of them.

See docs/explanation/vectors.md. A tag is as in ``4711:``, and empty until a group has moved to
another embedder for the first time; base64 has no colon.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

# How many characters of a vector tell its tag and the words it was made of.
HEAD: Final = 40

# What follows is for queries in which `m` is Meta, `$embedder` the fingerprint of the vectors in
# `row.vector`, empty if there are none, and `$embeds` whether the rows ought to have vectors.

# A group without vectors is of the space of the first that come; where vectors were left out, it is
# noted that rows wait for theirs.
ENTER: Final = (
    "SET m.embedder = CASE WHEN m.embedder = '' THEN $embedder ELSE m.embedder END, "
    "m.unembedded = CASE WHEN $embeds AND ($embedder = '' OR NOT m.embedder IN ['', $embedder]) "
    "THEN m.seq ELSE m.unembedded END "
)
# A vector of another embedder than the group's own is left out: two spaces in one group could not
# be told apart.
OURS: Final = (
    "CASE WHEN $embedder <> '' AND m.embedder = $embedder "
    "THEN coalesce(m.space, '') + row.vector END"
)
# The same for many rows, worked out once.
ONCE: Final = (
    "WITH m, $embedder <> '' AND m.embedder = $embedder AS ours, coalesce(m.space, '') AS tag, "
    "CASE WHEN $embeds AND ($embedder = '' OR m.embedder <> $embedder) THEN true END AS waits"
)
# What a reader takes as the vector of `x`; `$space` is the tag. `of_space` has the last word.
READ: Final = "CASE WHEN x.vector STARTS WITH $space THEN x.vector ELSE x.vector_next END"

META: Final = "m.embedder, coalesce(m.space, '')"


@dataclass(frozen=True, slots=True)
class Space:
    """The space of a group's vectors.

    Attributes:
        embedder: Its fingerprint; empty if the group has no vectors.
        tag: What stands in front of each vector.
    """

    embedder: str = ""
    tag: str = ""


NO_SPACE: Final = Space()


def of_space(text: str | None, tag: str) -> str | None:
    """Return a stored vector without its tag and hash; None if it is of another space, or empty."""
    if not text or not text.startswith(tag) or (not tag and ":" in text):
        return None
    return text.rpartition(":")[2] or None


def vector_of(vector: str | None, vector_next: str | None, tag: str) -> str | None:
    """Return the vector of a row that has these two properties."""
    return of_space(vector, tag) or of_space(vector_next, tag)


def head_of(tag: str, words: str) -> str:
    """Return what stands in front of a vector in the space *tag* that was made of *words*."""
    return f"{tag}{hashlib.blake2b(words.encode(), digest_size=8).hexdigest()}:"


def waits(x: str) -> str:
    """Return the value of `unembedded` of a row *x* that was written just before, as Cypher."""
    return (
        f"CASE WHEN $embeds AND {x}.vector IS NULL AND ($embedder = '' OR "
        f"m.embedder <> $embedder) THEN true WHEN {x}.vector IS NULL THEN {x}.unembedded END"
    )
