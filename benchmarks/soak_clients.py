"""Clients of a server in a soak: some ask, leave, read slowly or not at all, send halves of requests, or mean harm."""

import asyncio
import json
import random
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from benchmarks.soak_documents import NamedDocument, make_broken_documents

AGAIN = (429, 503)
"""Statuses of a request for which the server has no room."""

PATIENCE = 120.0
"""Seconds after which a missing answer counts as lost; the server gives up long before."""

JUST_BEFORE = 0.5
"""Seconds before the stop in which connections are made that the server no longer accepts."""

RETRY = 0.5
"""Seconds until a client for whose download there is no room asks for it again."""

_OWN_TURN = 0.1
_ASK_FOR_HEALTH = """
import http.client, sys, time
while True:
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
    try:
        connection.request("GET", "/health")
        status = connection.getresponse().status
    except OSError:
        status = 0
    print(status, time.monotonic() - began, flush=True)
    connection.close()
    time.sleep(1.0)
"""

SMALL_BUFFER = 4096
UNTIL_CLOSED = 2**30


@dataclass(frozen=True)
class Question:
    """A request as bytes, and the status it gets where there is room for it."""

    kind: str
    sent: bytes
    status: int = 200
    document: NamedDocument | None = None
    """The document in it, whose translation is fetched with another request."""


@dataclass
class Tally:
    """Outcomes of the requests, and the problems among them."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    told: list[float] = field(default_factory=list)
    """Seconds until a request was told to come again."""
    health: list[float] = field(default_factory=list)
    own_delays: list[float] = field(default_factory=list)
    """Seconds by which the program of the clients was late itself, which the seconds of their answers contain."""
    problems: list[str] = field(default_factory=list)
    stopping: float | None = None
    """Time at which the server was told to stop."""

    def total(self, outcome: str, *kinds: str) -> int:
        """Count the requests of these kinds, or of any, with this outcome."""
        counts = self.outcomes.items()
        return sum(n for (kind, kind_outcome), n in counts if kind_outcome == outcome and (not kinds or kind in kinds))


@dataclass(frozen=True)
class Answer:
    """An answer that was received completely."""

    status: int
    body: bytes


class Lost(Exception):
    """Raised for a request without a complete answer, which began at this time."""

    def __init__(self, reason: str, began: float):
        super().__init__(reason)
        self.began = began


class Clients:
    """Clients of one server; `expected` has the answers of its models to each question when nobody else asks."""

    def __init__(self, port: int, addresses: Sequence[str], tally: Tally, expected: Mapping[bytes, Sequence[bytes]]):
        self.port = port
        self.addresses = addresses
        self.tally = tally
        self.expected = expected

    async def open(self, address: str, buffer: int | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect from one of this machine's addresses; with a small `buffer`, little data waits on this side."""
        sock = socket.socket()
        sock.setblocking(False)
        # The server limits requests by the client's address.
        sock.bind((address, 0))
        if buffer is not None:
            # Before the connection: TCP agrees on the window then.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        except BaseException:
            sock.close()
            raise
        return await asyncio.open_connection(sock=sock, limit=buffer or 2**16)

    async def answer(self, sent: bytes, address: str = "127.0.0.1", *, pause: float = 0.0) -> Answer:
        """Return the complete answer, read in small pieces if there is a pause after each; raise `Lost` otherwise."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await self.open(address, SMALL_BUFFER if pause else None)
                try:
                    writer.write(sent)
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head)
                    if not length:
                        raise Lost("an answer without a length", began)
                    remaining, chunks = int(length[1]), []
                    while remaining:
                        await asyncio.sleep(pause)
                        chunk = await reader.read(min(remaining, SMALL_BUFFER if pause else remaining))
                        if not chunk:
                            raise Lost(f"an answer that ends {remaining:,} bytes too early", began)
                        chunks.append(chunk)
                        remaining -= len(chunk)
                    return Answer(int(head[9:12]), b"".join(chunks))
                finally:
                    writer.transport.abort()
        except TimeoutError:
            raise Lost(f"no answer in {PATIENCE:g} s", began) from None
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Lost(f"{type(error).__name__}: {error}", began) from None

    async def answer_or_document(self, question: Question, address: str = "127.0.0.1", *, pause: float = 0.0) -> Answer:
        """Return the complete answer to a question; to one with a document, the translated document."""
        answer = await self.answer(question.sent, address, pause=pause)
        if question.document is None or answer.status != 200:
            return answer
        download = get_request(urlsplit(json.loads(answer.body)["translatedFileUrl"]).path)
        while (document := await self.answer(download, address, pause=pause)).status in AGAIN:
            await asyncio.sleep(RETRY)
        return document

    async def ask(self, question: Question, address: str, pause: float = 0.0) -> None:
        """Ask, and compare the answer with the one that the question gets alone."""
        began = time.monotonic()
        kind = f"{question.kind}, read slowly" if pause else question.kind
        try:
            answer = await self.answer_or_document(question, address, pause=pause)
        except Lost as lost:
            self.note_lost(kind, lost.began, str(lost))
            return
        outcome = f"told to come again ({answer.status})"
        if answer.status in AGAIN and not pause:
            self.tally.told.append(time.monotonic() - began)
        if answer.status not in AGAIN:
            if answer.status != question.status:
                outcome = "another status"
            else:
                # Questions that were not asked alone, such as hostile ones, have only their status to compare.
                expected = self.expected.get(question.sent)
                is_same = expected is None or without_seconds(answer.body) in expected
                outcome = ("answered" if question.status == 200 else "refused") if is_same else "wrong"
            if not pause and question.status == 200 and question.document is None:
                self.tally.waits.append(time.monotonic() - began)
        self.tally.outcomes[kind, outcome] += 1
        if outcome in ("wrong", "another status"):
            self.tally.problems.append(f"{kind}: {outcome}, {answer.status} {answer.body[:200]!r}")

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
        """Send a part of a request, and wait until the server closes the connection."""
        began = time.monotonic()
        outcome = "closed without an answer"
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await self.open(address)
                writer.write(half)
                answer = await reader.read(UNTIL_CLOSED)
                writer.transport.abort()
                if answer:
                    outcome = f"given up ({answer[9:12].decode()})"
        except TimeoutError:
            self.tally.problems.append(f"{kind}: still open after {PATIENCE:g} s")
            outcome = "never closed"
        except OSError as error:
            # A server that is stopping refuses connections, and may reset those it has.
            if self.tally.stopping is None and isinstance(error, ConnectionRefusedError):
                self.note_lost(kind, began, str(error))
        self.tally.outcomes[kind, outcome] += 1

    async def never_read(self, question: Question, address: str, seconds: float) -> None:
        """Ask for much data and read nothing of it."""
        try:
            _, writer = await self.open(address, SMALL_BUFFER)
            # The small receive buffer fills, then the server's own: it cannot send the rest.
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(question.sent)
            await asyncio.sleep(seconds)
            writer.transport.abort()
        except OSError as error:
            self.note_lost("asked and never read", time.monotonic(), f"{type(error).__name__}: {error}")
            return
        self.tally.outcomes["asked and never read", "held open"] += 1

    async def watch_health(self) -> None:
        """Ask for /health again and again, in a process of its own, until the server stops.

        As a program that watches a server would: this one has hundreds of clients, and would add its own delays.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _ASK_FOR_HEALTH, str(self.port), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        while (line := await process.stdout.readline()) and self.tally.stopping is None:
            status, seconds = line.split()
            self.tally.health.append(float(seconds))
            outcome = "answered" if status == b"200" else "another status"
            self.tally.outcomes["health", outcome] += 1
            if outcome != "answered":
                self.tally.problems.append(f"health: {status.decode()} after {seconds.decode()} s")
        process.kill()
        await process.wait()

    async def watch_own_delay(self) -> None:
        """Note again and again how much later than asked this program gets a turn itself, until this is cancelled."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(_OWN_TURN)
            self.tally.own_delays.append(time.monotonic() - began - _OWN_TURN)


def without_seconds(body: bytes) -> bytes:
    """Remove the seconds that a trace took from an answer, so that answers can be compared."""
    return re.sub(rb'"seconds": [0-9.e-]+', b"", body)


def get_request(path: str) -> bytes:
    """Make a GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()


