"""Checks before every route: host, origin, size and number of requests, API keys; and the counters of what passed."""

import asyncio
import collections
import hashlib
import hmac
import json
import logging
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, Request, Security
from fastapi.security import (
    HTTPAuthorizationCredentials,
    HTTPBasic,
    HTTPBasicCredentials,
    HTTPBearer,
)
from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pellucid.serve.bodies import REALM, STATUS_MEANINGS, Problem, Refusal, problem_response
from pellucid.serve.settings import Limits

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",  # sentences are private: no proxy or browser should keep them
}
# Names by which only this machine reaches the server.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# Host header: a name or an address, and perhaps a port (RFC 9110, section 7.2).
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:@/?#\[\]]+))(?::\d*)?")
_FORM_BYTES = 2**16  # bytes of a form beside the document in it
# Paths outside the limits: monitoring needs them most when the server is overloaded.
_ALWAYS_ANSWERED = ("/health", "/metrics")
# Paths that need a turn of the model.
_TRANSLATING = ("/translate", "/translate_get", "/MTRestService/TranslateJson")


class ReadRequestLine:
    """Answers a line with the whole address ("GET http://host/health HTTP/1.1") by its path, and HEAD like GET."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        target: bytes = scope.get("raw_path") or b"" if scope["type"] == "http" else b""
        scheme, mark, address = target.partition(b"://")
        if mark and scheme.lower() in (b"http", b"https"):
            host, _, path = address.partition(b"/")
            # The Host header counts for nothing beside an address (RFC 9112, section 3.2.2).
            headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
            scope = {
                **scope,
                "headers": [(b"host", host), *headers],
                "path": unquote(f"/{path.decode('ascii')}"),
                "raw_path": b"/" + path,
            }

        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        # Starlette's routes would answer HEAD by themselves, FastAPI's do not.
        await self.app({**scope, "method": "GET"}, receive, send_without_body)


class AddHeaders:
    """Adds the security headers to every answer, and answers an unexpected error with status 500.

    An answer that is given before the whole body was read says that the connection ends with it.
    """

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        started = False
        is_unread = _has_body(Headers(scope=scope))

        async def receive_and_note_end() -> Message:
            nonlocal is_unread
            message = await receive()
            is_unread = is_unread and message.get("more_body", False)
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                if is_unread:
                    headers["Connection"] = "close"
                for name, value in SECURITY_HEADERS.items():
                    # A route may set one of these headers itself.
                    headers.setdefault(name, value)

            await send(message)

        try:
            await self.app(scope, receive_and_note_end, send_with_headers)
        except Exception:
            logging.getLogger("pellucid.serve").exception("a request failed")
            # Once the status line is sent there is no way to send another.
            if not started:
                await problem_response(
                    500, "the server failed through no fault of the request; its log says where"
                )(scope, receive, send_with_headers)


def _has_body(headers: Headers) -> bool:
    """Return whether a body follows these headers of a request."""
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


class CheckHostAndOrigin:
    """Refuses requests addressed to a name this server does not know, or sent by pages that are not allowed.

    Without it, any page in the user's browser could use a server on the user's
    machine: through a name that was made to point there (DNS rebinding), or blindly,
    by a form. `hosts` are names without a port, None for any; `origins` are the other
    sites whose pages may send requests, "*" for any.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None, origins: Collection[str]):
        self.app = app
        self.hosts = hosts
        self.origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self.refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        answer = problem_response(refusal.status, str(refusal)) if refusal else self.app
        await answer(scope, receive, send)

    def refusal(self, headers: Headers) -> Refusal | None:
        """Return the reason to refuse a request with these headers, or None."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if self.hosts is not None and _host_name(host) not in self.hosts:
            return Refusal(
                421, f"this server is not called {host!r:.80}; add the name with --allow-host"
            )

        # Programs send no Origin, and neither do browsers for the page's own GET requests.
        if origin is None or origin in self.origins or "*" in self.origins:
            return None
        scheme, _, origin_host = origin.lower().partition("://")

        # An https page reached this http server through a proxy, and
        # nobody puts a proxy before a loopback name.
        schemes = ("http",) if _host_name(host) in LOOPBACK else ("http", "https")
        if origin_host != host.lower() or scheme not in schemes:
            return Refusal(
                403,
                f"pages of {origin!r:.80} may not use this server; allow them with --allow-origin",
            )
        return None


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port; an empty text for an invalid header.

    >>> _host_name("LOCALHOST:5000"), _host_name("[::1]:5000"), _host_name("a:b:c"), _host_name("evil@localhost")
    ('localhost', '::1', '', '')
    """
    match = _HOST.fullmatch(host)
    return (match[1] or match[2]).lower() if match else ""


