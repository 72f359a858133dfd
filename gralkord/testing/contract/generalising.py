"""The contract of generalisations: those that are passed on."""

from __future__ import annotations

from gralkord.errors import GeneralisationParseFailed
from gralkord.models.generalisations import from_wire, to_wire
from gralkord.testing.contract.base import Contract, refused

FIRST = (
    'GEN|v1|{"id":"gen-1","level":0,"confidence":0.9,"generalises":[]}\nAda likes her tea green.'
)
SECOND = (
    'GEN|v1|{"id":"gen-2","level":1,"confidence":0.5,"generalises":["gen-1"]}\n'
    "Ada likes quiet\nmornings."
)


class GeneralisationsContract(Contract):
    """How generalisations are told, found and passed on."""

    def test_generalisations_are_told_once_and_found(self) -> None:
        """They are found by their words, in their operator's memory alone."""
        memory = self.memory
        added = memory.add_generalisations(memory.ada, [FIRST, SECOND])
        assert [one.created for one in added.generalisations] == [True, True]
        again = memory.add_generalisations(memory.ada, [SECOND]).generalisations
        assert [(one.id, one.created) for one in again] == [(added.generalisations[1].id, False)]
        found = memory.search_generalisations(memory.ada, "green tea", 1).generalisations
        assert [one.content for one in found] == ["Ada likes her tea green."]
        assert memory.search_generalisations(memory.bob, "green tea").generalisations == []

    def test_what_is_passed_on_can_be_read(self) -> None:
        """Each has a form with its lineage; what is no such form is refused, and all with it."""
        memory = self.memory
        memory.add_generalisations(memory.ada, [FIRST, SECOND])
        known = {one.level: one for one in memory.generalisations(memory.ada).generalisations}
        read = from_wire(to_wire(known[1]))
        assert read is not None
        assert (read.generalises, read.content) == ([known[0].id], "Ada likes quiet\nmornings.")
        with refused(GeneralisationParseFailed) as refusal:
            memory.add_generalisations(memory.bob, [FIRST, 'GEN|v1|{"level":0}\nBob likes tea'])
        assert refusal.field == "generalisations.1"
        assert memory.generalisations(memory.bob).generalisations == []