def post_request(
    path: str, body: bytes, kind: str = "application/json", *, more: str = "", host: str = "127.0.0.1"
) -> bytes:
    """Make a POST request with a body."""
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: {kind}\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def translate_request(q: str | list[str], **more: object) -> bytes:
    """Make a request to translate, in JSON."""
    return post_request("/translate", json.dumps({"q": q, "source": "auto", "target": "es", **more}).encode())


def upload_request(document: NamedDocument, **fields: str) -> bytes:
    """Make a request to translate a document, as a form with a file."""
    parts = [(f'name="{name}"', value.encode()) for name, value in {"source": "en", "target": "es", **fields}.items()]
    parts.append((f'name="file"; filename="{document.name}"', document.content))
    body = b"".join(
        f"--xyz\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + v + b"\r\n" for head, v in parts
    )
    return post_request("/translate_file", body + b"--xyz--\r\n", "multipart/form-data; boundary=xyz")


def make_questions(sentences: Sequence[str], draw: random.Random) -> list[Question]:
    """Make questions of every kind that the server answers."""
    questions = [Question("a sentence", translate_request(sentence)) for sentence in sentences]
    # Most questions are plain sentences; costly kinds are rarer.
    for sentence in sentences[::4]:
        form = {"q": sentence, "source": "auto", "target": "es"}
        encoded = urlencode(form).encode()
        questions.append(Question("a form", post_request("/translate", encoded, "application/x-www-form-urlencoded")))
        form_parts = "".join(
            f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in form.items()
        )
        questions.append(
            Question(
                "a form",
                post_request("/translate", f"{form_parts}--x--\r\n".encode(), "multipart/form-data; boundary=x"),
            )
        )
    for sentence in sentences[::8]:
        page = f"<p>{sentence} <b>{draw.choice(sentences)}</b></p><p>{draw.choice(sentences)}</p>"
        questions.append(Question("a page of HTML", translate_request(page, format="html")))
        questions.append(Question("alternatives", translate_request(sentence, alternatives=3)))
        questions.append(
            Question("several sentences", translate_request(draw.sample(list(sentences), min(8, len(sentences)))))
        )
        terms = {sentence.split()[0]: "Pellucid"} if sentence.split() else {}
        questions.append(Question("terms", translate_request(sentence, terms=terms)))
    return questions