class LimitRequests:
    """Reads the whole body when a route asks for it; refuses bodies too large or slow, and too many requests."""

    def __init__(
        self, app: ASGIApp, limits: Limits, refuse_if_full: Callable[[], None] = lambda: None
    ):
        self.app = app
        self.limits = limits
        self.refuse_if_full = refuse_if_full
        self.open: collections.Counter[str] = collections.Counter()
        # Uploads take no place among the documents while they
        # arrive, so it is their bytes that are bounded.
        self.arriving = 0
        documents = limits.documents * limits.document_bytes
        self.most_arriving = documents + limits.open_requests * limits.body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _ALWAYS_ANSWERED:
            return await self.app(scope, receive, send)

        # From here on its time runs, as `Service.seconds_left` reads it.
        scope.setdefault("state", {})["arrived"] = time.monotonic()
        try:
            with self.count_open((scope.get("client") or ("", 0))[0]):
                # Before anything else is done: what a server under load
                # spends on those it refuses, others wait for.
                if scope["path"] in _TRANSLATING:
                    self.refuse_if_full()
                largest = self.limits.body
                if scope["path"] == "/translate_file":
                    largest = max(largest, self.limits.document_bytes + _FORM_BYTES)
                await self.app(
                    scope, self.read_body_when_asked(Headers(scope=scope), receive, largest), send
                )
        except Refusal as refusal:
            await problem_response(refusal.status, str(refusal))(scope, receive, send)

    @contextmanager
    def count_open(self, address: str) -> Iterator[None]:
        """Count a request as open while the block runs; raise `Refusal` where too many are open."""
        if self.open.total() >= self.limits.open_requests:
            raise Refusal(
                503,
                f"{self.limits.open_requests} requests are open already, which is as many as this server takes",
            )

        from_one_address = self.limits.each or self.limits.open_requests
        if self.open[address] >= from_one_address:
            raise Refusal(429, f"{from_one_address} requests from your address are open already")

        self.open[address] += 1
        try:
            yield
        finally:
            self.open[address] -= 1
            # Adding drops counts of 0, so that the table does not grow with every address.
            self.open += collections.Counter()

    def read_body_when_asked(self, headers: Headers, receive: Receive, largest: int) -> Receive:
        """Make the `receive` of a route: it returns the body in one message, then the connection's next ones."""
        # A request without a body may already be answered when the first
        # message, of its client's leaving, arrives.
        was_read = not _has_body(headers)

        async def receive_whole() -> Message:
            nonlocal was_read
            if was_read:
                # Passed on, since `Service.answer` waits here for the client's disconnect.
                return await receive()
            # Not before a route asks: one that refuses the key in the header never reads the body.
            was_read = True
            length = headers.get("content-length", "")
            _refuse_large_body(int(length) if length.isdecimal() else 0, largest)
            return {
                "type": "http.request",
                "body": await self.read_whole_body(receive, largest),
                "more_body": False,
            }

        return receive_whole

    async def read_whole_body(self, receive: Receive, largest: int) -> bytes:
        """Return the whole body; raise `Refusal` for one that is too large or too slow, and where too much arrives."""
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.arrival):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(499, "the client went away")  # seen only in the metrics
                    body += message.get("body", b"")
                    self.arriving += len(message.get("body", b""))
                    if self.arriving > self.most_arriving:
                        raise Refusal(
                            503,
                            f"{self.most_arriving:,} bytes of requests are arriving, as many as may",
                        )

                    _refuse_large_body(len(body), largest)  # `Connection` drops the rest
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refusal(
                408, f"the request did not arrive completely within {self.limits.arrival:g} s"
            ) from None
        finally:
            self.arriving -= len(body)

        return bytes(body)


