from __future__ import annotations

import asyncio
import os
import signal

import pytest

from gralkord.client.client import AsyncClient
from gralkord.errors import BackendUnavailable, ConfigError, StartError
from gralkord.evaluation.stack import Stack, temporary_data_dir, until_signal


async def test_the_users_own_settings_do_not_reach_the_stack(tmp_path):
    """Neither a remote queue nor a key of the environment is used: its servers are its own."""
    environ = dict(os.environ) | {
        "GRALKORD_QUEUE__HOST": "nowhere.invalid",
        "GRALKORD_MODELS__LLM": "openai:gpt-5-mini",
        "OPENAI_API_KEY": "secret",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    async with Stack(tmp_path / "d", ["--model", "none"], environ=environ) as stack:
        endpoint = stack.endpoint
        async with AsyncClient(endpoint.url, endpoint.token) as client:
            status = await client.status()
        assert status["model"] == "none"
        assert status["queue"]["state"] == "ok"
    assert not (tmp_path / "state").exists()
    with pytest.raises(BackendUnavailable):
        _ = stack.endpoint


async def test_a_stack_that_cannot_start_says_why(tmp_path):
    """The error of `gralkord up` is raised as itself, and nothing runs."""
    stack = Stack(tmp_path / "d", ["--model", "nonsense"])
    with pytest.raises(ConfigError, match="nonsense"):
        await stack.start()
    with pytest.raises(StartError, match="was not started"):
        _ = stack.pid


def test_a_temporary_directory_goes_also_after_an_error():
    """It is removed whatever happens, unless it is to be kept."""
    with pytest.raises(StartError, match="no") as raised, temporary_data_dir() as path:
        raise StartError("no", hint=f"see {path}/logs")
    assert not path.exists()
    assert str(path) not in (raised.value.hint or "")
    with temporary_data_dir(keep=True) as path:
        pass
    assert path.exists()
    path.rmdir()


async def test_sigterm_lets_work_clear_away():
    """SIGTERM is an interruption, not a sudden end."""
    cleared = []

    async def work():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(30)
        finally:
            cleared.append(True)

    with pytest.raises(KeyboardInterrupt):
        await until_signal(work())
    assert cleared
