"""The contract of memories that are told outright."""

from __future__ import annotations

from gralkord.errors import InvalidInput, NotFound
from gralkord.testing.contract.base import Contract, refused


class RecordsContract(Contract):
    """How memories are added, changed and listed."""

    def test_a_memory_is_told_once_and_listed(self) -> None:
        """It is listed with all that was said of it, for its operator alone; its id is one."""
        memory = self.memory
        told = {"kind": "preference", "importance": 2, "tags": ["drinks"], "source": "form"}
        first = memory.add_memory(memory.ada, "Ada likes tea.", id="m1", **told)
        again = memory.add_memory(memory.ada, "Ada likes tea.", id="m1", **told)
        assert first.complete
        assert (first.memory, first.created) == (again.memory, True)
        (found,) = memory.memories(memory.ada, tag="drinks", kind="preference").memories
        assert (found.id, found.content, found.importance) == (first.memory, "Ada likes tea.", 2.0)
        assert (found.source, found.tags, found.lens) == ("form", ["drinks"], "default")
        assert memory.memories(memory.ada, tag="food").memories == []
        assert memory.memories(memory.bob).memories == []
        assert memory.memory(memory.ada, found.id).text == "Ada likes tea."

    def test_other_words_take_the_place_of_a_memory_and_can_be_undone(self) -> None:
        """Importance and tags are changed in place; other words make another memory."""
        memory = self.memory
        old = memory.add_memory(memory.ada, "Ada likes tea.", tags=["drinks"]).memory
        same = memory.update_memory(memory.ada, old, importance=0.5)
        assert (same.memory, same.replaced) == (old, None)
        new = memory.update_memory(memory.ada, old, content="Ada likes coffee.")
        assert new.replaced == old
        (found,) = memory.memories(memory.ada).memories
        assert (found.id, found.content) == (new.memory, "Ada likes coffee.")
        assert (found.importance, found.tags) == (0.5, ["drinks"])
        with refused(InvalidInput):
            memory.update_memory(memory.ada, old, importance=1)
        memory.undo_supersession(memory.ada, old)
        texts = {one.content for one in memory.memories(memory.ada).memories}
        assert texts == {"Ada likes tea.", "Ada likes coffee."}

    def test_a_memory_that_is_not_there_is_not_changed(self) -> None:
        """An unknown id, or one of another operator, is an error."""
        memory = self.memory
        told = memory.add_memory(memory.ada, "Ada likes tea.").memory
        for operator, target in ((memory.ada, "no-such-memory"), (memory.bob, told)):
            with refused(NotFound):
                memory.update_memory(operator, target, importance=0.5)
        with refused(InvalidInput):
            memory.add_memory(memory.ada, " ")
