"""Two groups that must never mix, and a look into a graph."""

from __future__ import annotations

from gralkord.graph.connection import GraphConnection
from gralkord.groups import Group

ANN = Group("default", "ann", "default").id
BOB = Group("default", "bob", "default").id


async def only(graph: GraphConnection, group: str, query: str, **params):
    """Return the single value that a query answers with."""
    ((value,),) = await graph.read(group, query, params)
    return value
