"""Clients of a server in a soak: those that ask, leave, read slowly or not at all, send halves, and mean harm."""

import asyncio
import json
import random
import re
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

AGAIN = (429, 503)
"""What a request is told for which there is no room."""

PATIENCE = 120.0
"""Seconds after which an answer that did not come is lost; the server gives up long before."""

JUST_BEFORE = 0.5
"""Seconds before the server is told to stop in which a connection may be made that it does not accept any more."""

SMALL_BUFFER = 4096
UNTIL_CLOSED = 2**30


@dataclass(frozen=True)
class Question:
    """A request as bytes, and the status it has where there is room for it."""

    kind: str
    sent: bytes
    status: int = 200


@dataclass
class Tally:
    """What became of the requests, and what should not have."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    stopping: float | None = None
    """When the server was told to stop."""

    def total(self, outcome: str, *kinds: str) -> int:
        """How often this became of requests of these kinds, or of any."""
        found = self.outcomes.items()
        return sum(n for (kind, each), n in found if each == outcome and (not kinds or kind in kinds))


@dataclass(frozen=True)
class Answer:
    """A whole answer."""

    status: int
    body: bytes


class Lost(Exception):
    """A request without a whole answer."""


class Clients:
    """Whoever asks one server; `alone` has the answer to each question when nobody else asks."""

    def __init__(self, port: int, addresses: Sequence[str], tally: Tally, alone: Mapping[bytes, bytes]):
        self.port = port
        self.addresses = addresses
        self.tally = tally
        self.alone = alone

    async def open(self, address: str, buffer: int | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection from one of this machine's addresses; with a small `buffer` little waits on our side."""
        made = socket.socket()
        made.setblocking(False)
        made.bind((address, 0))
        if buffer is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        try:
            await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", self.port))
        except BaseException:
            made.close()
            raise
        return await asyncio.open_connection(sock=made, limit=buffer or 2**16)

    async def answer(self, sent: bytes, address: str = "127.0.0.1", *, pause: float = 0.0) -> Answer:
        """The whole answer, read in small pieces with a pause after each if there is one; `Lost` otherwise."""
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await self.open(address, SMALL_BUFFER if pause else None)
                try:
                    writer.write(sent)
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head)
                    if not length:
                        raise Lost("an answer without a length")
                    left, parts = int(length[1]), []
                    while left:
                        await asyncio.sleep(pause)
                        part = await reader.read(min(left, SMALL_BUFFER if pause else left))
                        if not part:
                            raise Lost(f"an answer that ends {left:,} bytes too early")
                        parts.append(part)
                        left -= len(part)
                    return Answer(int(head[9:12]), b"".join(parts))
                finally:
                    writer.transport.abort()
        except TimeoutError:
            raise Lost(f"no answer in {PATIENCE:g} s") from None
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Lost(f"{type(error).__name__}: {error}") from None

    async def ask(self, question: Question, address: str, pause: float = 0.0) -> None:
        """Ask and compare with what the answer is alone."""
        began = time.monotonic()
        kind = f"{question.kind}, read slowly" if pause else question.kind
        try:
            found = await self.answer(question.sent, address, pause=pause)
        except Lost as lost:
            self.note_lost(kind, began, str(lost))
            return
        outcome = f"told to come again ({found.status})"
        if found.status not in AGAIN:
            if found.status != question.status:
                outcome = "another status"
            else:
                right = self.alone.get(question.sent, b"") in (b"", comparable(found.body))
                outcome = ("answered" if question.status == 200 else "refused") if right else "wrong"
            if not pause and question.status == 200:
                self.tally.waits.append(time.monotonic() - began)
        self.tally.outcomes[kind, outcome] += 1
        if outcome in ("wrong", "another status"):
            self.tally.problems.append(f"{kind}: {outcome}, {found.status} {found.body[:200]!r}")

    def note_lost(self, kind: str, began: float, why: str) -> None:
        """Note a request without an answer: lost, unless the server had been told to stop."""
        stopping = self.tally.stopping
        if stopping is not None and began > stopping:
            self.tally.outcomes[kind, "came after SIGTERM"] += 1
            return
        if stopping is not None and began > stopping - JUST_BEFORE:
            self.tally.outcomes[kind, "came too late"] += 1
            return
        self.tally.outcomes[kind, "lost"] += 1
        self.tally.problems.append(f"{kind}: lost, {why}")

    async def leave(self, question: Question, address: str, after: float) -> None:
        """Ask, and go away without waiting for the answer."""
        try:
            _, writer = await self.open(address)
            writer.write(question.sent)
            await asyncio.sleep(after)
            writer.transport.abort()
        except OSError as error:
            self.note_lost("asked and gone", time.monotonic(), f"{type(error).__name__}: {error}")
            return
        self.tally.outcomes["asked and gone", "gone"] += 1

    async def send_half(self, kind: str, half: bytes, address: str) -> None:
        """Send a part of a request and wait until the server has had enough."""
        began = time.monotonic()
        outcome = "closed without an answer"
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await self.open(address)
                writer.write(half)
                found = await reader.read(UNTIL_CLOSED)
                writer.transport.abort()
                if found:
                    outcome = f"given up ({found[9:12].decode()})"
        except TimeoutError:
            self.tally.problems.append(f"{kind}: still open after {PATIENCE:g} s")
            outcome = "never closed"
        except OSError as error:
            if self.tally.stopping is None and isinstance(error, ConnectionRefusedError):
                self.note_lost(kind, began, str(error))
        self.tally.outcomes[kind, outcome] += 1

    async def never_read(self, question: Question, address: str, seconds: float) -> None:
        """Ask for much and read nothing of it."""
        try:
            _, writer = await self.open(address, SMALL_BUFFER)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(question.sent)
            await asyncio.sleep(seconds)
            writer.transport.abort()
        except OSError as error:
            self.note_lost("asked and never read", time.monotonic(), f"{type(error).__name__}: {error}")
            return
        self.tally.outcomes["asked and never read", "held open"] += 1

    async def watch_health(self, every: float) -> None:
        """Ask for /health again and again until the server stops."""
        while self.tally.stopping is None:
            began = time.monotonic()
            await self.ask(Question("health", get("/health")), "127.0.0.1")
            self.tally.health.append(self.tally.waits.pop() if self.tally.waits else time.monotonic() - began)
            await asyncio.sleep(every)


