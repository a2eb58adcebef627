"""Connections that neither wait for ever nor use up the files that the system lets a process open."""

import asyncio
import errno
import logging
import os
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pellucid.serve.limits import Limits
from pellucid.serve.problems import problem_response

LOG_EVERY = 60.0
"""Seconds in which the same complaint is written to the log once."""

ON_ITS_WAY = 0.2
"""Seconds after the server was told to stop in which a request is read that was sent before."""

ACCEPTED_AT_ONCE = 64
"""Connections that are accepted before the first of them is looked at."""


class Connections:
    """The connections of one server: how many there may be, and which of them have no complete request header.

    When there are too many, the one that has waited longest for its header is closed. A client that connects and asks
    at once is therefore answered however many others hold connections open.
    """

    def __init__(self, limits: Limits):
        self.most = min(limits.connections, most_open_files() // 2)
        self.header_seconds = limits.arrival
        self.reading_seconds = limits.seconds
        self.without_header: dict[Connection, None] = {}
        self._complained: dict[str, float] = {}

    def open_protocol(self, **given: Any) -> "Connection":
        """The protocol of a new connection, as uvicorn asks for it."""
        return Connection(self, **given)

    def complain(self, sentence: str) -> None:
        """Write a sentence to the log, unless it was written there a short time ago."""
        now = time.monotonic()
        if now - self._complained.get(sentence, -LOG_EVERY) >= LOG_EVERY:
            self._complained[sentence] = now
            logging.getLogger("pellucid.serve").warning(sentence)

    def handle_loop_error(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Say in one line that no files are left; leave every other error to asyncio."""
        if getattr(context.get("exception"), "errno", None) in (errno.EMFILE, errno.ENFILE):
            self.complain(f"no connection is accepted: {os.strerror(errno.EMFILE).lower()}; raise `ulimit -n`")
        else:
            loop.default_exception_handler(dict(context))


class Connection(H11Protocol):
    """A connection that is closed when a header takes too long to arrive, or nobody reads the answer."""

    def __init__(self, all_connections: Connections, **given: Any):
        super().__init__(**given)
        self.server_connections = all_connections
        self._header_timer: asyncio.TimerHandle | None = None
        self._reading_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a header; make room where there are too many connections, or refuse this one."""
        super().connection_made(transport)
        self._wait_for_header()
        self._check_reader()
        if len(self.connections) > self.server_connections.most:
            self.server_connections.complain(
                f"{self.server_connections.most} connections are open, as many as may be; those that wait "
                "longest are closed"
            )
            oldest = next(iter(self.server_connections.without_header))
            if oldest is self:
                self._refuse(
                    503, f"{self.server_connections.most} connections are open already, which is as many as may be"
                )
            else:
                oldest.give_way()

    def give_way(self) -> None:
        """Close at once, and count no more: asyncio calls `connection_lost` later, after others may have come."""
        self._stop_waiting()
        self.connections.discard(self)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        if self._reading_timer:
            self._reading_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a header that has begun has a limited time to become complete."""
        super().data_received(data)
        self._watch_header()

    def on_response_complete(self) -> None:
        """Wait for the next header, or read it if it is there."""
        super().on_response_complete()
        self._watch_header()

    def shutdown(self) -> None:
        """Stop when what is under way is answered, and what was on its way: it was sent before anybody could know."""
        self.loop.call_later(ON_ITS_WAY, lambda: self.transport.is_closing() or super(Connection, self).shutdown())

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; uvicorn would do it in another form than everything else is refused."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(400, "this is no request in HTTP/1.1 that can be understood")
        else:  # in the midst of an answer, nothing else can be said
            self.transport.close()

    def _watch_header(self) -> None:
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._wait_for_header()
        else:
            self._stop_waiting()

    def _wait_for_header(self) -> None:
        if self._header_timer is None:
            self.server_connections.without_header[self] = None
            self._header_timer = self.loop.call_later(
                self.server_connections.header_seconds,
                self._refuse,
                408,
                f"the header of the request did not arrive whole within {self.server_connections.header_seconds:g} s",
            )

    def _stop_waiting(self) -> None:
        self.server_connections.without_header.pop(self, None)
        if self._header_timer:
            self._header_timer.cancel()
            self._header_timer = None

    def _check_reader(self, unread_before: int = 0) -> None:
        # An answer of which nothing was read for so long is not waited for: it holds memory, and may never be read.
        unread = self.transport.get_write_buffer_size()
        if unread and unread == unread_before:
            self.transport.abort()
        else:
            self._reading_timer = self.loop.call_later(
                self.server_connections.reading_seconds, self._check_reader, unread
            )

    def _refuse(self, status: int, reason: str) -> None:
        # There is no request yet that the application could answer.
        self._stop_waiting()
        answer = problem_response(status, reason)
        head = "".join(f"{name.decode()}: {value.decode()}\r\n" for name, value in answer.raw_headers)
        self.transport.write(
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{head}connection: close\r\n\r\n".encode()
            + bytes(answer.body)
        )
        self.transport.close()


def most_open_files() -> int:
    """How many files the system lets this process open."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return 2**31
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2**31 if most == resource.RLIM_INFINITY else most
