"""The contract of communities: what belongs together by the facts that are known."""

from __future__ import annotations

from gralkord.errors import NotFound
from gralkord.testing.contract.base import Contract, refused
from gralkord.testing.contract.triples import triple


class AdminContract(Contract):
    """How communities are found, and what takes them away."""

    def test_communities_are_built_of_one_operators_facts(self) -> None:
        """A dry run changes nothing; an erasure takes what has to do with what goes."""
        memory = self.memory
        told = [triple("Ada", "OWNS", "a kettle"), triple("Tom", "LIVES_IN", "Rome")]
        added = memory.add_triples(memory.ada, told).triples
        *_, plan = memory.build_communities(memory.ada, dry_run=True)
        assert (plan.done, plan.facts, plan.communities, plan.members) == (True, 2, 2, 4)
        assert memory.communities(memory.ada).communities == []
        *_, built = memory.build_communities(memory.ada)
        assert (built.done, built.stopped, built.communities) == (True, False, 2)
        found = [sorted(each.entities) for each in memory.communities(memory.ada).communities]
        assert sorted(found) == [["Ada", "a kettle"], ["Rome", "Tom"]]
        assert memory.communities(memory.bob).communities == []
        assert not memory.stop_communities(memory.ada).stopped
        assert all(each.created == 0 for each in memory.build_indices())
        with refused(NotFound):
            list(memory.build_communities(memory.bob))
        memory.erase(memory.ada, ids=[added[0].id])
        left = [each.entities for each in memory.communities(memory.ada).communities]
        assert ["Ada", "a kettle"] not in map(sorted, left)
