"""Reading a request takes time in proportion to its size, whatever in it grows."""

import time
from collections.abc import Callable

import pytest

from tests.serve.servers import client

FACTOR = 8
PARTS = "multipart/form-data; boundary=x"


def multipart_body(header: bytes, value: bytes = b"Yes.") -> bytes:
    return b"--x\r\n" + header + b"\r\n\r\n" + value + b"\r\n--x--\r\n"


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
    "fields": ("application/x-www-form-urlencoded", lambda n: b"q=a&" * n),
    "escapes": ("application/x-www-form-urlencoded", lambda n: b"q=" + b"%61" * n),
    "lists within lists": (JSON, lambda n: b"[" * n + b"]" * n),
    "objects within objects": (JSON, lambda n: b'{"q":' * n),
    "digits": (JSON, lambda n: b'{"q":' + b"9" * n + b"}"),
    "texts": (JSON, lambda n: b'{"q":[' + b'"a",' * n + b'"a"]}'),
    "texts of the wrong type": (JSON, lambda n: b'{"q":[' + b"1," * n + b"1]}"),
    "fields that nobody knows": (JSON, lambda n: b"{" + b",".join(b'"a%d":1' % i for i in range(n)) + b"}"),
    "escapes in a text": (JSON, lambda n: b'{"q":"' + b"\\u00e9" * n + b'"}'),
    "tags": (JSON, lambda n: b'{"format":"html","source":"en","target":"es","q":"' + b"<b>" * (n // 20) + b'"}'),
    "open tags": (JSON, lambda n: b'{"format":"html","source":"en","target":"es","q":"' + b"<" * (n // 20) + b'"}'),
    "entities": (JSON, lambda n: b'{"format":"html","source":"en","target":"es","q":"' + b"&amp" * (n // 40) + b'"}'),
}


@pytest.mark.parametrize("growing", GROWING)
def test_reading_takes_linear_time(growing: str):
    kind, body = GROWING[growing]
    size = 8_000
    with client(characters=10**6, body=2**20) as server:

        def measure_seconds(size: int) -> float:
            durations = []
            for _ in range(5):
                start = time.process_time()
                answer = server.post("/translate", content=body(size), headers={"Content-Type": kind})
                durations.append(time.process_time() - start)
                assert answer.status_code < 500, answer.text
            return min(durations)

        # Quadratic time would be 64 times; what is linear stays near 8; the rest is for a busy machine.
        assert measure_seconds(FACTOR * size) < 32 * measure_seconds(size) + 0.1
