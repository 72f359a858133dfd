"""What every client of a memory does: a suite of tests to run on yours.

Subclass `MemoryContract` (all of it) or its parts in a test module, say how a client is made, and
give the class a name that pytest collects.
"""

from gralkord.testing.contract.base import Contract
from gralkord.testing.contract.changes import ChangesContract
from gralkord.testing.contract.erasing import ErasingContract
from gralkord.testing.contract.lenses import LensContract
from gralkord.testing.contract.recalling import RecallContract
from gralkord.testing.contract.triples import TriplesContract
from gralkord.testing.contract.turns import TurnsContract

__all__ = [
    "ChangesContract",
    "Contract",
    "ErasingContract",
    "LensContract",
    "MemoryContract",
    "RecallContract",
    "TriplesContract",
    "TurnsContract",
]


class MemoryContract(
    TurnsContract, RecallContract, LensContract, ChangesContract, TriplesContract, ErasingContract
):
    """All parts of the contract."""
