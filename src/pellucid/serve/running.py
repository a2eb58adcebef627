"""Runs an application until it is told to stop: a socket that is taken early, so that a taken port is said at once."""

import asyncio
import os
import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from pellucid.serve.limits import Limits
from pellucid.serve.service import DRAIN_SECONDS

if TYPE_CHECKING:
    import uvicorn


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket at this address, not yet listening; ValueError, saying what to do, where that cannot be."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ValueError(f"--host {host!r}: no address of this machine ({error}); try 127.0.0.1") from None
    found = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(socket.SOMAXCONN)
    except OSError as error:
        found.close()
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"cannot listen on {host} port {port}: {reason}; try another --port") from None
    return found


def serve_until_stopped(app: ASGIApp, listening: socket.socket, limits: Limits) -> None:
    """Serve until interrupted or terminated; then what is under way is answered first."""
    # When everything is done, uvicorn raises the signal again, for the handler that it found.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            make_server(app, limits).run(sockets=[listening])
    finally:
        signal.signal(signal.SIGTERM, before)


def make_server(app: ASGIApp, limits: Limits) -> "uvicorn.Server":
    """What runs an application, with limits on its connections."""
    import uvicorn

    from pellucid.serve.connections import ACCEPTED_AT_ONCE, Connections

    connections = Connections(limits)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            asyncio.get_running_loop().set_exception_handler(connections.handle_loop_error)
            await super().startup(sockets)
            for listening in sockets or ():
                listening.listen(socket.SOMAXCONN)  # asyncio has made the queue as short as what it accepts at once

    return Server(
        uvicorn.Config(
            app,
            http=connections.open_protocol,  # pyright: ignore[reportArgumentType]  # a class, or what is called like one
            backlog=ACCEPTED_AT_ONCE,
            log_level="error",  # its warnings are of what clients do, and one client can do it without end
            access_log=False,
            server_header=False,
            proxy_headers=False,  # who asks is whoever holds the connection: a header could say anything
            timeout_graceful_shutdown=int(limits.seconds + DRAIN_SECONDS) + 1,
            ws="none",
        )
    )