def _refuse_large_body(length: int, largest: int) -> None:
    if length > largest:
        raise Refusal(
            413, f"the body has more than {largest:,} bytes, as many as this server reads"
        )


class Metrics:
    """Counters of requests, for Prometheus; none of them holds a text, an address or a key."""

    def __init__(self) -> None:
        # Not the library's global registry, which refuses a second counter of the same name: a
        # process may hold two servers.
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "pellucid_requests", "requests answered", ("path", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "pellucid_request_seconds",
            "seconds from a request's arrival to its answer",
            ("path",),
            buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
            registry=self.registry,
        )
        self.texts = Counter("pellucid_texts", "texts translated", registry=self.registry)
        self.characters = Counter(
            "pellucid_characters", "characters in them", registry=self.registry
        )
        self.together = Histogram(
            "pellucid_requests_together",
            "requests translated together",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=self.registry,
        )


# A function that is told of each request: its method, the path of its
# route, the status and the seconds it took.
RequestLog = Callable[[str, str, int, float], object]


class CountRequests:
    """Counts and logs requests by status and by the route's path, never by the path that was asked for."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log: RequestLog | None = None):
        self.app = app
        self.metrics = metrics
        self.log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        # 0 stays where the connection broke before an answer began.
        start, status = time.perf_counter(), 0

        async def send_and_note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_and_note_status)
        finally:
            # The template of the route, such as /trace/{identity}: a raw path would let clients
            # create any number of series.
            path = getattr(scope.get("route"), "path", "none")
            self.metrics.requests.labels(path, str(status)).inc()
            seconds = time.perf_counter() - start
            self.metrics.seconds.labels(path).observe(seconds)
            if self.log is not None:
                self.log(scope["method"], path, status, seconds)


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time, level, message, and all `fields` that it was given."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback stands in it as one text."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def log_as_json() -> None:
    """Write all that is logged from now on as lines of JSON, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    logging.getLogger("pellucid.serve").setLevel(logging.INFO)


def log_request(method: str, path: str, status: int, seconds: float) -> None:
    """Log a request by its route, never its text, its address or its key."""
    fields = {"method": method, "path": path, "status": status, "seconds": round(seconds, 4)}
    logging.getLogger("pellucid.serve").info("request", extra={"fields": fields})


_SHORTEST_KEY = 16  # fewest characters of a key: a shorter one could be guessed by trying
# LibreTranslate's own sentences, by which its clients recognise the problem.
_MISSING_KEY, _WRONG_KEY = "Please contact the server operator to get an API key", "Invalid API key"

_BASIC = HTTPBasic(
    realm=REALM,
    auto_error=False,
    description="a key of this server as the password; browsers ask for it",
)
_BEARER = HTTPBearer(auto_error=False, description="a key of this server")


