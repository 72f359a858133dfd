"""What every client of a memory does: a suite of tests to run on yours.

Subclass `MemoryContract` (all of it) or its parts in a test module, say how a client is made, and
give the class a name that pytest collects.
"""

from gralkord.testing.contract.admin import AdminContract
from gralkord.testing.contract.base import Contract
from gralkord.testing.contract.changes import ChangesContract
from gralkord.testing.contract.erasing import ErasingContract
from gralkord.testing.contract.generalising import GeneralisationsContract
from gralkord.testing.contract.ingesting import IngestContract
from gralkord.testing.contract.lenses import LensContract
from gralkord.testing.contract.recalling import RecallContract
from gralkord.testing.contract.records import RecordsContract
from gralkord.testing.contract.triples import TriplesContract
from gralkord.testing.contract.turns import TurnsContract

__all__ = [
    "AdminContract",
    "ChangesContract",
    "Contract",
    "ErasingContract",
    "GeneralisationsContract",
    "IngestContract",
    "LensContract",
    "MemoryContract",
    "RecallContract",
    "RecordsContract",
    "TriplesContract",
    "TurnsContract",
]


class MemoryContract(
    TurnsContract,
    IngestContract,
    RecallContract,
    LensContract,
    ChangesContract,
    RecordsContract,
    TriplesContract,
    GeneralisationsContract,
    ErasingContract,
    AdminContract,
):
    """All parts of the contract."""
