"""What a model must be good for, asked of the one that is configured."""

from __future__ import annotations

import pytest
from checks import CHECKS, SECONDS

from gralkord import AsyncClient

pytestmark = [pytest.mark.asks_a_model, pytest.mark.timeout(900)]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_model_is_good_for(check, up):
    """The behaviour that the check is named after."""
    token = (up.data_dir / "token").read_text().strip()
    async with AsyncClient(up.url, token, timeout=SECONDS + 20) as client:
        await check(client)
