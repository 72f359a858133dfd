"""How the scripted model reads: names and facts from plain English, by rules, never by guessing.

What it finds always stands in the text: a name is copied, and a fact is the sentence itself with
"I" replaced by the speaker's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from gralkord.testing.words import (
    ADVERBS,
    AUXILIARIES,
    BE,
    CHANGES,
    CONJUGATED,
    DETERMINERS,
    ENDED_BY,
    ENDINGS,
    FAMILIES,
    INSIDE_NAMES,
    NOT_NAMES,
    PREPOSITIONS,
    STATES,
    TIME_WORDS,
    VERBS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_TARGETS: Final = 4
# After these a word that could be a verb is a noun: "at work". After "to" it may be a verb.
NOUN_FOLLOWS: Final = PREPOSITIONS - {"to"}

_SPEAKER: Final = re.compile(r"^(?!https?:)([^\s:][^:\n]{0,63}?)\s*:(?:\s+|$)(.*)$")
_WORD: Final = re.compile(r"[^\W_]+(?:['.&-][^\W_]+)*")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n+")
_POSSESSIVE: Final = re.compile(r"'s$", re.IGNORECASE)
_CONTRACTED: Final = re.compile(r"'(?:s|m|d|t|ve|ll|re)$", re.IGNORECASE)
_I: Final = re.compile(r"\b(?:I|[Ww]e)(?:'\w+)?\b")
_MINE: Final = re.compile(r"\b(?:my|mine|me|myself|our|ours|us)\b", re.IGNORECASE)
_EPISODE: Final = re.compile(r"^\[Episode (\d+)\] \(timestamp: (.*)\)$")

_FIRST_PERSON: Final = (
    (r"\bI'm\b", "{} is"),
    (r"\bI am\b", "{} is"),
    (r"\bI've\b", "{} has"),
    (r"\bI have\b", "{} has"),
    (r"\bI haven't\b", "{} hasn't"),
    (r"\bI'll\b", "{} will"),
    (r"\bI'd\b", "{} would"),
    (r"\bI do\b", "{} does"),
    (r"\bI don't\b", "{} doesn't"),
    (r"\b[Ww]e're\b", "{} and others are"),
    (r"\b[Ww]e've\b", "{} and others have"),
    (r"\b[Ww]e'll\b", "{} and others will"),
    (r"\b[Ww]e\b", "{} and others"),
    (r"\b[Mm]y\b", "{}'s"),
    (r"\b[Mm]ine\b", "{}'s"),
    (r"\b[Oo]ur\b", "{}'s"),
    (r"\b[Oo]urs\b", "{}'s"),
    (r"\b(?:[Mm]e|[Mm]yself)\b", "{}"),
    (r"\b[Uu]s\b", "{} and others"),
)


@dataclass(frozen=True, slots=True)
class Message:
    """What one speaker said, in the episode with that number."""

    speaker: str | None
    text: str
    episode: int = 0


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence that relates two names."""

    subject: str
    relation: str
    target: str
    text: str
    episode: int = 0


def messages_in(body: str) -> list[Message]:
    """Return the messages of a transcript of ``Speaker: text`` lines.

    Other lines continue one, and so do lines that are indented.
    """
    found: list[Message] = []
    episode = 0
    for raw in body.replace("\u2019", "'").splitlines():
        line = raw.strip()
        header = _EPISODE.match(line)
        if header:
            episode = int(header[1])
            found.append(Message(None, "", episode))
            continue
        spoken = None if found and raw[:1].isspace() else _SPEAKER.match(line)
        if spoken and not re.search(r"[.!?]\s", spoken[1]):
            found.append(Message(spoken[1].strip(), spoken[2], episode))
        elif found:
            last = found.pop()
            found.append(Message(last.speaker, f"{last.text}\n{line}".strip(), episode))
        elif line:
            found.append(Message(None, line, episode))
    return [message for message in found if message.speaker or message.text]


def names_in(messages: Sequence[Message]) -> list[str]:
    """Return the speakers and the capitalised names, each once, in the order they appear."""
    speakers = [message.speaker for message in messages if message.speaker]
    inside: list[str] = []
    at_start: list[str] = []
    for message in messages:
        for sentence in sentences_of(message.text):
            _collect_names(sentence, inside, at_start)
    known = {name.casefold() for name in [*speakers, *inside]}
    at_start = [name for name in at_start if " " in name or name.casefold() in known]
    return _once([*speakers, *_in_order(messages, [*inside, *at_start])])


def facts_in(messages: Sequence[Message], names: Sequence[str]) -> list[Fact]:
    """Return a fact for each sentence that relates two of *names*; questions state nothing."""
    found: list[Fact] = []
    speakers = {message.speaker for message in messages if message.speaker}
    for message in messages:
        for sentence in sentences_of(message.text):
            if not sentence.endswith("?"):
                called = {name for name in speakers if _addresses(sentence, name)}
                found.extend(_facts_of(sentence, message, [n for n in names if n not in called]))
    return list(dict.fromkeys(found))


