"""Random strings as names, facts, questions and ids: nothing fails, and all is found again.

``GRALKORD_FUZZ=20000`` (`make fuzz`) makes it that many; without it a few hundred are tried.
"""

from __future__ import annotations

import asyncio
import os
import random
import unicodedata
from datetime import timedelta

import pytest
from fakes import FakeModel, entities, facts
from groups_of_tests import ANN, BOB
from memories_of_tests import WHEN

from gralkord.clock import SystemClock
from gralkord.config import RecallSettings
from gralkord.errors import InvalidInput
from gralkord.graph.analyzer import Analyzer
from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft, Note, note_uuid
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.passages import Passage, PassageStore, passage_uuid
from gralkord.graph.sanitise import clean_name, clean_text, fold_name
from gralkord.groups import Group, parse_group
from gralkord.models import Capture, RecallRequest
from gralkord.recall.recall import Recaller
from gralkord.wire import read_model

COUNT = int(os.environ.get("GRALKORD_FUZZ", "300"))
SEED = int(os.environ.get("GRALKORD_FUZZ_SEED", "4"))
BATCH = 20
BIG = 2**31

SYNTAX = (
    *("_", "a-_", "$_", "'", '"', "\\", "\\'", "`", "//", "/*", "*/", "--", ";", "{}", "{x}", "[]"),
    *("()", "|", "*", "%%", "%a%", "~", "@", "@name:", "@group_id:(x)", "=>", "{$weight: 2}", "&"),
    *("CYPHER x=1 ", "MATCH (n) DETACH DELETE n", "RETURN 1", "$uuid", "null", "true", "NaN", "-0"),
    *("IT", "the", "a", "No", "will", "1e999", "[1 2]", "(1", "-word", "a:b|c*", "\u2028", "\t"),
)
PLANES = ((0x20, 0x7F), (0xA0, 0x2FF), (0x300, 0x36F), (0x370, 0x58F), (0x590, 0x8FF))
PLANES += ((0x900, 0xFFF), (0x1000, 0x1FFF), (0x2000, 0x2FFF), (0x3000, 0x9FFF), (0xA000, 0xD7FF))
PLANES += ((0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x3FFFF), (0xE0000, 0xE01FF))
PLANES += ((0xF0000, 0x10FFFF), (0x00, 0x1F), (0x7F, 0x9F), (0xD800, 0xDFFF))


def random_text(dice: random.Random) -> str:
    """Return a string of one or more planes, syntax and controls among them."""
    pieces = []
    for _ in range(dice.choice((1, 1, 2, 3, 5, 12))):
        kind = dice.random()
        if kind < 0.25:
            pieces.append(dice.choice(SYNTAX))
        elif kind < 0.45:
            letters = "".join(dice.choices("abcdefghijklmnop", k=dice.randrange(1, 9)))
            pieces.append(f" {letters}")
        else:
            low, high = dice.choice(PLANES)
            pieces += [chr(dice.randint(low, high)) for _ in range(dice.randrange(1, 10))]
    return "".join(pieces)[:400]


def words(text: str) -> list[str]:
    """Return the terms by which a text can be found."""
    return Analyzer().terms(text)


def captured(text: str) -> Capture | None:
    """Return a turn with *text* in every place, as the wire lets it in; none if it is refused."""
    given = {
        "session": text, "operator": text, "agent": "bot", "user": "u", "turn_id": text,
        "source": text, "offset": text,
        "turn": [{"role": "user", "content": text}],
    }  # fmt: skip
    try:
        return read_model(Capture, given)
    except InvalidInput:
        return None


def test_the_edge_takes_a_string_whole_or_refuses_it():
    """What comes in is as it was sent; surrogates, controls, blanks and over-long ids are refused."""
    dice = random.Random(SEED)
    taken = 0
    for _ in range(COUNT):
        text = random_text(dice)
        turn = captured(text)
        if turn is None:
            bad = any(unicodedata.category(char) in {"Cc", "Cs"} for char in text)
            long = len(text.encode("utf-8", "replace")) > 256
            assert bad or long or not text.strip() or not any(map(_visible, text)), repr(text)
            continue
        taken += 1
        assert (turn.session, turn.operator, turn.turn_id) == (text, text, text)
        group = Group("default", turn.operator, "default")
        assert group.id.replace("_", "").isalnum()
        assert parse_group(group.id) == group
        turn.model_dump_json().encode()
    assert taken > COUNT / 4