class ApiKeys:
    """The keys of a server; without any, everybody is answered.

    A key may have a number of requests that it is good for in a
    minute: they come back evenly over the minute.
    """

    def __init__(
        self,
        keys: Iterable[str] | Mapping[str, int | None] = (),
        clock: Callable[[], float] = time.monotonic,
    ):
        rates = keys if isinstance(keys, Mapping) else dict.fromkeys(keys)
        # Digests only: the keys themselves need not stay in memory.
        self._digests = [_digest_key(key) for key in rates]
        self._rates = list(rates.values())
        self._clock = clock
        self._left = [(float(rate or 0), clock()) for rate in self._rates]

    @classmethod
    def from_file(cls, path: str) -> "ApiKeys":
        """Read a file with one key a line, and # before comments; raise ValueError for invalid keys.

        After the key and a space may stand the number of requests that it is good for in a minute.
        """
        try:
            lines = [line.strip() for line in Path(path).read_text("utf-8").splitlines()]
        except UnicodeDecodeError:
            raise ValueError(
                f"{path} is not a text file; it should hold API keys, one a line"
            ) from None

        keys: dict[str, int | None] = {}
        problems: list[str] = []
        for number, line in enumerate(lines, start=1):
            if not line or line.startswith("#"):
                continue
            key, *rate = line.split()
            # Problems name lines, never keys: what is printed may end in a log.
            if problem := _explain_invalid_key(number, [key, *rate]):
                problems.append(problem)
            else:
                keys[key] = int(rate[0]) if rate else None

        if not keys and not problems:
            problems = ["it holds none"]
        if problems:
            advice = 'python -c "import secrets; print(secrets.token_urlsafe())" makes one'
            raise ValueError(
                f"{path} should hold API keys, one a line: {'; '.join(problems[:5])}; {advice}"
            )
        return cls(keys)

    def __bool__(self) -> bool:
        return bool(self._digests)

    def find(self, key: str) -> int | None:
        """Return the number of a key, None for what is none; the time it takes reveals nothing about the keys."""
        digest = _digest_key(key)
        # It is compared with every key, also behind the right one.
        is_equal = [hmac.compare_digest(digest, own) for own in self._digests]
        return is_equal.index(True) if any(is_equal) else None

    def _count_request(self, key: str | None, status: int, advice: str = "") -> None:
        """Count a request; raise `Refusal` without a valid key, and where that has made as many as it may."""
        number = self.find(key) if key else None
        if number is None:
            raise Refusal(status, (_WRONG_KEY if key else _MISSING_KEY) + advice)
        rate = self._rates[number]
        if rate is None:
            return
        now = self._clock()
        left, before = self._left[number]
        left = min(float(rate), left + (now - before) * rate / 60)
        if left < 1:
            self._left[number] = left, now
            raise Refusal(
                429, f"this key is good for {rate:,} requests a minute, and has made them"
            )
        self._left[number] = left - 1, now

    def in_body(self) -> dict[str, Any]:
        """Return the options of a route that takes a key in its body or in the header, and calls `check`."""
        return {"dependencies": [Depends(_remember_key)]} if self else {}

    def in_header(self) -> dict[str, Any]:
        """Return the options of a route that takes a key in the header only."""
        if not self:
            return {}
        responses = {401: {"model": Problem, "description": STATUS_MEANINGS[401]}}
        return {
            "dependencies": [Depends(_remember_key), Depends(self.check_header)],
            "responses": responses,
        }

    def check(self, request: Request, field: object) -> None:
        """Raise `Refusal` for a request without a valid key, as LibreTranslate does.

        `field` is what the body has for a key, which may be anything;
        a text goes before the key of the header.
        """
        if self:
            key = field if isinstance(field, str) and field else request.state.key
            self._count_request(key, 403)

    async def check_header(self, request: Request) -> None:
        """Raise `Refusal` for a request without a valid key, with the status that makes a browser ask for it."""
        advice = "; send a key as the password, with any user name, or as a bearer token"
        self._count_request(request.state.key, 401, advice)


def _explain_invalid_key(number: int, row: list[str]) -> str | None:
    """Explain what is wrong with a line of a file of keys; None where nothing is."""
    key, *rate = row
    if rate and not (len(rate) == 1 and re.fullmatch("[1-9][0-9]{0,8}", rate[0])):
        after = "after which only a number of requests a minute may stand"
        return f"line {number} holds a space, {after}"
    if len(key) < _SHORTEST_KEY:
        return f"line {number} has {len(key)} characters, {_SHORTEST_KEY} or more are needed"
    if not key.isascii() or not key.isprintable():
        return f"line {number} holds a character that is not ASCII"
    return None


async def _remember_key(
    request: Request,
    basic: Annotated[HTTPBasicCredentials | None, Security(_BASIC)],
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
) -> None:
    """Store the key of the header, if there is one, in the state of the request."""
    # A user may type the key into either field of the browser's dialogue.
    key = None
    if bearer:
        key = bearer.credentials
    elif basic:
        key = basic.password or basic.username
    request.state.key = key


def _digest_key(key: str) -> bytes:
    """Hash a key; `compare_digest` would reveal the lengths of the keys themselves."""
    # JSON can escape half of a surrogate pair, which strict UTF-8 refuses to encode.
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()
