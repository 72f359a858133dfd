"""The HTTP port: bound before anything starts, so that a busy one is told at once."""

from __future__ import annotations

import errno
import socket

from gralkord.errors import StartError

_BACKLOG = 512


def bind_port(host: str, port: int) -> socket.socket:
    """Return a socket that listens at *host* and *port*.

    Whoever keeps it open keeps the port: connections made while no daemon accepts them wait.

    Args:
        host: A loopback address or name.
        port: The port; 0 takes a free one.

    Raises:
        StartError: The port is in use or may not be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise StartError(
                f"port {port} on {host} is in use by another process",
                field="rpc.port",
                hint="choose another with --port, or any free one with --port 0",
            ) from error
        raise StartError(
            f"cannot listen on port {port} of {host}: {error.strerror}", field="rpc.port"
        ) from error
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the URL of the HTTP port that *listener* listens on."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