def _visible(char: str) -> bool:
    return char.isprintable() and not char.isspace()


@pytest.mark.timeout(3_600)
async def test_every_string_is_found_again(graph):
    """As turn, speaker, session, id, entity, fact and question: no error, and its own words find it."""
    dice = random.Random(SEED + 1)
    run = await graph.run_id()
    pool = CachePool(graph, BIG)
    recaller = Recaller(pool, None, RecallSettings(), SystemClock())
    for start in range(0, COUNT, BATCH):
        texts = [random_text(dice) for _ in range(min(BATCH, COUNT - start))]
        group = Group("default", f"fuzz {start // 1_000}", "default")
        await _write(graph, group.id, texts, start)
        await _understand(graph, pool, group.id, texts, start)
        numbered = enumerate(texts, start)
        await asyncio.gather(*[_found(recaller, pool, group, text, n) for n, text in numbered])
    assert await graph.run_id() == run
    assert not {ANN, BOB} & set(await graph.groups())
    await pool.close()


async def _write(graph, group, texts, start):
    """Write each text as a passage whose speaker, session and ids are that text, too."""
    rows = []
    for number, text in enumerate(map(_stored, texts), start):
        rows.append(
            Passage(
                uuid=passage_uuid(group, f"{text}{number}", 0, 0),
                text=text,
                speaker=clean_name(text) or "Ann",
                role="user",
                agent="bot",
                session=f"{text} {number}",
                ordinal=0,
                part=0,
                event_time=WHEN + timedelta(seconds=number),
                turn_id=f"{text}{number}",
                source=text,
                offset=str(number),
            )
        )
    store = PassageStore(graph)
    made = await store.write(group, 1, rows, created_ms=1, fingerprint="")
    assert len(made) == len(rows)
    assert await store.write(group, 1, rows, created_ms=1, fingerprint="") == []
    found = await store.of_turns(group, rows[0].session, [rows[0].turn_id])
    assert [each.text for each in found] == [rows[0].text]


async def _understand(graph, pool, group, texts, start):
    """Have a model name an entity and say a fact for each text, as it comes, unclean."""
    model = FakeModel(
        ExtractedEntities=entities("Hub", *texts),
        ExtractedEdges=facts(
            *(("Hub", text[:40], text, f"{text} {number}", "2024-01-01")
              for number, text in enumerate(texts, start))
        ),
    )  # fmt: skip
    draft = EpisodeDraft(
        uuid=f"e{start}",
        name="n",
        body="\n".join(texts),
        reference_time=WHEN,
        source_description=texts[0],
        notes=tuple(
            Note(
                note_uuid(group, str(number)),
                "memory",
                text,
                f"{text} note{number}",
                WHEN,
                attributes={"reason": text, "tags": [text]},
            )
            for number, text in enumerate(texts, start)
        ),
    )
    await EpisodeWriter(graph, pool, model, None).add(group, 1, draft)


async def _found(recaller, pool, group, text, number):
    """Look for one text among passages, entities and facts, and ask for it."""
    known = await pool.fresh(group.id, timeout_ms=5_000)
    if name := clean_name(text):
        assert fold_name(name) in {fold_name(row.name) for row in known.entities.by_name(name)}
    clean = _stored(text)
    if words(clean):
        scores = known.passages.words.scores(words(clean))
        hits = {known.passages.row(n).text for n in range(len(known.passages)) if scores[n] > 0}
        assert clean in hits, repr(clean)
    if name and words(text):
        hits = {row.fact for row, _ in known.facts.lexical(clean_text(text), BIG)}
        assert clean_text(f"{text} {number}") in hits, repr(text)
    notes = {row.uuid for row, _ in known.facts.lexical(f"note{number}", BIG)}
    assert note_uuid(group.id, str(number)) in notes
    request = RecallRequest(operator=group.operator, query=clean[:2_000], max_results=3)
    for _ in range(20):
        answer = await recaller.recall("default", request, [group])
        if answer.degraded != ["graph"]:  # a busy machine was late
            break
    assert not answer.degraded


def _stored(text: str) -> str:
    """Return the text as the edge would let it in."""
    clean = clean_text(text)
    return clean if any(map(_visible, clean)) else "Ann"
