"""The contract of lenses: memories that are kept apart for one operator."""

from __future__ import annotations

from gralkord.testing.contract.base import Contract


class LensContract(Contract):
    """How lenses hold; skipped where no lens is named."""

    def test_a_lens_is_asked_by_name(self) -> None:
        """What was captured through a lens is recalled with that lens, and by its operator only."""
        lens, memory = self.named_lens(), self.memory
        memory.say("The kettle is at work.", lenses=[lens])
        memory.say("The kettle is at home.")
        assert memory.texts("kettle") == ["The kettle is at home."]
        assert set(memory.texts("kettle", lenses=[lens])) == {
            "The kettle is at work.",
            "The kettle is at home.",
        }
        assert memory.texts("kettle", memory.bob, lenses=[lens]) == []
        (found,) = [one for one in memory.ask("kettle", lenses=[lens]).results if one.lens == lens]
        assert memory.memory(memory.ada, found.id).lens == lens

    def test_lenses_are_searched_one_by_one(self) -> None:
        """A search answers lens by lens, ``default`` first and once, with a limit for each."""
        lens, memory = self.named_lens(), self.memory
        for at in range(2):
            memory.say(f"The kettle at work has number {at}.", lenses=[lens])
            memory.say(f"The kettle at home has number {at}.")
        found = memory.search(memory.ada, "kettle", [lens, "default"], max_results=1)
        assert found.lenses == [one.lens for one in found.results] == ["default", lens]
        assert ["home" in one.text for one in found.results] == [True, False]
        (alone,) = memory.ask("kettle", lens=lens, max_results=1).results
        assert alone.lens == lens
        nothing = memory.search(memory.bob, "kettle", [lens])
        assert nothing.results == []
        assert "No relevant memories found." in nothing.memory_block

    def test_a_lens_is_erased_by_name(self) -> None:
        """Erasing a lens takes what was captured through it, and nothing else."""
        lens, memory = self.named_lens(), self.memory
        memory.say("The kettle is at work.", lenses=[lens])
        memory.say("The kettle is at home.")
        assert memory.erase(memory.ada, lens=lens).state == "done"
        assert memory.texts("kettle", lenses=[lens]) == ["The kettle is at home."]

    def test_what_global_lenses_share_is_asked_like_a_lens(self) -> None:
        """Wherever one lens is asked, ``global`` can be named; nothing of an operator is in it."""
        memory = self.memory
        memory.say("The kettle is at home.")
        memory.add_triples(
            memory.ada, [{"subject": "Ada", "predicate": "owns", "object": "kettle"}]
        )
        shared = memory.triples(memory.ada, subject="Ada", predicate="owns", lens="global")
        assert shared.triples == []
        assert memory.memories(memory.ada, lens="global").memories == []
        memory.generalisations(memory.ada, lens="global")
        memory.communities(memory.ada, lens="global")
        assert "kettle" not in " ".join(memory.texts("kettle", lens="global"))

    def test_a_lens_that_is_not_configured_any_more_can_be_erased(self) -> None:
        """An erasure takes its name as it is; there is nothing to be found."""
        memory = self.memory
        memory.say("The kettle is at home.")
        counted = memory.erase(memory.ada, lens="given-up", dry_run=True)
        assert counted.state == "done"
        assert not counted.counts["graph"].get("passages")
