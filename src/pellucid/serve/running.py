"""Runs an application until it is interrupted. The socket is bound first, so that a port in use is reported at once."""

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
    """Return a listening socket at this address; raise ValueError, saying what to do, where there can be none."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ValueError(f"--host {host!r}: no address of this machine ({error}); try 127.0.0.1") from None
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(socket.SOMAXCONN)
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"cannot listen on {host} port {port}: {reason}; try another --port") from None
    return listener


def serve_until_stopped(app: ASGIApp, listener: socket.socket, limits: Limits) -> None:
    """Serve until interrupted or terminated; then finish the requests under way."""
    # After its shutdown uvicorn raises the signal again, for the handler it found: SIGTERM then ends like Ctrl-C.
    previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            make_server(app, limits).run(sockets=[listener])
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def make_server(app: ASGIApp, limits: Limits) -> "uvicorn.Server":
    """Make the uvicorn server of an application, with limits on its connections."""
    import uvicorn

    from pellucid.serve.connections import Connections

    connections = Connections(limits)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            # Here rather than before `run`: uvicorn makes its own loop, and there is none until this call.
            asyncio.get_running_loop().set_exception_handler(connections.handle_loop_error)
            await super().startup(sockets)
            for listener in sockets or ():
                listener.listen(
                    socket.SOMAXCONN
                )  # asyncio has set the queue's length to `backlog`, which is far shorter

    return Server(
        uvicorn.Config(
            app,
            http=connections.open_protocol,  # pyright: ignore[reportArgumentType]  # a class, or what is called like one
            backlog=connections.accepted_at_once,  # asyncio also accepts this many in one turn of its loop
            log_level="error",  # clients cause its warnings, and one client could fill the log with them
            access_log=False,
            server_header=False,
            # Clients could escape the limit per address with any address they like in X-Forwarded-For.
            proxy_headers=False,
            # Longer than any request may take, so that no answer under way is cut off.
            timeout_graceful_shutdown=int(limits.seconds + DRAIN_SECONDS) + 1,
            ws="none",
        )
    )
