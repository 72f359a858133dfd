"""The contract of turns: captured once, bound to their session, flushed, followed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from gralkord.errors import InvalidInput, NotFound, SessionConflict, UnknownLens
from gralkord.testing.contract.base import Contract, refused

KETTLE: Final = "The kettle is in the blue cupboard."
PARTS: Final = ("session", "operator", "agent", "user")


class TurnsContract(Contract):
    """How turns are captured."""

    def test_what_was_captured_is_recalled(self) -> None:
        """A turn comes back word for word, with all that is known of where it is from."""
        memory = self.memory
        receipt = memory.say(KETTLE, metadata={"room": "kitchen"}, event_time="2024-05-01T09:30Z")
        (found,) = memory.ask("Where is the kettle?").results
        assert (found.kind, found.text, found.role) == ("passage", KETTLE, "user")
        assert (found.speaker, found.session) == ("Ada", memory.session)
        assert (found.turn_id, found.lens) == (receipt.turn_id, "default")
        assert found.event_time == "2024-05-01T09:30:00Z"
        assert found.metadata == {"room": "kitchen"}
        assert 0 < found.score <= 1
        assert not receipt.duplicate

    def test_a_turn_has_messages_of_three_roles(self) -> None:
        """Each message is recalled under its speaker: the user, the agent, or who it names."""
        turn = [
            {"role": "user", "content": "Who feeds the parrot?", "speaker": "Eve"},
            {"role": "behaviour", "content": "I looked the parrot up."},
            {"role": "assistant", "content": "The parrot is fed by Carl."},
        ]
        self.memory.say(turn)
        found = {one.text: (one.role, one.speaker) for one in self.memory.ask("parrot").results}
        assert found == {
            "Who feeds the parrot?": ("user", "Eve"),
            "I looked the parrot up.": ("behaviour", "helper"),
            "The parrot is fed by Carl.": ("assistant", "helper"),
        }

    def test_a_trace_is_a_turn_without_system_text(self) -> None:
        """What the agent did is kept, what its makers told it is not; of nothing comes no turn."""
        memory = self.memory
        told = {"role": "system", "content": "Speak of no parrot."}
        trace = [
            told,
            {"role": "user", "content": "Who feeds the parrot?"},
            {"role": "assistant", "content": "Carl feeds the parrot."},
        ]
        names = (memory.session, memory.ada, "helper", "Ada")
        assert memory.capture_trace(*names, [told], "openai-chat") is None
        receipt = memory.capture_trace(*names, trace, "openai-chat", failure="parrot gone")
        memory.settle(receipt, memory.session)
        assert {one.text: one.role for one in memory.ask("parrot").results} == {
            "Who feeds the parrot?": "user",
            "Carl feeds the parrot.": "assistant",
            "request failed: parrot gone": "behaviour",
        }

    def test_operators_never_see_each_other(self) -> None:
        """What one operator's memory holds is not recalled, shown or changed for another."""
        memory = self.memory
        memory.say(KETTLE)
        memory.say("The kettle is on the roof.", memory.bob)
        assert memory.texts("kettle") == [KETTLE]
        assert memory.texts("kettle", memory.bob) == ["The kettle is on the roof."]
        (found,) = memory.ask("kettle").results
        with refused(NotFound):
            memory.memory(memory.bob, found.id)
        assert memory.invalidate(memory.bob, [found.id]).left == {found.id: "not_found"}
        assert memory.texts("kettle") == [KETTLE]

    def test_a_session_keeps_its_operator_and_agent(self) -> None:
        """A turn of another operator or agent is refused by both names, and nothing is kept."""
        memory = self.memory
        memory.say(KETTLE)
        for operator, agent in ((memory.bob, "helper"), (memory.ada, "other")):
            with refused(SessionConflict) as refusal:
                memory.capture(memory.session, operator, agent, "Bob", "The kettle is gone.")
            for name in (memory.ada, "helper", operator, agent):
                assert repr(name) in refusal.text
            assert refusal.field == "session"
        memory.say("The pan is here.")
        assert memory.texts("kettle", memory.bob) == []
        assert "The kettle is gone." not in memory.texts("kettle")

    def test_a_turn_id_is_one_turn(self) -> None:
        """A turn that is sent again is told to be known, with the first receipt, and kept once."""
        memory = self.memory
        first = memory.say(KETTLE, turn_id="t1")
        again = memory.say(KETTLE, turn_id="t1")
        assert (again.duplicate, again.receipt, again.turn_id) == (True, first.receipt, "t1")
        assert memory.texts("kettle") == [KETTLE]
        assert not memory.say(KETTLE, memory.bob, turn_id="t1").duplicate

    def test_names_must_not_be_blank(self) -> None:
        """A blank session, operator, agent or user is refused by name, and nothing is kept."""
        memory = self.memory
        for part in PARTS:
            names = {"session": memory.session, "operator": memory.ada, "agent": "helper"}
            names |= {"user": "Ada", part: " "}
            with refused(InvalidInput) as refusal:
                memory.capture(**names, turn=KETTLE)
            assert refusal.field == part
        memory.say("The pan is here.")
        assert KETTLE not in memory.texts("kettle")

    def test_a_turn_must_have_words(self) -> None:
        """A turn without words, or with another role, is refused."""
        memory = self.memory
        for turn in (" ", [], [{"role": "system", "content": "Be kind."}]):
            with refused(InvalidInput) as refusal:
                memory.capture(memory.session, memory.ada, "helper", "Ada", turn)
            assert (refusal.field or "").startswith("turn")

    def test_a_lens_must_be_known(self) -> None:
        """A turn or a question that names a lens which is not there is refused."""
        memory = self.memory
        with refused(UnknownLens):
            memory.say(KETTLE, lenses=["no-such-lens"])
        with refused(UnknownLens):
            memory.ask("kettle", lenses=["no-such-lens"])

    def test_many_turns_have_an_outcome_each(self) -> None:
        """Turns are kept in their order; one that is refused stops no other."""
        memory = self.memory
        names = {"session": memory.session, "operator": memory.ada, "agent": "helper"}
        turns = ["The kettle is red.", " ", "The kettle is old."]
        told: list[int] = []
        outcomes = memory.capture_many(
            [{**names, "user": "Ada", "turn": turn} for turn in turns], on_progress=told.append
        )
        assert [isinstance(one, InvalidInput) for one in outcomes] == [False, True, False]
        assert told[-1] == 3
        assert memory.flush_and_await(memory.session, 30.0, "indexed").complete
        assert set(memory.texts("kettle")) == {"The kettle is red.", "The kettle is old."}

    def test_a_flush_is_answered_at_once_or_when_it_is_done(self) -> None:
        """A flush tells its id and how far it is; nobody flushes the session of another."""
        memory = self.memory
        memory.capture(memory.session, memory.ada, "helper", "Ada", KETTLE)
        at_once = memory.flush(memory.session, operator=memory.ada)
        assert at_once.flush
        assert (at_once.state, at_once.complete) == ("queued", False)
        done = memory.flush_and_await(memory.session, 30.0, "indexed", operator=memory.ada)
        assert done.complete
        assert done.state in {"indexed", "understood"}
        with refused(SessionConflict) as refusal:
            memory.flush(memory.session, operator=memory.bob)
        assert repr(memory.ada) in refusal.text
        assert repr(memory.bob) in refusal.text

    def test_a_receipt_tells_how_far_a_turn_is(self) -> None:
        """A job is found by its receipt, and can be watched; one that is not there is not found."""
        memory = self.memory
        receipt = memory.say(KETTLE, turn_id="t1")
        job = memory.job(receipt.receipt)
        assert (job.id, job.kind, job.turn_id) == (receipt.receipt, "turn", "t1")
        assert (job.operator, job.session) == (memory.ada, memory.session)
        assert job.state in {"indexed", "understood"}
        assert memory.watch_job(receipt.receipt, timeout=0.5)[0].id == receipt.receipt
        with refused(NotFound):
            memory.job("1-1")
        with refused(InvalidInput):
            memory.job("not a receipt")

    def test_times_are_taken_in_utc_and_not_from_the_future(self) -> None:
        """A time without a zone is noted, one of the far future refused."""
        memory = self.memory
        receipt = memory.say(KETTLE, event_time="2024-05-01T09:30:00")
        assert "UTC" in " ".join(receipt.notes)
        with refused(InvalidInput) as refusal:
            memory.say(KETTLE, event_time=datetime.now(UTC) + timedelta(days=30))
        assert refusal.field == "event_time"

    def test_a_place_holds_one_turn(self) -> None:
        """Other words at the same source and offset replace those that stood there before."""
        memory = self.memory
        place = {"source": "notes.md", "offset": "7"}
        memory.say("The kettle is red.", **place)
        assert memory.say("The kettle is red.", **place).duplicate
        memory.say("The kettle is green.", **place)
        assert memory.texts("kettle") == ["The kettle is green."]

    def test_it_says_whether_it_is_ready(self) -> None:
        """A client can ask whether captures can be stored, and what runs."""
        assert self.memory.ready()["ready"] is True
        assert "default" in self.memory.status()["lenses"]
