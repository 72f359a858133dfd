"""Outputs of all malformed kinds over real HTTP; `bench/malformed.py` asks for 10,000."""

from __future__ import annotations

import sys
from pathlib import Path

from gralkord.testing.faults import MALFORMED

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))


async def test_none_ends_as_if_nothing_had_been_found():
    """Each output is read or repaired to exactly the right answer, or ends as a typed error."""
    import malformed

    found = await malformed.run(110, seed=3)
    assert found.kinds == len(MALFORMED) >= 12
    ends = {name.rpartition(": ")[2] for name in found.fates}
    assert ends == {"read at once", "repaired", "malformed_output"}
