"""The contract of single memories and sources: shown, invalidated, brought back."""

from __future__ import annotations

from gralkord.errors import InvalidInput, NotFound
from gralkord.testing.contract.base import Contract, refused


class ChangesContract(Contract):
    """How memories are looked at and corrected."""

    def test_a_memory_is_shown_with_its_history(self) -> None:
        """One memory is told by its id; another id is not found."""
        memory = self.memory
        receipt = memory.say("The kettle is red.")
        (found,) = memory.ask("kettle").results
        shown = memory.memory(memory.ada, found.id)
        assert (shown.kind, shown.text, shown.invalidated) == ("passage", found.text, False)
        assert shown.turn_id == receipt.turn_id
        history = memory.memory_history(memory.ada, found.id)
        assert (history.memory.id, history.supersedes) == (found.id, [])
        with refused(NotFound):
            memory.memory(memory.ada, "no-such-memory")

    def test_what_is_invalidated_is_hidden_until_it_is_brought_back(self) -> None:
        """An invalidated memory is shown on request only, with the reason, until reactivated."""
        memory = self.memory
        memory.say("The kettle is red.")
        (found,) = memory.ask("kettle").results
        done = memory.invalidate(memory.ada, [found.id, "no-such-memory"], reason="painted over")
        assert (done.passages, done.left) == (1, {"no-such-memory": "not_found"})
        assert memory.texts("kettle") == []
        (hidden,) = memory.ask("kettle", include_invalidated=True).results
        assert (hidden.id, hidden.invalidated, hidden.reason) == (found.id, True, "painted over")
        assert memory.reactivate(memory.ada, [found.id]).passages == 1
        assert memory.texts("kettle") == ["The kettle is red."]

    def test_a_change_says_what_it_is_about(self) -> None:
        """Neither ids nor a source, or both, are refused."""
        memory = self.memory
        with refused(InvalidInput):
            memory.invalidate(memory.ada)
        with refused(InvalidInput):
            memory.invalidate(memory.ada, ["one"], source="notes.md")

    def test_sources_are_listed_and_invalidated_as_a_whole(self) -> None:
        """A source tells what was taken from it, and all of that can be invalidated."""
        memory = self.memory
        memory.say("The kettle is red.", source="a.md", offset="1")
        memory.say("The kettle is old.", source="a.md", offset="2")
        memory.say("The kettle is loud.", source="b.md")
        page = memory.sources(memory.ada)
        assert [(one.source, one.passages) for one in page.sources] == [("a.md", 2), ("b.md", 1)]
        assert memory.sources(memory.ada, limit=1).next == "a.md"
        assert memory.sources(memory.bob).sources == []
        content = memory.source(memory.ada, "a.md")
        assert [entry.offset for entry in content.entries] == ["1", "2"]
        assert memory.invalidate(memory.ada, source="a.md").passages == 2
        assert memory.texts("kettle") == ["The kettle is loud."]
        with refused(NotFound):
            memory.source(memory.bob, "a.md")

    def test_there_are_no_dead_letters_of_a_new_operator(self) -> None:
        """Dead letters are listed by operator; one that is not there is not found."""
        memory = self.memory
        assert memory.dead_letters(operator=memory.ada).letters == []
        with refused(NotFound):
            memory.dead_letter("1-1")
        assert memory.drop_dead(["1-1"]).left == {"1-1": "not_found"}
