"""The driver that Graphiti runs on: it reaches the graph through our hooks only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from typing_extensions import override

from gralkord.errors import QueryRefused
from gralkord.graph.library import GraphDriver, GraphDriverSession, GraphProvider

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gralkord.graph.operations import EpisodeOperations
    from gralkord.graph.search import CacheSearch


class EpisodeDriver(GraphDriver):
    """Graphiti's driver for one episode of one group.

    It has no connection of its own. Whatever Graphiti does goes through the two interfaces; a query
    of Graphiti's own would write without the fence or scan the graph, so it is refused. There are
    no clones, index statements or background tasks.
    """

    provider = GraphProvider.FALKORDB
    default_group_id = "_"

    def __init__(self, group: str, search: CacheSearch, operations: EpisodeOperations) -> None:
        self._database = group
        self.search_interface = search
        self.graph_operations_interface = operations

    @override
    async def execute_query(self, cypher_query_: str, **kwargs: Any) -> NoReturn:
        _refuse()

    @override
    def session(self, database: str | None = None) -> GraphDriverSession:
        return EpisodeSession()

    @override
    async def close(self) -> None:
        """Do nothing: there is no connection."""

    @override
    async def delete_all_indexes(self) -> NoReturn:
        _refuse()

    @override
    async def build_indices_and_constraints(self, delete_existing: bool = False) -> None:
        """Do nothing: `schema.create_group` has made the only indices that are safe."""

    @override
    def clone(self, database: str) -> GraphDriver:
        if database != self._database:
            _refuse()
        return self


class EpisodeSession(GraphDriverSession):
    """What Graphiti calls a session: it runs the saves, which are hooks, and no query."""

    provider = GraphProvider.FALKORDB

    @override
    async def __aexit__(self, exc_type: object, exc: object, tb: object) -> None:
        """Do nothing: nothing was opened."""

    @override
    async def run(self, query: str, **kwargs: Any) -> NoReturn:
        _refuse()

    @override
    async def close(self) -> None:
        """Do nothing: nothing was opened."""

    @override
    async def execute_write(
        self, func: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any
    ) -> Any:
        return await func(self, *args, **kwargs)


def _refuse() -> NoReturn:
    raise QueryRefused("graphiti sends no queries of its own: they would pass the fence by")