def sentences_of(text: str) -> list[str]:
    """Return the sentences of *text*."""
    return [part for raw in _SENTENCE_END.split(text) if (part := raw.strip())]


def mentions_of(names: Iterable[str], sentence: str) -> list[tuple[int, str]]:
    """Return where each of *names* first stands in *sentence*; a longer one hides one inside it."""
    taken: list[range] = []
    found: list[tuple[int, str]] = []
    lowered = sentence.lower()
    for name in sorted(_once(names), key=len, reverse=True):
        if name.lower() not in lowered:
            continue
        # "Will" is not "will", but a speaker called "ann" may be addressed as "Ann".
        flags = re.NOFLAG if name[:1].isupper() else re.IGNORECASE
        for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", sentence, flags):
            span = range(match.start(), match.end())
            if not any(span.start < other.stop and other.start < span.stop for other in taken):
                taken.append(span)
                found.append((match.start(), name))
                break
    return sorted(found)


def same_fact(one: str, other: str) -> bool:
    """Return whether two facts say the same in the same words."""
    return _words(one) == _words(other)


def contradicts(new: str, old: str) -> bool:
    """Return whether *new* says outright that *old* is no longer so.

    Both have the same subject and speak of the same state, and *new* holds a word of change. Then
    either it names another object, or it says that this one has ended.
    """
    if not any(re.search(rf"\b{word}\b", new, re.IGNORECASE) for word in CHANGES):
        return False
    new_subject, new_verb, new_objects = _clause(new)
    old_subject, old_verb, old_objects = _clause(old)
    if not new_subject or new_subject != old_subject or not old_objects:
        return False
    old_state = FAMILIES.get(old_verb, old_verb)
    ended = ENDED_BY.get(new_verb, set())
    if ended or any(re.search(rf"\b{word}\b", new, re.IGNORECASE) for word in ENDINGS):
        states = ended or {FAMILIES.get(new_verb, new_verb)}
        return old_state in states and bool(old_objects & new_objects)
    return FAMILIES.get(new_verb, new_verb) == old_state and not old_objects & new_objects


def tells_time(fact: str) -> bool:
    """Return whether a fact says when it holds.

    What is so holds at the time of the episode, and so does a change; other things of the past were
    at some time that has to be said.
    """
    words = _words(fact)
    if any(word.isdigit() or word in TIME_WORDS for word in words):
        return True
    if any(re.search(rf"\b{word}\b", fact, re.IGNORECASE) for word in CHANGES):
        return True
    return any(VERBS.get(word) == word or word in {"is", "are", "will"} for word in words)


def third_person(sentence: str, speaker: str) -> str:
    """Return *sentence* as said about *speaker* rather than by them."""
    text = sentence
    if not _I.search(sentence) and _implied(sentence):
        text = f"{speaker} {sentence[0].lower()}{sentence[1:]}"
    for pattern, written in _FIRST_PERSON:
        text = written.format(speaker).join(re.split(pattern, text))

    def conjugate(match: re.Match[str]) -> str:
        return f"{speaker} {match[1]}{CONJUGATED.get(match[2], match[2])}"

    text = re.sub(rf"\bI ((?:(?:{'|'.join(ADVERBS)}) )*)(\w+)", conjugate, text)
    return speaker.join(re.split(r"\bI\b", text))


def _collect_names(sentence: str, inside: list[str], at_start: list[str]) -> None:
    if sentence.isupper() and " " in sentence:
        return  # Shouted: capitals say nothing.
    run: list[re.Match[str]] = []
    first = True

    def close() -> None:
        nonlocal run
        while run and run[-1][0] in INSIDE_NAMES:
            run = run[:-1]
        if run:
            name = _POSSESSIVE.sub("", sentence[run[0].start() : run[-1].end()])
            alone = run[0].start() == start and not _verb_follows(sentence, run[-1].end())
            (at_start if alone else inside).append(name)
        run = []

    start = next((match.start() for match in _WORD.finditer(sentence)), 0)
    for match in _WORD.finditer(sentence):
        word = match[0]
        joined = bool(run) and sentence[run[-1].end() : match.start()] in {" ", " & "}
        if joined and word in INSIDE_NAMES:
            run.append(match)
            continue
        named = _is_name(word, first=first)
        first = False
        if not (joined and named) or _POSSESSIVE.search(run[-1][0]):
            close()
        if named:
            run.append(match)
    close()


def _is_name(word: str, *, first: bool) -> bool:
    if not word[0].isupper():
        return False
    plain = _CONTRACTED.sub("", word)
    if plain.lower() not in NOT_NAMES:
        return not (first and plain.lower() in VERBS)
    # "IT" is a department; "It" is not.
    return len(plain) > 1 and plain.isupper() and plain.lower() in {"it", "us", "who"}


