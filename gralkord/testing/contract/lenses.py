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

    def test_a_lens_is_erased_by_name(self) -> None:
        """Erasing a lens takes what was captured through it, and nothing else."""
        lens, memory = self.named_lens(), self.memory
        memory.say("The kettle is at work.", lenses=[lens])
        memory.say("The kettle is at home.")
        assert memory.erase(memory.ada, lens=lens).state == "done"
        assert memory.texts("kettle", lenses=[lens]) == ["The kettle is at home."]
