"""Servers such as other people run: on TCP, with a user and password, and behind TLS.

The redis-server of the wheel is built without TLS, so a proxy terminates it, as stunnel or a cloud
load balancer does. Our side of the connection is the real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import ipaddress
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import redis as redis_sync
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from up_process import eventually

from gralkord.embedded.servers import ServerSpec

USER = "gralkord"
PASSWORD = "a long & strange password"


def free_port() -> int:
    """Return a TCP port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


class RemoteServer:
    """A queue Redis or FalkorDB on TCP that only lets `USER` in."""

    def __init__(self, home: Path, kind: str) -> None:
        self.port = free_port()
        spec = ServerSpec(kind=kind, directory=home / kind, socket=home / f"{kind}.sock")
        spec.prepare()
        digest = hashlib.sha256(PASSWORD.encode()).hexdigest()
        acl = f"--user {USER} on #{digest} ~* &* +@all --user default off ~* &* +@all".split()
        with (home / f"{kind}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*spec.command(), "--port", str(self.port), *acl], stdout=log, stderr=log
            )
        try:
            eventually(self._answers)
        except BaseException:
            self.close()
            raise

    def client(self) -> redis_sync.Redis:
        """Return a client that is let in."""
        return redis_sync.Redis(port=self.port, username=USER, password=PASSWORD)

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()

    def _answers(self) -> bool:
        with self.client() as client, contextlib.suppress(redis_sync.RedisError):
            return client.ping()
        return False


class TlsProxy:
    """Terminates TLS on a port of its own and hands the bytes on to another."""

    def __init__(self, target: int, certificate: Certificate) -> None:
        self._target = target
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.chain, certificate.key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        start = asyncio.run_coroutine_threadsafe(self._start(), self._loop)
        self._server = start.result(10)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """End all connections."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)

    async def _stop(self) -> None:
        self._server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader, writer) -> None:
        ends = [writer]
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            ends.append(back)
            ways = [asyncio.ensure_future(_copy(reader, back))]
            ways.append(asyncio.ensure_future(_copy(there, writer)))
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
        except (OSError, asyncio.CancelledError):
            return
        finally:
            for end in ends:
                end.close()


async def _copy(reader, writer) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


class Certificate:
    """A certificate for 127.0.0.1 and the authority that signed it, as files."""

    def __init__(self, home: Path) -> None:
        authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        authority = _sign("gralkord test authority", authority_key, authority_key, None)
        leaf = _sign("127.0.0.1", key, authority_key, authority)
        self.authority = home / "ca.pem"
        self.chain = home / "chain.pem"
        self.key = home / "key.pem"
        pem = serialization.Encoding.PEM
        self.authority.write_bytes(authority.public_bytes(pem))
        self.chain.write_bytes(leaf.public_bytes(pem))
        self.key.write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )


def _sign(name: str, key, authority_key, authority: x509.Certificate | None) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.subject if authority else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
    )
    if authority is None:
        builder = builder.add_extension(_authority_usage(), critical=True)
    else:
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def _authority_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