def _verb_follows(sentence: str, end: int, *, within: int = 1) -> bool:
    following = [match[0] for match in islice(_WORD.finditer(sentence, end), within)]
    return any(word in VERBS or word in AUXILIARIES or word in ADVERBS for word in following)


def _in_order(messages: Sequence[Message], names: Sequence[str]) -> list[str]:
    text = "\n".join(message.text for message in messages)
    return sorted(_once(names), key=text.find)


def _facts_of(sentence: str, message: Message, names: Sequence[str]) -> list[Fact]:
    mentioned = mentions_of(names, sentence)
    subject, text = _subject(sentence, message.speaker, mentioned)
    if subject is None:
        return []
    targets = [name for _, name in mentioned if name.casefold() != subject.casefold()]
    text = re.sub(r"\s+", " ", text)
    return [
        Fact(subject, _relation(text, subject, target), target, text, message.episode)
        for target in targets[:MOST_TARGETS]
    ]


def _subject(
    sentence: str, speaker: str | None, mentioned: Sequence[tuple[int, str]]
) -> tuple[str | None, str]:
    """Return whom the sentence is about, and the sentence in the third person."""
    if speaker and (_I.search(sentence) or _implied(sentence)):
        return speaker, third_person(sentence, speaker)
    text = third_person(sentence, speaker) if speaker and _MINE.search(sentence) else sentence
    if mentioned:
        start, name = mentioned[0]
        leading = all(word[0] not in VERBS for word in _WORD.finditer(sentence[:start]))
        if leading and len(mentioned) > 1 and _verb_follows(sentence, start + len(name), within=3):
            return name, text
        if speaker and text is not sentence:
            return speaker, text
    return None, text


def _addresses(sentence: str, name: str) -> bool:
    """Return whether the sentence only calls *name*: "Thanks, Ann!" says nothing about Ann."""
    called = re.escape(name)
    return bool(
        re.search(rf"^(?:[A-Z]\w*,? )?{called}\s*[,!:]|,\s*{called}\s*(?:[.!,]|$)", sentence)
    )


def _implied(sentence: str) -> bool:
    """Return whether the sentence leaves "I" out, as in "Just moved to Berlin"."""
    words = [match[0].lower() for match in _WORD.finditer(sentence)][:3]
    while words and words[0] in ADVERBS:
        words = words[1:]
    # The form after "I" would be an order: "Move to Berlin!"
    return bool(words) and words[0] in VERBS and words[0] not in {*CONJUGATED, *VERBS.values()}


def _relation(text: str, subject: str, target: str) -> str:
    """Return the relation in SCREAMING_SNAKE_CASE: the verb before *target* and its preposition."""
    spots = {name: start for start, name in mentions_of([subject, target], text)}
    place = spots.get(target, len(text))
    before = [match[0].lower() for match in _WORD.finditer(text[:place])]
    after = [match[0].lower() for match in _WORD.finditer(text[place:])]
    verb = _main_verb(before) or _main_verb(list(reversed(after)))
    words = [word for word in before[-2:] if word not in DETERMINERS]
    if not verb:
        return "RELATES_TO"
    link = words[-1] if words and words[-1] in PREPOSITIONS else ""
    relation = f"{verb} {link}".strip().replace(" ", "_").upper()
    return STATES.get(relation, relation)


def _main_verb(words: Sequence[str]) -> str | None:
    """Return the last full verb of *words* as after "she", or "is" where there is only that."""
    found = None
    for index, word in enumerate(words):
        noun = index > 0 and (words[index - 1] in DETERMINERS or words[index - 1] in NOUN_FOLLOWS)
        if word in VERBS and not noun and (found is None or word not in AUXILIARIES):
            found = VERBS[word]
    return found or ("is" if any(word in BE for word in words) else None)


def _clause(fact: str) -> tuple[str, str, frozenset[str]]:
    """Return the subject, the verb and the words of the object of a fact."""
    words = _words(fact)
    while words and words[0] in ADVERBS:
        words = words[1:]
    start = next(
        (
            index
            for index, word in enumerate(words)
            if index and (word in VERBS or word in AUXILIARIES or word in ADVERBS)
        ),
        len(words),
    )
    rest = words[start:]
    full = [word for word in rest if word in VERBS and word not in AUXILIARIES] or [
        word for word in rest if word in VERBS
    ]
    verb = VERBS[full[0]] if full else "is"
    plain = NOT_NAMES | ADVERBS | AUXILIARIES | PREPOSITIONS | DETERMINERS | set(VERBS)
    objects = frozenset(word for word in rest if word not in plain and not word.isdigit())
    return " ".join(words[:start]), verb, objects


def _words(text: str) -> list[str]:
    return [match[0].casefold() for match in _WORD.finditer(text.replace("\u2019", "'"))]


def _once(names: Iterable[str]) -> list[str]:
    return list({name.casefold(): name for name in reversed(list(names))}.values())[::-1]
