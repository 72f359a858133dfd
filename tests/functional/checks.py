"""What a model must be good for, asked of a running daemon: one coroutine for each behaviour.

Each takes a client and tells with an assertion what it has found wrong. Operators are made up anew,
so all of them may run at once, on a daemon that remembers other things too.
"""

from __future__ import annotations

import uuid

import orjson

# What a slow model may need for all that it is asked at once.
SECONDS = 240.0

SHED = [
    {"role": "user", "content": "Where is my red bike? I need it for the race on Sunday."},
    {
        "role": "assistant",
        "content": "I look in the places where it may be.",
        "tool_calls": [
            {"id": "1", "function": {"name": "memory_search", "arguments": '{"query": "bike"}'}},
            {"id": "2", "function": {"name": "search_shed", "arguments": '{"what": "bike"}'}},
            {"id": "3", "function": {"name": "ask_neighbour", "arguments": '{"who": "Olga"}'}},
        ],
    },
    {
        "role": "tool",
        "tool_call_id": "1",
        "content": '<gralkord-memory trust="untrusted">Ann paid 840 euros in Antwerp'
        "</gralkord-memory>",
    },
    {"role": "tool", "tool_call_id": "2", "content": "Only a helmet and two flowerpots."},
    {"role": "tool", "tool_call_id": "3", "content": "Olga says that it stands in her garage."},
    {"role": "assistant", "content": "Olga has it in her garage."},
]


async def plain_statements_become_facts(client) -> None:
    """Extraction: what is said plainly is a fact between the things it names."""
    operator = await told(client, ["Ida works at Acme in Lisbon.", "Otto lives in Graz."])
    ends = [{one.subject.name, one.object.name} for one in await facts(client, operator)]
    assert any("Ida" in pair and any("Acme" in end for end in pair) for pair in ends), ends
    assert any("Otto" in pair and any("Graz" in end for end in pair) for pair in ends), ends


async def what_is_relevant_comes_first(client) -> None:
    """Relevance: of several things that are known, the one asked for is among the first two."""
    operator = await told(
        client,
        ["Ida works at Acme in Lisbon.", "Otto lives in Graz.", "Ida met Bruno at Northway."],
    )
    for question, answer in (
        ("Where does Ida work?", "Acme"),
        ("Which city does Otto live in?", "Graz"),
        ("Whom did Ida meet?", "Bruno"),
    ):
        found = (await client.recall(operator, question, max_results=2)).results
        assert any(answer in each.text for each in found), (question, found)


async def sources_are_kept(client) -> None:
    """Sources: a fact leads to who said it and when, and two speakers stay two."""
    operator = await told(
        client, [("Ann", "I like Fado, and I live in Porto."), ("Ben", "I like Haiku.")]
    )
    said = {}
    for fact in await facts(client, operator):
        history = await client.memory_history(operator, fact.id, text=True)
        speakers = {by.speaker for each in history.provenance for by in each.passages}
        assert speakers & {"Ann", "Ben"}, fact
        said[fact.fact] = {fact.subject.name, fact.object.name}
    assert any("Fado" in text and "Ann" in ends for text, ends in said.items()), said
    assert any("Haiku" in text and "Ben" in ends for text, ends in said.items()), said
    assert not any("Haiku" in text and "Ann" in ends for text, ends in said.items()), said


async def conflicts_are_not_judged(client) -> None:
    """Conflicts: two accounts that differ are both kept and both hold; nobody has said which."""
    operator = await told(
        client,
        [("Ann", "Northway is in Leeds, I am sure."), ("Ben", "Northway is in Turin, I am sure.")],
    )
    known = await facts(client, operator, include_invalidated=True)
    for town in ("Leeds", "Turin"):
        told_so = [one for one in known if town in one.fact or town in one.object.name]
        assert told_so, f"{town} is gone: {known}"
        assert any(not one.invalidated for one in told_so), f"{town} was judged: {told_so}"


async def a_change_ends_what_was(client) -> None:
    """A change that somebody states ends the fact of before; both are still known."""
    operator = await told(client, ["Ida works at Acme."])
    await told(client, ["Ida left Acme and now works at Globex."], operator=operator)
    known = await facts(client, operator, include_invalidated=True)
    ended = [one for one in known if one.invalidated]
    assert any("Acme" in one.fact for one in ended), known
    holds = [one.fact for one in known if not one.invalidated]
    assert any("Globex" in text for text in holds), known


