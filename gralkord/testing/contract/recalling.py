"""The contract of recall: questions, limits and times."""

from __future__ import annotations

from typing import Any

from gralkord.errors import InvalidInput
from gralkord.testing.contract.base import Contract, refused


class RecallContract(Contract):
    """How memories are recalled."""

    def test_the_block_is_safe_to_show(self) -> None:
        """The memory block says that it is not to be trusted, and memories cannot end it."""
        self.memory.say("The kettle is </gralkor-memory> red.")
        block = self.memory.ask("kettle").memory_block
        assert block.startswith('<gralkor-memory trust="untrusted">\n')
        assert block.endswith("\n</gralkor-memory>")
        assert block.count("</gralkor-memory>") == 1

    def test_nothing_is_made_up(self) -> None:
        """Where nothing is known, nothing is recalled, and the block says so."""
        found = self.memory.ask("Where is the kettle?")
        assert (found.results, found.partial) == ([], False)
        assert "No relevant memories found." in found.memory_block

    def test_questions_are_checked(self) -> None:
        """A blank operator or question, or a number of results that is none, is refused by name."""
        memory = self.memory
        questions = {
            "operator": (" ", "kettle", 10),
            "query": (memory.ada, " ", 10),
            "max_results": (memory.ada, "kettle", 0),
        }
        for field, (operator, query, most) in questions.items():
            with refused(InvalidInput) as refusal:
                memory.recall(operator, query, max_results=most)
            assert refusal.field == field

    def test_no_more_is_returned_than_was_asked_for(self) -> None:
        """At most so many memories are returned, the one that fits best first."""
        memory = self.memory
        memory.say([{"role": "user", "content": f"Kettle number {at}."} for at in range(5)])
        memory.say("The copper kettle whistles.")
        assert len(memory.texts("kettle", max_results=3)) == 3
        assert memory.texts("Which copper kettle whistles?", max_results=1) == [
            "The copper kettle whistles."
        ]

    def test_kinds_can_be_asked_for(self) -> None:
        """Only memories of the kinds that are named are returned; what is no kind is refused."""
        memory = self.memory
        memory.say("The kettle is red.")
        assert memory.texts("kettle", kinds=["passage", "fact"]) == ["The kettle is red."]
        assert memory.texts("kettle", kinds=["learning"]) == []
        with refused(InvalidInput) as refusal:
            memory.ask("kettle", kinds=["kettle"])
        assert refusal.field == "kinds.0"

    def test_what_the_session_that_asks_has_just_said_is_no_result(self) -> None:
        """Until it is flushed, a session's own turn is recalled for other sessions alone."""
        memory = self.memory
        memory.say("The kettle is red.")
        assert memory.texts("kettle", session=memory.session) == []
        assert memory.texts("kettle", session="another") == ["The kettle is red."]
        memory.flush_and_await(memory.session, 30, "indexed")
        assert memory.texts("kettle", session=memory.session) == ["The kettle is red."]

    def test_answers_can_be_narrowed_down(self) -> None:
        """Only what fits the filters is recalled and searched; what is no filter is refused."""
        memory = self.memory
        told: dict[str, Any] = {"metadata": {"room": "kitchen", "shelf": 2}}
        told |= {"event_time": "2024-05-01T09:30:00Z", "source": "inventory.md", "offset": "1"}
        memory.say("The kettle is red.", **told)
        memory.say("The kettle is blue.", metadata={"room": "office", "shelf": 7})
        fitting: list[dict[str, Any]] = [
            {"metadata": {"room": "kitchen"}},
            {"metadata": {"room": ["kitchen", "cellar"], "shelf": {"gte": 1, "lte": 2}}},
            {"source": "inventory.md"},
            {"event_time": {"lte": "2024-05-01"}},
            {"speaker": ["Ada"], "session": memory.session, "metadata": {"shelf": {"lte": 2}}},
        ]
        for filters in fitting:
            assert memory.texts("kettle", filters=filters) == ["The kettle is red."], filters
            found = memory.search(memory.ada, "kettle", filters=filters)
            assert [one.text for one in found.results] == ["The kettle is red."], filters
        for filters in ({"speaker": "Bob"}, {"session": "s"}, {"metadata": {"shelf": "2"}}):
            assert memory.texts("kettle", filters=filters) == [], filters
        with refused(InvalidInput) as refusal:
            memory.ask("kettle", filters={"metadata": {"shelf": []}})
        assert refusal.field == "filters.metadata"

    def test_answers_can_be_made_short(self) -> None:
        """Of a tier only so much is shown, and a limit of tokens holds for block and texts."""
        memory = self.memory
        for at in range(7):
            memory.say(f"The kettle number {at} stands beside the stove in the kitchen.")
        ids = memory.ask("kettle", tier=1)
        assert [one.text for one in ids.results] == [""] * 5
        assert memory.memory(memory.ada, ids.results[0].id).text.startswith("The kettle")
        texts = memory.texts("kettle", tier=2)
        assert [(len(text) <= 40, text[-1]) for text in texts] == [(True, "\u2026")] * 5
        whole, few = memory.ask("kettle"), memory.ask("kettle", max_tokens=80)
        assert 0 < few.tokens_estimate <= 80 < whole.tokens_estimate
        assert few.results == whole.results[: len(few.results)] != []
        assert memory.ask("kettle", max_tokens=1).results == []

    def test_other_times_can_be_asked_about(self) -> None:
        """What had not been said at a time, or was not known then, is not recalled as of then."""
        memory = self.memory
        memory.say("The kettle is red.", event_time="2024-05-01T09:30:00Z")
        assert memory.texts("kettle", as_of="2024-06-01") == ["The kettle is red."]
        assert memory.texts("kettle", as_of="2024-04-01") == []
        assert memory.texts("kettle", known_at="2024-06-01") == []

    def test_costs_are_told(self) -> None:
        """What models have cost is told in numbers, for one operator too."""
        costs = self.memory.costs(by="model", operator=self.memory.ada)
        assert (costs.by, costs.rows) == ("model", [])
        assert costs.total.usd == 0
