from __future__ import annotations

import pytest
from groups_of_tests import ANN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gralkord.errors import InvalidInput
from gralkord.graph.wire import encode_query

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
SCALAR = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT
KEY = st.text(st.characters(codec="utf-8", exclude_characters="\x00`"), min_size=1, max_size=8)
VALUE = st.recursive(SCALAR, lambda each: st.lists(each) | st.dictionaries(KEY, each), max_leaves=8)


@given(value=st.lists(VALUE, max_size=6))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_value_comes_back_as_it_went(graph_server, value):
    """Text, numbers, booleans, null, lists and maps survive the way to the server and back."""
    import redis

    from gralkord.graph.wire import decode_rows

    with redis.Redis(unix_socket_path=str(graph_server), decode_responses=True) as client:
        query = encode_query("RETURN $value", {"value": value})
        reply = client.execute_command("GRAPH.QUERY", "wire", query, "--compact")
    assert decode_rows(reply) == [[value]]


@pytest.mark.parametrize(
    "text",
    ["'", "\\", "\\'", "'; MATCH (n) DELETE n //", "$a", "`", '"', "\n\r\t", "\\u0041", "\x01\x7f"],
)
async def test_text_that_looks_like_cypher_is_text(graph, text):
    """Quotes, backslashes and statements inside of a value change nothing but the value."""
    await graph.ensure_group(ANN)
    assert await graph.read(ANN, "RETURN $text", {"text": text}) == [[text]]


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        2**63,
        "a\x00b",
        "\ud800",
        b"x",
        {1: 2},
        {"": 1},
        {"a`b": 1},
        object(),
    ],
)
def test_what_cypher_cannot_hold_is_refused(value):
    """A value that the server would misread is refused before it is sent."""
    with pytest.raises(InvalidInput):
        encode_query("RETURN $value", {"value": value})


def test_names_of_parameters_are_identifiers():
    """A parameter's name cannot smuggle a query in."""
    with pytest.raises(InvalidInput):
        encode_query("RETURN 1", {"a=1 RETURN 2 //": 1})


async def test_floats_are_floats(graph):
    """A float comes back as a float, also where it is whole."""
    await graph.ensure_group(ANN)
    ((values,),) = await graph.read(ANN, "RETURN $values", {"values": [1.5, 2.0, -1.5e-07]})
    assert values == [1.5, 2.0, -1.5e-07]
    assert all(isinstance(value, float) for value in values)