def comparable(body: bytes) -> bytes:
    """An answer without the seconds that a trace took."""
    return re.sub(rb'"seconds": [0-9.e-]+', b"", body)


def get(path: str) -> bytes:
    """A request to read."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()


def post(path: str, body: bytes, kind: str = "application/json", *, more: str = "", host: str = "127.0.0.1") -> bytes:
    """A request with a body."""
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: {kind}\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def to_translate(q: str | list[str], **more: object) -> bytes:
    """A question in JSON."""
    return post("/translate", json.dumps({"q": q, "source": "auto", "target": "auto", **more}).encode())


def questions(sentences: Sequence[str], draw: random.Random) -> list[Question]:
    """Questions of every kind that the server answers."""
    found = [Question("a sentence", to_translate(sentence)) for sentence in sentences]
    for sentence in sentences[::4]:
        form = {"q": sentence, "source": "auto", "target": "auto"}
        encoded = urlencode(form).encode()
        found.append(Question("a form", post("/translate", encoded, "application/x-www-form-urlencoded")))
        parts = "".join(f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in form.items())
        found.append(
            Question("a form", post("/translate", f"{parts}--x--\r\n".encode(), "multipart/form-data; boundary=x"))
        )
    for sentence in sentences[::8]:
        page = f"<p>{sentence} <b>{draw.choice(sentences)}</b></p><p>{draw.choice(sentences)}</p>"
        found.append(Question("a page of HTML", to_translate(page, format="html")))
        found.append(Question("alternatives", to_translate(sentence, alternatives=3)))
        found.append(Question("several sentences", to_translate(draw.sample(list(sentences), min(8, len(sentences))))))
        terms = {sentence.split()[0]: "Pellucid"} if sentence.split() else {}
        found.append(Question("terms", to_translate(sentence, terms=terms)))
    return found


def traces(sentences: Sequence[str]) -> list[Question]:
    """Questions for what leads to a translation."""
    return [Question("a trace", post("/trace", json.dumps({"sentence": each}).encode())) for each in sentences]


def hostile(sentence: str) -> list[Question]:
    """Requests that mean harm or mischief, with the status that each must have."""
    fields = {"q": sentence, "source": "auto", "target": "auto"}
    body = json.dumps(fields).encode()
    header = b'--x\r\nContent-Disposition: form-data; name="q"' + b"; a=" * 20_000 + b"\r\n\r\nYes.\r\n--x--\r\n"
    parts = "multipart/form-data; boundary=x"
    given = [
        (422, post("/translate", b"{")),
        (422, post("/translate", b"[" * 100_000)),
        (422, post("/translate", b"9" * 100_000)),
        (422, post("/translate", b'{"q": "\\ud800", "source": "auto", "target": "auto"}')),
        (422, post("/translate", json.dumps({**fields, "q": "a\0b"}).encode())),
        (422, post("/translate", json.dumps({**fields, "glossary": {}}).encode())),
        (422, post("/translate", json.dumps({**fields, "alternatives": 10**9}).encode())),
        (422, post("/translate", json.dumps({f"key{i}": i for i in range(20_000)}).encode())),
        (422, post("/translate", b"&".join([b"q=a"] * 20_000), "application/x-www-form-urlencoded")),
        (422, post("/translate", header, parts)),
        (422, post("/translate", b"--x\r\n" * 50_000, parts)),
        (413, post("/translate", json.dumps({**fields, "q": "a" * 6000}).encode())),
        (413, post("/translate", json.dumps({**fields, "q": ["a"] * 100}).encode())),
        (413, post("/translate", b" " * 3_000_000 + body)),
        (415, post("/translate", body, "text/plain")),
        (421, post("/translate", body, host="example.com")),
        (421, post("/translate", body, host="evil@127.0.0.1")),
        (403, post("/translate", body, more="Origin: https://example.com\r\n")),
        (404, get("/trace/000000000000/manifest.json")),
        (404, get("/../../etc/passwd")),
        (405, get("/translate")),
        (400, b"POST /translate HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n"),
        (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    ]
    return [Question("a hostile request", sent, status) for status, sent in given]


def halves(sentence: str) -> list[tuple[str, bytes]]:
    """Parts of requests that are never completed."""
    whole = to_translate(sentence)
    head = whole.index(b"\r\n\r\n") + 4
    return [
        ("half a header", b""),
        ("half a header", b"POST /tran"),
        ("half a header", whole[: head - 2]),
        ("half a body", whole[:head]),
        ("half a body", whole[: head + 9]),
    ]
