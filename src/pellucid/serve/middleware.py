"""What every request passes before a route sees it: who asks, how much, how many; and the headers of all answers."""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pellucid.serve.limits import Limits
from pellucid.serve.problems import FAILURE_SENTENCE, Refusal, problem_response

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",  # sentences are nobody else's business
}
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""What a server that only this machine reaches is called."""

HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:@/?#\[\]]+))(?::\d*)?")
"""A name or an address, and a port (RFC 9110, section 7.2)."""

ALWAYS_ANSWERED = ("/health", "/metrics")
"""Asked for most when too much is asked for."""


class AnswerHead:
    """Answers HEAD as GET, without the body."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self.app({**scope, "method": "GET"}, receive, sent)


class AddHeaders:
    """Puts the headers that keep browsers careful on every answer, and a plain answer in place of an error of ours."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self.app(scope, receive, sent)
        except Exception:
            logging.getLogger("pellucid.serve").exception("a request failed")
            if not begun:
                await problem_response(500, FAILURE_SENTENCE)(scope, receive, sent)


class CheckHostAndOrigin:
    """Lets through what is addressed to this server by a name it knows, and asked by its own page or an allowed one.

    Without it, any page in the user's browser could ask a server on the user's machine: by a name that was made to
    point there (DNS rebinding), or blindly, by a form. `hosts` are names without a port, None for any; `origins` are
    those of other sites' pages that may ask, "*" for any.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None, origins: Collection[str]):
        self.app = app
        self.hosts = hosts
        self.origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self.refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (problem_response(refusal.status, str(refusal)) if refusal else self.app)(scope, receive, send)

    def refusal(self, headers: Headers) -> Refusal | None:
        """Why this is not let through, if it is not."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if self.hosts is not None and host_name(host) not in self.hosts:
            return Refusal(421, f"this server is not called {host!r:.80}; --allow-host lets it be")
        if origin is None or origin in self.origins or "*" in self.origins:
            return None
        scheme, _, there = origin.lower().partition("://")
        # A page that came by https came through a proxy, and nobody puts one before a name that is this machine's own.
        schemes = ("http",) if host_name(host) in LOOPBACK else ("http", "https")
        if there != host.lower() or scheme not in schemes:
            return Refusal(403, f"pages of {origin!r:.80} may not ask this server; --allow-origin lets them")
        return None


def host_name(host: str) -> str:
    """The name in a Host header, without its port.

    >>> host_name("LOCALHOST:5000"), host_name("[::1]:5000"), host_name("a:b:c"), host_name("evil@localhost")
    ('localhost', '::1', '', '')
    """
    found = HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""


class LimitRequests:
    """Reads the whole body before a route sees the request, and refuses what is too large, too slow or too many."""

    def __init__(self, app: ASGIApp, limits: Limits):
        self.app = app
        self.limits = limits
        self.open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in ALWAYS_ANSWERED:
            return await self.app(scope, receive, send)
        try:
            with self.count_open((scope.get("client") or ("", 0))[0]):
                body = await self.read_whole_body(receive)
                await self.app(scope, replay_body(body, receive), send)
        except Refusal as refusal:
            await problem_response(refusal.status, str(refusal))(scope, receive, send)

    @contextmanager
    def count_open(self, address: str) -> Iterator[None]:
        """Counts a request as open; `Refusal` where too many are."""
        if self.open.total() >= self.limits.open_requests:
            raise Refusal(
                503, f"{self.limits.open_requests} requests are open already, which is as many as this server takes"
            )
        if self.open[address] >= self.limits.from_one_address:
            raise Refusal(429, f"{self.limits.from_one_address} requests from your address are open already")
        self.open[address] += 1
        try:
            yield
        finally:
            self.open[address] -= 1
            self.open += Counter()  # forgets the addresses that have none

    async def read_whole_body(self, receive: Receive) -> bytes:
        """The whole body; `Refusal` for one that is too large or too slow.

        Of one that is too large the rest is read and dropped, or its sender would not hear why it was refused.
        """
        body, size = bytearray(), 0
        try:
            async with asyncio.timeout(self.limits.arrival):
                more = True
                while more:
                    message = await receive()
                    part = message.get("body", b"")
                    size += len(part)
                    if size <= self.limits.body:
                        body += part
                    more = message["type"] == "http.request" and message.get("more_body", False)
        except TimeoutError:
            if size <= self.limits.body:
                raise Refusal(408, f"the request did not arrive whole within {self.limits.arrival:g} s") from None
        if size > self.limits.body:
            raise Refusal(413, f"the body has more than {self.limits.body:,} bytes, as many as this server reads")
        return bytes(body)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """What a route receives: the body at once, then whatever comes after it."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
