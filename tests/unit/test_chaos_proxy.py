"""The network that `make chaos` cuts."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from chaos.proxy import Proxy


@asynccontextmanager
async def echo(tmp_path):
    """A proxy before a server that says everything again."""

    async def say_again(reader, writer):
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_unix_server(say_again, tmp_path / "server")
    proxy = Proxy(tmp_path / "proxy", tmp_path / "server")
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
        server.close()


async def ask(proxy, text):
    reader, writer = await asyncio.open_unix_connection(str(proxy.socket))
    writer.write(text)
    return reader, writer


async def test_it_hands_bytes_on(tmp_path):
    """In both directions."""
    async with echo(tmp_path) as proxy:
        reader, writer = await ask(proxy, b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.close()


async def test_a_cut_ends_connections_and_refuses_new_ones(tmp_path):
    """Until it is healed."""
    async with echo(tmp_path) as proxy:
        reader, writer = await ask(proxy, b"hello")
        await reader.readexactly(5)
        proxy.cut()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        late, writer = await ask(proxy, b"hello")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await late.readexactly(1)
        writer.close()
        proxy.heal()
        reader, writer = await ask(proxy, b"again")
        assert await reader.readexactly(5) == b"again"
        writer.close()


async def test_what_was_sent_in_the_silence_arrives_late(tmp_path):
    """Nothing comes while it is silent, all of it afterwards."""
    async with echo(tmp_path) as proxy:
        reader, writer = await ask(proxy, b"one")
        await reader.readexactly(3)
        proxy.silence()
        writer.write(b"two")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)
        proxy.heal()
        assert await reader.readexactly(3) == b"two"
        writer.close()
