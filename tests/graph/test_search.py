from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gralkord.errors import QueryRefused
from gralkord.graph.cache import GroupCache
from gralkord.graph.driver import EpisodeDriver
from gralkord.graph.library import (
    ComparisonOperator,
    DateFilter,
    EntityNode,
    EpisodicNode,
    PropertyFilter,
    SearchFilters,
)
from gralkord.graph.rows import EntityRow, FactRow
from gralkord.graph.search import CacheSearch

GROUP = "op__default__ann__default"


def fact(number: int, source: str, target: str) -> FactRow:
    """Return a fact that holds since that day of January."""
    return FactRow(
        uuid=f"f{number}",
        name="KNOWS",
        fact=f"{source} knows {target} number{number}",
        source_uuid=source,
        target_uuid=target,
        group_id=GROUP,
        created_at=None,
        valid_at=f"2024-01-{number:02}T00:00:00Z",
        invalid_at=None,
        expired_at=None,
        reference_time=None,
        episodes=("e1",),
        attributes={"since": number},
        seq=number,
    )


def entity(name: str, *labels: str) -> EntityRow:
    """Return an entity whose uuid is its name."""
    return EntityRow(
        uuid=name,
        name=f"the {name}",
        summary="",
        labels=("Entity", *labels),
        group_id=GROUP,
        created_at=None,
        attributes={"age": 41},
        seq=1,
    )


@pytest.fixture
def search():
    """Searches over four facts of four entities."""
    known = GroupCache(GROUP, 1, "run")
    for row in (fact(1, "ann", "bob"), fact(2, "bob", "ann"), fact(3, "ann", "ann")):
        known.facts.put(row, None)
    known.facts.put(fact(4, "bob", "cat"), None)
    for row in (entity("ann", "Person"), entity("bob", "Person"), entity("cat"), entity("dan")):
        known.entities.put(row, None)
    return CacheSearch(known)


def day(number: int, how: ComparisonOperator) -> DateFilter:
    return DateFilter(
        date=datetime(2024, 1, number, tzinfo=UTC) if number else None, comparison_operator=how
    )


async def uuids(found):
    return sorted(each.uuid for each in await found)


OPERATOR = ComparisonOperator


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, "1234"),
        ({"valid_at": [[day(2, OPERATOR.less_than)]]}, "1"),
        ({"valid_at": [[day(2, OPERATOR.less_than_equal)]]}, "12"),
        ({"valid_at": [[day(2, OPERATOR.less_than)], [day(3, OPERATOR.greater_than)]]}, "14"),
        (
            {"valid_at": [[day(1, OPERATOR.greater_than), day(4, OPERATOR.less_than)]]},
            "23",
        ),
        ({"invalid_at": [[day(0, OPERATOR.is_null)]]}, "1234"),
        ({"invalid_at": [[day(0, OPERATOR.is_not_null)]]}, ""),
        ({"invalid_at": [[day(9, OPERATOR.less_than)]]}, ""),
        ({"edge_types": ["OTHER"]}, ""),
        ({"edge_uuids": ["f1", "f4"]}, "14"),
        ({"node_labels": ["Person"]}, "123"),
        ({"edge_source_node_uuids": ["bob"]}, "24"),
        (
            {
                "edge_source_node_uuids": ["ann", "bob"],
                "edge_target_node_uuids": ["ann", "bob"],
            },
            "123",
        ),
        (
            {
                "property_filters": [
                    PropertyFilter(
                        property_name="since",
                        property_value=2,
                        comparison_operator=OPERATOR.less_than_equal,
                    )
                ]
            },
            "12",
        ),
    ],
)
async def test_filters_mean_what_they_say(search, filters, expected):
    """Times before, unknown times, types, ends, labels and properties are told apart exactly."""
    found = search.edge_fulltext_search(None, "knows", SearchFilters(**filters))
    assert await uuids(found) == [f"f{number}" for number in expected]


async def test_a_fact_is_one_object_and_an_entity_is_not(search):
    """Two searches give the same fact, so that what Graphiti notes on it is not lost."""
    (one,) = await search.edge_fulltext_search(None, "number1", SearchFilters())
    (two,) = await search.edge_fulltext_search(None, "number1", SearchFilters())
    assert one is two
    assert one.attributes == {"since": 1}
    assert one.valid_at == datetime(2024, 1, 1, tzinfo=UTC)
    nodes = [await search.node_fulltext_search(None, "cat", SearchFilters()) for _ in range(2)]
    assert nodes[0][0] is not nodes[1][0]
    assert nodes[0][0].attributes == {"age": 41}


async def test_neighbours_are_found_within_their_steps(search):
    """A walk from an entity finds the facts and entities within so many steps, nearest first."""
    near = await search.edge_bfs_search(None, ["ann"], 1, SearchFilters())
    assert {each.uuid for each in near} == {"f1", "f3"}
    far = await search.edge_bfs_search(None, ["ann"], 2, SearchFilters())
    assert [each.uuid for each in far][-1] in {"f2", "f4"}
    assert {each.uuid for each in far} == {"f1", "f2", "f3", "f4"}
    nodes = search.node_bfs_search(None, ["ann"], SearchFilters(), 2)
    assert await uuids(nodes) == ["ann", "bob", "cat"]
    assert await search.edge_bfs_search(None, None, 2, SearchFilters()) == []


async def test_no_vector_finds_nothing(search):
    """A vector of zeros, which stands for having no embedder, is close to nothing."""
    assert await search.edge_similarity_search(None, [0.0], None, None, SearchFilters()) == []
    assert await search.node_similarity_search(None, [0.0], SearchFilters()) == []


async def test_graphiti_cannot_send_queries_of_its_own(search):
    """Every way around the one write is refused, also saving, deleting and cloning."""
    from gralkord.graph.operations import EpisodeOperations

    now = datetime(2024, 1, 1, tzinfo=UTC)
    episode = EpisodicNode(
        name="e", group_id=GROUP, labels=[], source="message", source_description="", content="",
        valid_at=now, created_at=now,
    )  # fmt: skip
    operations = EpisodeOperations(search._known, episode, [], None)
    driver = EpisodeDriver(GROUP, search, operations)
    node = EntityNode(name="Ann", group_id=GROUP, labels=["Entity"])
    ways = [
        driver.execute_query("MATCH (n) RETURN n"),
        driver.session().run("CREATE (n)"),
        driver.delete_all_indexes(),
        node.save(driver),
        node.delete(driver),
        episode.save(driver),
        EntityNode.get_by_group_ids(driver, [GROUP]),
    ]
    for way in ways:
        with pytest.raises(QueryRefused):
            await way
    with pytest.raises(QueryRefused):
        driver.clone("another")
    assert driver.clone(GROUP) is driver
