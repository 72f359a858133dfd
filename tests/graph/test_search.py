from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from fakes import FakeEntities, FakeFacts

from gralkord.errors import QueryRefused
from gralkord.graph.driver import EpisodeDriver
from gralkord.graph.library import (
    ComparisonOperator,
    DateFilter,
    EntityNode,
    EpisodicNode,
    PropertyFilter,
    SearchFilters,
)
from gralkord.graph.search import CacheSearch

GROUP = "op__default__ann__default"


def fact(number: int, source: str, target: str, **more):
    """Return a row of the cache: a fact that holds since that day of January."""
    row = {
        "uuid": f"f{number}",
        "name": "KNOWS",
        "fact": f"{source} knows {target} number{number}",
        "source_uuid": source,
        "target_uuid": target,
        "valid_at": f"2024-01-{number:02}T00:00:00Z",
        "episodes": ("e1",),
        "attributes": {"since": number},
        "vector": None,
    }
    missing = dict.fromkeys(("invalid_at", "expired_at", "reference_time", "created_at"))
    return SimpleNamespace(group_id=GROUP, **missing, **(row | more))


def entity(name: str, *labels: str):
    """Return a row of the cache: an entity whose uuid is its name."""
    return SimpleNamespace(
        uuid=name,
        name=name,
        summary="",
        labels=("Entity", *labels),
        group_id=GROUP,
        created_at=None,
        attributes={"age": 41},
        vector=None,
    )


@pytest.fixture
def search():
    """Searches over four facts of four entities."""
    rows = [fact(1, "a", "b"), fact(2, "b", "a"), fact(3, "a", "a"), fact(4, "b", "c")]
    people = [entity("a", "Person"), entity("b", "Person"), entity("c"), entity("d")]
    known = SimpleNamespace(facts=FakeFacts(rows), entities=FakeEntities(people))
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
        ({"edge_source_node_uuids": ["b"]}, "24"),
        ({"edge_source_node_uuids": ["a", "b"], "edge_target_node_uuids": ["a", "b"]}, "123"),
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
    nodes = [await search.node_fulltext_search(None, "c", SearchFilters()) for _ in range(2)]
    assert nodes[0][0] is not nodes[1][0]
    assert nodes[0][0].attributes == {"age": 41}


async def test_neighbours_are_found_within_their_steps(search):
    """A walk from an entity finds the facts and entities within so many steps, nearest first."""
    near = await search.edge_bfs_search(None, ["a"], 1, SearchFilters())
    assert {each.uuid for each in near} == {"f1", "f3"}
    far = await search.edge_bfs_search(None, ["a"], 2, SearchFilters())
    assert [each.uuid for each in far][-1] in {"f2", "f4"}
    assert {each.uuid for each in far} == {"f1", "f2", "f3", "f4"}
    nodes = search.node_bfs_search(None, ["a"], SearchFilters(), 2)
    assert await uuids(nodes) == ["a", "b", "c"]
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
