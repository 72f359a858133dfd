"""The contract of erasing: what is to go goes, and nothing else."""

from __future__ import annotations

from gralkord.errors import InvalidInput, NotFound
from gralkord.testing.contract.base import Contract, refused


class ErasingContract(Contract):
    """How memory is erased."""

    def test_a_part_is_counted_first_and_erased_then(self) -> None:
        """A dry run tells what would go and changes nothing; then one turn goes, for good."""
        memory = self.memory
        memory.say("The kettle is red.", turn_id="t1")
        memory.say("The kettle is old.", turn_id="t2")
        dry = memory.erase(memory.ada, turn="t1", dry_run=True)
        assert (dry.dry_run, dry.counts["graph"]["passages"]) == (True, 1)
        assert len(memory.texts("kettle")) == 2
        done = memory.erase(memory.ada, turn="t1")
        assert (done.state, done.counts["graph"]["passages"]) == ("done", 1)
        assert memory.texts("kettle", include_invalidated=True) == ["The kettle is old."]
        assert memory.erasure(done.id).state == "done"
        assert done.id in [one.id for one in memory.erasures()]

    def test_an_operator_is_forgotten(self) -> None:
        """All of an operator goes, sessions too; nothing of another does."""
        memory = self.memory
        receipt = memory.say("The kettle is red.")
        memory.say("The kettle is old.", memory.bob)
        assert memory.erase(memory.ada, everything=True).state == "done"
        assert memory.texts("kettle") == []
        assert memory.texts("kettle", memory.bob) == ["The kettle is old."]
        with refused(NotFound):
            memory.job(receipt.receipt)
        memory.capture(memory.session, memory.bob, "helper", "Bob", "It is mine now.")

    def test_nothing_is_erased_by_mistake(self) -> None:
        """Without a part, or with an empty list of ids, an erasure is refused."""
        memory = self.memory
        with refused(InvalidInput) as refusal:
            memory.erase(memory.ada)
        assert refusal.field == "everything"
        with refused(InvalidInput):
            memory.erase(memory.ada, ids=[])
