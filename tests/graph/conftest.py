"""A connection to a real FalkorDB."""

from __future__ import annotations

import pytest

from gralkord.config import Graph
from gralkord.graph.connection import GraphConnection


@pytest.fixture
async def graph(graph_socket):
    """Connection to a FalkorDB without any graph."""
    connection = GraphConnection.open(Graph(), socket=graph_socket)
    yield connection
    await connection.close()