def make_uploads(documents: Sequence[NamedDocument]) -> list[Question]:
    """Make requests to translate documents, of a kind for each format."""
    return [
        Question(f"a document, {document.name.rpartition('.')[2]}", upload_request(document), document=document)
        for document in documents
    ]


def make_trace_questions(sentences: Sequence[str]) -> list[Question]:
    """Make requests to trace sentences."""
    return [
        Question("a trace", post_request("/trace", json.dumps({"sentence": sentence}).encode()))
        for sentence in sentences
    ]


def make_hostile_requests(sentence: str) -> list[Question]:
    """Make malformed and malicious requests, with the status that each must get."""
    fields = {"q": sentence, "source": "auto", "target": "es"}
    body = json.dumps(fields).encode()
    # A long header without an end of the parameters: a pattern that backtracks would take minutes.
    long_header = b'--x\r\nContent-Disposition: form-data; name="q"' + b"; a=" * 20_000 + b"\r\n\r\nYes.\r\n--x--\r\n"
    multipart = "multipart/form-data; boundary=x"
    chunked = "POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
    tiny_chunks = f"{chunked}Transfer-Encoding: chunked\r\n\r\n".encode() + b"1\r\n \r\n" * 100_000
    file = NamedDocument("a.html", b"<p>The ball.</p>")
    requests = [
        (422, post_request("/translate", b"{")),
        (422, post_request("/translate", b"[" * 100_000)),
        (422, post_request("/translate", b"9" * 100_000)),
        (422, post_request("/translate", b'{"q": "\\ud800", "source": "auto", "target": "es"}')),
        (422, post_request("/translate", json.dumps({**fields, "q": "a\0b"}).encode())),
        (422, post_request("/translate", json.dumps({**fields, "format": "pdf"}).encode())),
        (422, post_request("/translate", json.dumps({**fields, "alternatives": 10**9}).encode())),
        (422, post_request("/translate", json.dumps({f"key{i}": i for i in range(20_000)}).encode())),
        (422, post_request("/translate", b"&".join([b"q=a"] * 20_000), "application/x-www-form-urlencoded")),
        (422, post_request("/translate", long_header, multipart)),
        (422, post_request("/translate", b"--x\r\n" * 50_000, multipart)),
        (413, post_request("/translate", json.dumps({**fields, "q": "a" * 6000}).encode())),
        (413, post_request("/translate", json.dumps({**fields, "q": ["a"] * 100}).encode())),
        (413, post_request("/translate", b" " * 3_000_000 + body)),
        (413, post_request("/translate", b'{"q":[' + b"1," * 500_000 + b"1]}")),
        (413, post_request("/translate", json.dumps({**fields, "terms": {"a " * 2400: "x"}}).encode())),
        (
            413,
            post_request(
                "/translate", json.dumps({**fields, "terms": dict.fromkeys(map(str, range(300)), "x")}).encode()
            ),
        ),
        (413, tiny_chunks),
        (415, post_request("/translate", body, "text/plain")),
        (415, post_request("/translate_file", body)),
        (422, upload_request(file, terms="[]")),
        (422, upload_request(file, terms="x")),
        *((status, upload_request(document)) for status, document in make_broken_documents(sentence)),
        (421, post_request("/translate", body, host="example.com")),
        (421, post_request("/translate", body, host="evil@127.0.0.1")),
        (403, post_request("/translate", body, more="Origin: https://example.com\r\n")),
        (404, get_request("/trace/000000000000/manifest.json")),
        (404, get_request("/../../etc/passwd")),
        (405, get_request("/translate")),
        (400, b"POST /translate HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n"),
        (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    ]
    return [Question("a hostile request", sent, status) for status, sent in requests]


def make_halves(sentence: str) -> list[tuple[str, bytes]]:
    """Make the beginnings of requests that are never completed."""
    whole = translate_request(sentence)
    head = whole.index(b"\r\n\r\n") + 4
    upload = upload_request(NamedDocument("a.txt", sentence.encode() * 1000))
    return [
        ("half a header", b""),
        ("half a header", b"POST /tran"),
        ("half a header", whole[: head - 2]),
        ("half a body", whole[:head]),
        ("half a body", whole[: head + 9]),
        ("half an upload", upload[: len(upload) // 2]),
    ]
