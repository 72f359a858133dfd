"""The HTTP port: bound before anything starts, so that a busy one is told at once."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Mapping

from gralkord.errors import StartError

_BACKLOG = 512
_FIRST_FD = 3


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


def handed_over(environ: Mapping[str, str]) -> list[socket.socket]:
    """Return the sockets that a service manager has opened for this very process, if any.

    Args:
        environ: Environment variables; see ``sd_listen_fds(3)``.
    """
    if environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = environ.get("LISTEN_FDS", "0")
    numbers = range(_FIRST_FD, _FIRST_FD + int(count)) if count.isdecimal() else range(0)
    for number in numbers:
        os.set_inheritable(number, False)
    return [socket.socket(fileno=number) for number in numbers]


def url_of(listener: socket.socket) -> str:
    """Return the URL of the HTTP port that *listener* listens on, or ``unix:`` and its path."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