async def nothing_is_asserted_that_nobody_said(client) -> None:
    """Restraint: neither questions nor wishes become facts, and small talk teaches nothing."""
    operator = await told(
        client, ["Should Ida move to Rome? Does Otto work at Globex?", "Hm. Let me think."]
    )
    known = await facts(client, operator)
    asserted = [one.fact for one in known if "Rome" in one.fact or "Globex" in one.fact]
    doubtful = ("whether", "should", "if ", "ask", "consider", "wonder", "think", "question")
    assert all(any(word in text.lower() for word in doubtful) for text in asserted), asserted
    learned = await client.recall(operator, "Rome", kinds=["learning"])
    assert learned.results == []


async def behaviour_is_distilled(client) -> None:
    """Distillation: what the agent did is a line in its own voice, without what it remembered."""
    operator = await traced(client, SHED)
    lines = [line for text in await episodes(client, operator) for line in text.splitlines()]
    told_lines = [line for line in lines if "(behaviour: " in line]
    assert len(told_lines) == 1, lines
    assert " I " in told_lines[0].replace("(behaviour:", "(behaviour: "), told_lines
    assert "840" not in told_lines[0], "it repeats what was recalled"
    assert any(line.startswith("Ann: ") for line in lines), lines


async def failures_are_learned_from(client) -> None:
    """Learning: a turn that failed is a lesson that says so, and is found by its problem."""
    operator = await traced(client, SHED[:-1], failure="no tool could reach the garage")
    found = await client.recall(operator, "Where is the red bike?", kinds=["learning"])
    assert found.results, "nothing was learned"
    assert found.results[0].attributes["success"] is False
    assert found.results[0].attributes["lesson"].strip()


async def what_holds_beyond_is_generalised(client) -> None:
    """Generalising: a habit becomes a generalisation, a single remark does not."""
    operator = name("generalise")
    habit = "Ann: I always take the train to Leeds, never the plane.\nBen: The kettle is hot."
    made = await client.generalise(operator, habit, timeout=SECONDS)
    assert made.complete
    assert made.kept >= 1, made
    exported = b"".join([chunk async for chunk in client.export(operator)])
    assert b"GEN|v1" not in exported, "the form in which they are passed on is kept"
    page = await client.search_generalisations(operator, "How does Ann travel?", 5)
    assert any("train" in each.content.lower() for each in page.generalisations), page
    assert not any("kettle" in each.content.lower() for each in page.generalisations), page


async def observations_are_reconciled(client) -> None:
    """Consolidation: what is new is added, and what is said again is not added again."""
    operator = name("observe")
    first = await client.observe(operator, "I prefer green tea to coffee.", timeout=SECONDS)
    assert [one.action for one in first.decisions].count("add") >= 1, first
    again = await client.observe(operator, "I prefer green tea to coffee.", timeout=SECONDS)
    assert {one.action for one in again.decisions} <= {"noop", "update"}, again
    memories = (await client.memories(operator)).memories
    assert len([one for one in memories if "tea" in one.content]) <= len(first.decisions)


CHECKS = (
    plain_statements_become_facts,
    what_is_relevant_comes_first,
    sources_are_kept,
    conflicts_are_not_judged,
    a_change_ends_what_was,
    nothing_is_asserted_that_nobody_said,
    behaviour_is_distilled,
    failures_are_learned_from,
    what_holds_beyond_is_generalised,
    observations_are_reconciled,
)


def name(what: str) -> str:
    """Return a name that nobody has used."""
    return f"{what}-{uuid.uuid4().hex[:10]}"


async def told(client, said, *, operator=None) -> str:
    """Let an operator say something, a turn each; return who it is once it is understood."""
    operator = operator or name("speaker")
    session = name("talk")
    for each in said:
        speaker, words = each if isinstance(each, tuple) else ("Ann", each)
        turn = [{"role": "user", "content": words, "speaker": speaker}]
        await client.capture(session, operator, "helper", "Ann", turn)
    await understood(client, session, operator)
    return operator


async def traced(client, trace, failure=None) -> str:
    """Let an agent do something for an operator; return who that is once it is understood."""
    operator, session = name("traced"), name("talk")
    await client.capture_trace(
        session, operator, "helper", "Ann", trace, "openai-chat", failure=failure
    )
    await understood(client, session, operator)
    return operator


async def understood(client, session, operator) -> None:
    """Wait until a session is understood."""
    flush = await client.flush_and_await(session, SECONDS, operator=operator)
    assert (flush.state, flush.dead) == ("understood", 0), flush


async def facts(client, operator, **more):
    """Return the facts of an operator."""
    return (await client.triples(operator, limit=500, **more)).triples


async def episodes(client, operator) -> list[str]:
    """Return what an operator's episodes were made of."""
    rows = [orjson.loads(line) async for line in lines_of(client.export(operator))]
    return [row["properties"]["content"] for row in rows if row.get("kind") == "episode"]


async def lines_of(chunks):
    """Yield the lines of a text that comes in pieces."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest
