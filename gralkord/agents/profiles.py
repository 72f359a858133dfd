"""What does not belong to a message is stripped from it: injected memory, metadata envelopes.

Injected memory that is captured again becomes a memory of its own, and the next recall finds it
twice. Metadata that a channel puts before a message (ids, times, who wrote it) is nobody's words.

A profile knows one kind of such text. Users add their own with `tag_profile` and `pattern_profile`,
or write a function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from gralkord.agents.envelopes import Stripped, strip_channel
from gralkord.agents.tags import TagStripper
from gralkord.errors import ConfigError
from gralkord.models import Role, check_id

__all__ = ["DEFAULT_PROFILES", "Profile", "Stripped", "pattern_profile", "strip", "tag_profile"]

_EVERY_ROLE: Final[frozenset[Role]] = frozenset({"user", "behaviour", "assistant"})
_USERS: Final[frozenset[Role]] = frozenset({"user"})
_MANY_LINES: Final = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of text that is stripped.

    Attributes:
        name: What errors call it.
        strip: Takes the text of a message, returns what is left of it and who wrote it, if it says.
        roles: The messages that may have it.
    """

    name: str
    strip: Callable[[str], Stripped]
    roles: frozenset[Role] = _EVERY_ROLE


def tag_profile(name: str, tags: Iterable[str], roles: Iterable[Role] = _EVERY_ROLE) -> Profile:
    """Return a profile that strips blocks such as ``<tag …>…</tag>``.

    Args:
        name: What errors call it.
        tags: Names of the tags, such as ``recalled-notes``; capitals or not.
        roles: The messages that may have it.

    Raises:
        ConfigError: There is no tag, or one that cannot be a tag's name.
    """
    names = list(tags)
    for tag in names:
        if not re.fullmatch(r"[A-Za-z_][\w.:-]*", tag):
            raise ConfigError(f"profile {name!r}: {tag[:64]!r} is no name of a tag", field="tags")
    if not names:
        raise ConfigError(f"profile {name!r}: no tag is given", field="tags")
    stripper = TagStripper("|".join(map(re.escape, names)))
    return Profile(name, lambda text: Stripped(stripper.strip(text)), frozenset(roles))


def pattern_profile(name: str, patterns: Iterable[str], roles: Iterable[Role] = _USERS) -> Profile:
    r"""Return a profile that strips what regular expressions match.

    Args:
        name: What errors call it.
        patterns: Expressions; ``^`` and ``$`` are the ends of the message. A group named
            ``speaker`` says who wrote it: ``^\[(?P<speaker>[^\]]+) via relay\] ``.
        roles: The messages that may have it.

    Raises:
        ConfigError: An expression is not valid.
    """
    compiled: list[re.Pattern[str]] = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise ConfigError(
                f"profile {name!r}: {pattern[:64]!r} is no regular expression: {error}",
                field="patterns",
            ) from None
    return Profile(name, lambda text: _strip_patterns(compiled, text), frozenset(roles))


def _strip_patterns(patterns: Iterable[re.Pattern[str]], text: str) -> Stripped:
    speaker = None
    for pattern in patterns:
        found = pattern.search(text)
        if found and speaker is None and "speaker" in pattern.groupindex:
            speaker = found["speaker"]
        text = pattern.sub("", text)
    return Stripped(text, speaker)


# Blocks of gralkord, of what it is a successor to, and of other memories that agents inject.
_MEMORY: Final = TagStripper(
    r"(?:gralkord?|engram|mnemostack)[-_][\w-]+"
    r"|(?:relevant|recalled|retrieved|injected|long[-_]?term)[-_]memor(?:y|ies)"
    r"|(?:memory|memories|supermemory|hindsight|mem0)[-_](?:context|block|recall|memories)"
)
REMINDERS: Final = tag_profile("reminders", ["system-reminder", "system_reminder"])
CHANNELS: Final = Profile("channels", strip_channel, frozenset({"user", "assistant"}))
DEFAULT_PROFILES: Final = (REMINDERS, CHANNELS)


def strip(text: str, role: Role, profiles: Iterable[Profile]) -> Stripped:
    """Return the words of a message of that role.

    Injected memory is stripped whatever the profiles are, before them and after: no profile may
    let it through, not even by joining two halves of a tag.

    Raises:
        ConfigError: A profile failed.
    """
    speaker = None
    left = _MEMORY.strip(text)
    for profile in profiles:
        if role not in profile.roles:
            continue
        found = _apply(profile, left)
        left = found.text
        speaker = speaker or _name(found.speaker)
    left = _MEMORY.strip(left)
    if left != text:
        left = _MANY_LINES.sub("\n\n", left).strip()
    return Stripped(left, speaker)


def strip_memory(text: str) -> str:
    """Return *text* without injected memory."""
    return _MEMORY.strip(text)


def _apply(profile: Profile, text: str) -> Stripped:
    try:
        found = profile.strip(text)
        return Stripped("".join(found.text), found.speaker)
    except Exception as error:
        raise ConfigError(
            f"profile {profile.name!r} failed: {type(error).__name__}", field="profiles"
        ) from error


def _name(speaker: str | None) -> str | None:
    """Return a name that an envelope says, if it can be one; envelopes are not to be trusted."""
    try:
        return check_id(speaker.strip()) if isinstance(speaker, str) else None
    except ValueError:
        return None
