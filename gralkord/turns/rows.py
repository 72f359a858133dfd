"""Rows of an export, written in the understand lane of their group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gralkord.graph.transfer import RowWriter
from gralkord.mailbox.items import Item, Lease
from gralkord.models.transfer import TransferRow
from gralkord.turns.work import Executor
from gralkord.wire import read_model


def write_rows(writer: RowWriter) -> Executor:
    """Return the executor of requests of the kind ``rows``.

    Its answer tells how many rows were new, and the places of those that could not be written.
    """

    async def execute(lease: Lease, item: Item) -> Mapping[str, Any]:
        rows = [read_model(TransferRow, row) for row in item.body["rows"]]
        written = await writer.write(
            lease.group,
            lease.epoch,
            rows,
            origin=item.body["origin"],
            embedder=item.body["embedder"],
        )
        missing = [number for number in range(len(rows)) if number not in written.numbers]
        return {"created": written.created, "missing": missing}

    return execute
