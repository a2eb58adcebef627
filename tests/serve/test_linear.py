"""Reading a request takes time in proportion to its size, whatever in it grows."""

import json
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.decode.test_terms import nested_terms
from tests.growth import assert_linear
from tests.serve.servers import client, running, small_model
from tests.serve.test_connections import connect

PARTS = "multipart/form-data; boundary=x"


def multipart_body(header: bytes, value: bytes = b"Yes.") -> bytes:
    return b"--x\r\n" + header + b"\r\n\r\n" + value + b"\r\n--x--\r\n"


def body_with_terms(terms: Mapping[str, object], words: int) -> bytes:
    """Return a request for a text of so many words, w0, w1 and so on, with terms."""
    q = " ".join(f"w{i}" for i in range(words))
    return json.dumps({"q": q, "source": "en", "target": "es", "terms": terms}).encode()


# No translation of the small model has room for it, so that matching is measured and not the search.
LONG_TARGET = "1 " * 40 + "1"
FORM = "application/x-www-form-urlencoded"
FIELD = b'Content-Disposition: form-data; name="q"'
JSON = "application/json"
GROWING: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "parameters of a part": (PARTS, lambda n: multipart_body(FIELD + b"; a=" * n)),
    "parameters with a number": (PARTS, lambda n: multipart_body(FIELD + b"".join(b"; a*%d=b" % i for i in range(n)))),
    "comments within comments": (PARTS, lambda n: multipart_body(b"Content-Disposition: " + b"(" * n)),
    "lines of a part's header": (PARTS, lambda n: multipart_body(b"a: b\r\n" * n + FIELD)),
    "quotes in a part's header": (PARTS, lambda n: multipart_body(FIELD + b'"' * n)),
    "spaces in a part's header": (
        PARTS,
        lambda n: multipart_body(b"Content-Disposition: form-data;" + b" " * n + b'name="q"'),
    ),
    "parts": (PARTS, lambda n: (b"--x\r\n" + FIELD + b"\r\n\r\na\r\n") * n + b"--x--"),
    "beginnings of a boundary": (PARTS, lambda n: multipart_body(FIELD, b"\r\n--" * n)),
    "length of a part": (PARTS, lambda n: multipart_body(FIELD, b"a" * n)),
    "fields": (FORM, lambda n: b"q=a&" * n),
    "escapes": (FORM, lambda n: b"q=" + b"%61" * n),
    "lists within lists": (JSON, lambda n: b"[" * n + b"]" * n),
    "objects within objects": (JSON, lambda n: b'{"q":' * n),
    "digits": (JSON, lambda n: b'{"q":' + b"9" * n + b"}"),
    "texts": (JSON, lambda n: b'{"q":[' + b'"a",' * n + b'"a"]}'),
    "texts of the wrong type": (JSON, lambda n: b'{"q":[' + b"1," * n + b"1]}"),
    "fields that nobody knows": (JSON, lambda n: b"{" + b",".join(b'"a%d":1' % i for i in range(n)) + b"}"),
    "numbers in a list": (JSON, lambda n: b'{"q":[' + b"1," * (8 * n) + b"1]}"),
    "lists in a list": (JSON, lambda n: b'{"q":[' + b"[]," * (4 * n) + b"1]}"),
    "ids of the wrong type": (JSON, lambda n: b'{"target_ids":[' + b"[]," * (4 * n) + b"1]}"),
    "terms": (JSON, lambda n: body_with_terms({f"w{i}": LONG_TARGET for i in range(n // 40)}, n // 40)),
    "invalid terms": (JSON, lambda n: body_with_terms(dict.fromkeys(map(str, range(n)), 1), 1)),
    "terms in a form": (FORM, lambda n: b"q=a&terms={" + b",".join(b'"%d":1' % i for i in range(n)) + b"}"),
    "words of a term": (JSON, lambda n: body_with_terms({" ".join(f"w{i}" for i in range(n)): "x"}, 1)),
    "nested terms": (JSON, lambda n: body_with_terms(nested_terms(["a"] * (n // 4)), 1)),
    "escapes in a text": (JSON, lambda n: b'{"q":"' + b"\\u00e9" * n + b'"}'),
    "tags": (JSON, lambda n: b'{"format":"html","source":"en","target":"es","q":"' + b"<b>" * (n // 20) + b'"}'),
    "open tags": (JSON, lambda n: b'{"format":"html","source":"en","target":"es","q":"' + b"<" * (n // 20) + b'"}'),
    "entities": (JSON, lambda n: b'{"format":"html","source":"en","target":"es","q":"' + b"&amp" * (n // 40) + b'"}'),
}


UNLIMITED: dict[str, Any] = {"characters": 10**6, "request_terms": 10**6, "term_characters": 10**6, "body": 2**21}


@pytest.mark.parametrize("growing", GROWING)
def test_reading_takes_linear_time(growing: str):
    kind, body = GROWING[growing]
    path = "/trace" if "ids" in growing else "/translate"
    with client(**UNLIMITED) as server:

        def measure_seconds(size: int) -> float:
            content = body(size)
            start = time.process_time()
            answer = server.post(path, content=content, headers={"Content-Type": kind})
            assert answer.status_code < 500, answer.text
            return time.process_time() - start

        assert_linear(measure_seconds, 32_000)


POST = b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
REQUESTS: dict[str, Callable[[int], bytes]] = {
    "headers": lambda n: POST + b"a: b\r\n" * n + b"\r\n",
    "different headers": lambda n: POST + b"".join(b"a%d: b\r\n" % i for i in range(n)) + b"\r\n",
    "length of a header": lambda n: POST + b"a: " + b"b" * n + b"\r\n\r\n",
    "headers without an end": lambda n: POST + b"a: b\r\n" * n + b"\0\r\n\r\n",
    "length of a path": lambda n: b"GET /" + b"a" * n + POST.partition(b"/translate")[2] + b"\r\n",
    "chunks": lambda n: POST + b"Transfer-Encoding: chunked\r\n\r\n" + (b"40\r\n" + b" " * 64 + b"\r\n") * n + END,
    "tiny chunks": lambda n: POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * (8 * n) + END,
    "length of a body": lambda n: POST + b"Content-Length: %d\r\n\r\n" % (32 * n) + b" " * (32 * n),
    "requests on one connection": lambda n: b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n" * (n // 40) + POST + b"\r\n",
}
END = b"0\r\n\r\n"


@pytest.mark.parametrize("growing", REQUESTS)
def test_receiving_takes_linear_time(growing: str):
    with running(small_model(), **UNLIMITED) as port:

        def measure_seconds(size: int) -> float:
            data = REQUESTS[growing](size)
            start = time.process_time()
            with connect(port) as connection:
                try:
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    received = connection.makefile("rb").read()
                except ConnectionError:  # refused before all was sent
                    received = b""
            assert b"HTTP/1.1 5" not in received
            return time.process_time() - start

        assert_linear(measure_seconds, 4_000)
