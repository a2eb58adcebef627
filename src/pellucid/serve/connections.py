"""The server process: its socket, and connections with timeouts, never more than the process may open files."""

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from math import ceil
from threading import Timer
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pellucid.serve.bodies import problem_response
from pellucid.serve.service import Service
from pellucid.serve.settings import Limits

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

_LOG_EVERY = 60.0  # seconds in which one complaint is logged at most once
# Seconds during which a stopping server still reads requests that were sent before.
ON_ITS_WAY = 0.2
# Shares of `Limits.stopping`: until what is under way is told that the server stops, and until
# connections are closed whose clients have not read their answer, or have not sent their request.
# What is left is for the threads to end.
_FINISHING_SHARE, _CLOSING_SHARE = 0.5, 0.75
# Seconds after `Limits.stopping` in which a process that still has not ended ends itself.
_LAST_SECONDS = 0.5
_SWITCH_SECONDS = 0.0005  # seconds for which a thread keeps Python's lock while others want it
# Most connections that the event loop accepts in one turn, before it serves the first of them.
_ACCEPTED_AT_ONCE = 64


# Chunks of a body that may have any size; beyond these, all must have `CHUNK_BYTES` on average.
SMALL_CHUNKS = 1000

CHUNK_BYTES = 64


class Connections:
    """The connections of one server: how many there may be, and which of them have no complete request.

    When there are too many, the one whose header or body has been awaited longest is
    closed. A client that connects and sends its request at once is therefore answered,
    however many others hold connections open.
    """

    def __init__(self, limits: Limits):
        # Half of the files: traces, the log and the connections not yet accepted need some too.
        self.limit = min(limits.connections, most_open_files() // 2)
        # asyncio accepts in three more turns before a connection that gives way is
        # closed, and with a file too many it stops accepting for a second: what is on
        # its way may take a quarter of the files.
        self.accepted_at_once = min(_ACCEPTED_AT_ONCE, max(1, most_open_files() // 16))
        self.arrival_seconds = limits.arrival
        self.reading_seconds = limits.seconds
        # A dict as an ordered set: its first key has waited longest.
        self.incomplete: dict[Connection, None] = {}
        self._complained: dict[str, float] = {}

    def open_protocol(self, **arguments: Any) -> "Connection":
        """Make the protocol of a new connection; uvicorn calls this like its protocol class."""
        return Connection(self, **arguments)

    def complain(self, sentence: str) -> None:
        """Log a warning, unless it was logged a short time ago."""
        now = time.monotonic()
        if now - self._complained.get(sentence, -_LOG_EVERY) >= _LOG_EVERY:
            self._complained[sentence] = now
            logging.getLogger("pellucid.serve").warning(sentence)

    def handle_loop_error(
        self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]
    ) -> None:
        """Log in one line that no more files can be opened; leave every other error to asyncio."""
        if getattr(context.get("exception"), "errno", None) in (errno.EMFILE, errno.ENFILE):
            self.complain(
                f"no connection is accepted: {os.strerror(errno.EMFILE).lower()}; raise `ulimit -n`"
            )
        else:
            loop.default_exception_handler(dict(context))


class _ChunkCounter(h11.Connection):
    """The parser of a connection, which refuses bodies that are cut into a great many tiny chunks."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER)
        self.chunks = self.bytes = 0

    @property
    def are_too_small(self) -> bool:
        """Whether the chunks of the body so far are too many for its size."""
        return self.chunks > SMALL_CHUNKS and self.bytes < CHUNK_BYTES * self.chunks

    def next_event(self) -> Any:
        """Return the next event; raise `h11.RemoteProtocolError` where the chunks of a body are too small."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.chunks = self.bytes = 0
        elif isinstance(event, h11.Data):
            self.chunks += event.chunk_end
            self.bytes += len(event.data)
            # A chunk takes 6 microseconds, of one byte or of a thousand,
            # and one read of the socket may hold 43,000.
            if self.are_too_small:
                raise h11.RemoteProtocolError("the chunks of the body are too small")

        return event


class _ClosingTransport:
    """Wraps a transport and replaces its `close`."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]):
        self.transport = transport
        self.close = close

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)


class Connection(H11Protocol):
    """A connection that is closed when a header takes too long to arrive, or nobody reads the answer.

    Where an answer is given before the whole body has arrived, the rest of the
    body is dropped for a limited time, so that a client that still sends can read
    the answer; then the connection is closed.
    """

    def __init__(self, all_connections: Connections, **arguments: Any):
        super().__init__(**arguments)
        self.conn = self.parser = _ChunkCounter()
        self.server_connections = all_connections
        self._header_timer: asyncio.TimerHandle | None = None
        self._reading_timer: asyncio.TimerHandle | None = None
        self._dropping_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a header; with too many connections, close the oldest that is incomplete, or refuse this one."""
        # uvicorn closes its transport after the last byte of an
        # answer, whether the body has arrived or not.
        super().connection_made(_ClosingTransport(transport, self.close))  # pyright: ignore[reportArgumentType]
        self._socket_transport = transport
        self._wait_for_header()
        self._check_reader()

        if len(self.connections) > self.server_connections.limit:
            self.server_connections.complain(
                f"{self.server_connections.limit} connections are open, as many as may be; those that wait "
                "longest are closed"
            )
            oldest = next(iter(self.server_connections.incomplete))
            # Only this one is incomplete: all others are being answered, so it must go.
            if oldest is self:
                self._refuse(
                    503,
                    f"{self.server_connections.limit} connections are open already, which is as many as may be",
                )
            else:
                oldest.give_way()

    def give_way(self) -> None:
        """Close at once and free the place of this connection."""
        self._stop_waiting()
        # asyncio calls `connection_lost` later, and more connections may come before that.
        self.connections.discard(self)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        for timer in (self._reading_timer, self._dropping_timer):
            if timer:
                timer.cancel()
        super().connection_lost(exc)

    def close(self) -> None:
        """Close the connection; where a body is still arriving, drop the rest of it first, for a limited time."""
        if self._dropping_timer or self.transport.is_closing():
            return
        if self.conn.their_state is not h11.SEND_BODY:
            self._socket_transport.close()
            return

        # The system resets a connection that is closed with data
        # unread, and the client would lose its answer.
        if self.cycle and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.server_connections.incomplete.setdefault(self)
        self._dropping_timer = self.loop.call_later(
            self.server_connections.arrival_seconds, self.transport.abort
        )

        try:
            self.transport.write_eof()
        except OSError:  # the client has gone already
            self.transport.abort()
            return
        self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Read data; a header that has begun has a limited time to become complete."""
        if self._dropping_timer:
            return
        super().data_received(data)
        self._watch_request()

    def on_response_complete(self) -> None:
        """Wait for the next header, or read it if it has arrived."""
        if self._dropping_timer is None:
            super().on_response_complete()
            self._watch_request()

    def shutdown(self) -> None:
        """Stop after the requests under way, and those sent before the client could know, are answered."""
        if self._dropping_timer:
            self.transport.abort()
        self.loop.call_later(
            ON_ITS_WAY, lambda: self.transport.is_closing() or super(Connection, self).shutdown()
        )

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, or comes in too small chunks, with the same JSON as every other refusal."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            if self.parser.are_too_small:
                self._refuse(
                    413,
                    f"the body comes in more than {SMALL_CHUNKS:,} chunks of less than {CHUNK_BYTES} bytes each on "
                    "average; send larger chunks",
                )
            else:
                self._refuse(400, "this is not a valid HTTP/1.1 request")
        else:  # in the middle of an answer, nothing else can be sent
            self.transport.close()

    def _watch_request(self) -> None:
        if self._dropping_timer:
            return
        has_half_body = self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing()
        # IDLE also while a header has arrived in part: h11 leaves it only with a complete one.
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._wait_for_header()
        # Not with every byte of a body: a client that sends one
        # now and then keeps its place in the queue.
        elif self._header_timer or not has_half_body:
            self._stop_waiting()

        if has_half_body:
            self.server_connections.incomplete.setdefault(self)

    def _wait_for_header(self) -> None:
        # A timer that runs is not set again: a client that sends a byte now and then gains no time.
        if self._header_timer is None:
            self.server_connections.incomplete[self] = None
            self._header_timer = self.loop.call_later(
                self.server_connections.arrival_seconds,
                self._refuse,
                408,
                f"the header of the request did not arrive completely "
                f"within {self.server_connections.arrival_seconds:g} s",
            )

    def _stop_waiting(self) -> None:
        self.server_connections.incomplete.pop(self, None)
        if self._header_timer:
            self._header_timer.cancel()
            self._header_timer = None

    def _check_reader(self, unread_before: int = 0) -> None:
        # A client that reads nothing of its answer for so long is cut off: the answer holds memory.
        unread = self.transport.get_write_buffer_size()
        if unread and unread == unread_before:
            self.transport.abort()
        else:
            self._reading_timer = self.loop.call_later(
                self.server_connections.reading_seconds, self._check_reader, unread
            )

    def _refuse(self, status: int, reason: str) -> None:
        # Written by hand: there is no request yet that the application could answer.
        self._stop_waiting()
        answer = problem_response(status, reason)
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        for name, value in answer.raw_headers:
            head += f"{name.decode()}: {value.decode()}\r\n"
        head += "connection: close\r\n\r\n"
        self.transport.write(head.encode() + bytes(answer.body))
        self.transport.close()


def most_open_files() -> int:
    """Return the number of files that the system lets this process open."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return 2**31
    soft_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2**31 if soft_limit == resource.RLIM_INFINITY else soft_limit


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket at this address; raise ValueError, saying what to do, where there can be none."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = addresses[0]
    except (OSError, UnicodeError) as error:
        raise ValueError(
            f"--host {host!r}: no address of this machine ({error}); try 127.0.0.1"
        ) from None

    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(socket.SOMAXCONN)
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise ValueError(
            f"cannot listen on {host} port {port}: {reason}; try another --port"
        ) from None

    return listener


def serve_until_stopped(app: "FastAPI", listener: socket.socket, limits: Limits) -> None:
    """Serve until interrupted or terminated; then finish the requests under way, as far as there is time for them."""
    # Each thing that the event loop asks of the system gives Python's lock away, and a thread that
    # translates then has it for a whole interval: at 5 ms, Python's own, a request took a tenth of
    # a second in such waits alone.
    sys.setswitchinterval(_SWITCH_SECONDS)
    # Python looks through all that it holds for cycles to free, again and again, and keeps its
    # lock meanwhile: a third of a second, and longer than one beside other programs. Most of that
    # is modules, which stay anyway and are left out from now on.
    gc.collect()
    gc.freeze()

    # Begun when the server is told to stop, and needed where even the event loop gets no turn any
    # more, or the end of the process takes too long; otherwise all has ended before.
    last_resort = Timer(limits.stopping + _LAST_SECONDS, _end_process)
    last_resort.daemon = True

    # After its shutdown uvicorn raises the signal again, for the handler
    # it found: SIGTERM then ends like Ctrl-C.
    previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            make_server(app, limits, last_resort.start).run(sockets=[listener])
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
        gc.unfreeze()


def _end_process() -> None:
    """End the process at once, even if its threads are still at work."""
    logging.getLogger("pellucid.serve").warning(
        "stopped; some of the work did not end in time and was left"
    )
    sys.stderr.flush()
    os._exit(0)


def make_server(
    app: "FastAPI", limits: Limits, on_stop: Callable[[], object] = lambda: None
) -> "uvicorn.Server":
    """Make the uvicorn server of an application, with limits on its connections and on the time it takes to stop.

    `on_stop` is called when it is told to stop.
    """
    import uvicorn

    connections = Connections(limits)
    service: Service = app.state.service

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            # Here rather than before `run`: uvicorn makes its own
            # loop, and there is none until this call.
            asyncio.get_running_loop().set_exception_handler(connections.handle_loop_error)
            await super().startup(sockets)
            for listener in sockets or ():
                listener.listen(
                    socket.SOMAXCONN
                )  # asyncio has set the queue's length to `backlog`, which is far shorter

        def run(self, sockets: list[socket.socket] | None = None) -> None:
            with asyncio.Runner(loop_factory=service.turns.make_loop) as runner:
                runner.run(self.serve(sockets=sockets))

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            on_stop()
            service.begin_stop()
            ending = asyncio.create_task(self._end_in_time())
            try:
                await super().shutdown(sockets)
            finally:
                ending.cancel()

        async def _end_in_time(self) -> None:
            """Tell the clients of what is not done in time, and then close the connections that are left."""
            await asyncio.sleep(_FINISHING_SHARE * limits.stopping)
            service.give_up()
            await asyncio.sleep((_CLOSING_SHARE - _FINISHING_SHARE) * limits.stopping)
            for connection in list(self.server_state.connections):
                connection.transport.abort()

    return Server(
        uvicorn.Config(
            app,
            http=connections.open_protocol,  # pyright: ignore[reportArgumentType]  # a class, or what is called like one
            # Asyncio also accepts this many in one turn of its loop.
            backlog=connections.accepted_at_once,
            # Clients cause its warnings, and one client could fill the log with them.
            log_level="error",
            access_log=False,
            server_header=False,
            # Clients could escape the limit per address with any
            # address they like in X-Forwarded-For.
            proxy_headers=False,
            # `_end_in_time` has ended all before that; uvicorn counts whole seconds.
            timeout_graceful_shutdown=ceil(limits.stopping),
            ws="none",
        )
    )
