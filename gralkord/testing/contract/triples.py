"""The contract of triples: facts that are told as such."""

from __future__ import annotations

from typing import Any

from gralkord.errors import InvalidInput, NotFound
from gralkord.testing.contract.base import Contract, refused


def triple(subject: str, predicate: str, target: str, **more: Any) -> dict[str, Any]:
    """Return a triple as a client takes it."""
    return {"subject": subject, "predicate": predicate, "object": target, **more}


class TriplesContract(Contract):
    """How facts are told and asked."""

    def test_a_fact_is_told_once_and_found(self) -> None:
        """A triple is found by its parts and recalled as a fact; told again it is the same."""
        memory = self.memory
        told = triple("Ada", "works at", "the kettle factory")
        added = memory.add_triples(memory.ada, [told])
        assert added.complete
        assert (added.triples[0].created, added.triples[0].predicate) == (True, "WORKS_AT")
        (found,) = memory.triples(memory.ada, "ada", "worksAt").triples
        assert (found.id, found.object.name) == (added.triples[0].id, "the kettle factory")
        (again,) = memory.add_triples(memory.ada, [told]).triples
        assert (again.id, again.created) == (found.id, False)
        (fact,) = memory.ask("kettle factory").results
        assert (fact.kind, fact.id) == ("fact", found.id)
        assert memory.triples(memory.bob).triples == []
        assert memory.result(added.id).complete

    def test_a_fact_ends_another(self) -> None:
        """A fact that supersedes hides the one before, until that is taken back."""
        memory = self.memory
        first = triple("Ada", "LIVES_IN", "Rome", valid_at="2023-01-01")
        second = triple("Ada", "LIVES_IN", "Oslo", valid_at="2024-01-01", supersede=True)
        (rome,) = memory.add_triples(memory.ada, [first]).triples
        (oslo,) = memory.add_triples(memory.ada, [second]).triples
        assert oslo.superseded == [rome.id]
        assert [one.id for one in memory.triples(memory.ada).triples] == [oslo.id]
        before = memory.triples(memory.ada, as_of="2023-06-01").triples
        assert [one.id for one in before] == [rome.id]
        shown = memory.memory(memory.ada, rome.id)
        assert (shown.superseded_by, shown.invalidated) == (oslo.id, True)
        undone = memory.undo_supersession(memory.ada, rome.id)
        assert undone.superseded.undone
        assert {one.id for one in memory.triples(memory.ada).triples} == {rome.id, oslo.id}

    def test_facts_are_added_together_or_not_at_all(self) -> None:
        """One triple that cannot be added keeps the others out, too."""
        memory = self.memory
        bad = triple("Ada", "KNOWS", "x") | {
            "object": {"id": "00000000-0000-0000-0000-00000000abcd"}
        }
        with refused(NotFound):
            memory.add_triples(memory.ada, [triple("Ada", "OWNS", "a kettle"), bad])
        assert memory.triples(memory.ada).triples == []
        with refused(InvalidInput):
            memory.add_triples(memory.ada, [triple("Ada", " ", "a kettle")])

    def test_facts_come_in_pages(self) -> None:
        """A page says where the next one begins."""
        memory = self.memory
        names = ["kettle", "pan", "spoon"]
        memory.add_triples(memory.ada, [triple("Ada", "OWNS", name) for name in names])
        seen: list[str] = []
        page = memory.triples(memory.ada, limit=2)
        seen += [one.object.name for one in page.triples]
        page = memory.triples(memory.ada, limit=2, after=page.next)
        seen += [one.object.name for one in page.triples]
        assert page.next is None
        assert sorted(seen) == names
