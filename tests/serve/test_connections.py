import asyncio
import errno
import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from pellucid.serve.app import create_app
from pellucid.serve.connections import CHUNK_BYTES, SMALL_CHUNKS, Connections, most_open_files
from pellucid.serve.settings import Limits
from tests.decode.models import LINES
from tests.serve.servers import EN_ES, HeldTranslator, request_body, running, running_app, small_model
from tests.serve.test_running import read_path, translate

HEADER = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def connect(port: int, *parts: bytes) -> socket.socket:
    """Open a connection and send data on it."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    for data in parts:
        connection.sendall(data)
    return connection


def read_status(port: int, *parts: bytes) -> bytes:
    """Return the status of the answer on a new connection."""
    with connect(port, *parts) as connection:
        return connection.recv(12)[-3:]


@pytest.mark.parametrize("sent", [b"", b"GET /hea", HEADER[:-2], HEADER + b"GET", HEADER + HEADER + HEADER[:-1]])
def test_a_header_that_does_not_arrive_is_given_up(sent: bytes):
    with running(small_model(), arrival=0.2) as port, connect(port, sent) as connection:
        received = connection.makefile("rb").read()  # ends when the server closes the connection
    assert received.count(b"HTTP/1.1 200") == sent.count(HEADER)
    assert received.count(b"HTTP/1.1 408 Request Timeout") == 1
    assert b'{"error":"the header of the request did not arrive completely within 0.2 s"}' in received


@pytest.mark.parametrize("address", ["http://127.0.0.1", "HTTP://localhost:5000", "https://127.0.0.1:1"])
def test_a_whole_address_in_the_request_line_is_answered_like_its_path(address: str):
    with running(small_model()) as port:
        for path, status in (("/health", b"200"), ("/languages?x=/", b"200"), ("/nothing", b"404")):
            line = f"GET {address}{path} HTTP/1.1\r\nHost: other.example\r\n\r\n".encode()
            assert read_status(port, line) == status
        # The address counts, not the Host header.
        other = b"GET http://other.example/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        assert read_status(port, other) == b"421"
        assert read_status(port, b"GET http://a@127.0.0.1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == b"421"
        # Without a path it is that of the page, which may not be built.
        assert read_status(port, f"GET {address} HTTP/1.1\r\nHost: a\r\n\r\n".encode()) in (b"200", b"503")


def test_a_header_that_comes_byte_by_byte_has_no_more_time():
    with running(small_model(), arrival=0.3) as port, connect(port) as connection:
        began = time.monotonic()
        with suppress(OSError):  # the server has closed it
            while time.monotonic() - began < 10:
                connection.sendall(b"a")
                time.sleep(0.02)
        assert time.monotonic() - began < 10


def test_every_header_of_a_connection_has_its_own_time():
    with running(small_model(), arrival=0.2) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for _ in range(4):
            connection.request("GET", "/health")
            assert connection.getresponse().read() == b'{"status":"ok"}'
            time.sleep(0.1)
        connection.close()


def test_silent_connections_give_way_to_requests():
    with running(small_model(), connections=8) as port:
        silent = [connect(port, b"GET /hea") for _ in range(40)]
        assert translate(port, LINES[0]) == small_model().translate(LINES[:1])[0].text
        with suppress(ConnectionResetError):
            assert silent[0].recv(9) == b""  # the oldest were closed
        silent[-1].sendall(HEADER.removeprefix(b"GET /hea"))
        assert silent[-1].recv(12) == b"HTTP/1.1 200"  # the last was not
        for connection in silent:
            connection.close()


def test_one_connection_too_many_is_refused_while_all_are_busy():
    body = json.dumps(request_body("Yes.")).encode()
    translator = HeldTranslator()
    limits = Limits(connections=3)
    app = create_app(translator.model, limits, languages=EN_ES)
    with running_app(app, limits) as port:
        busy = [connect(port, post_header("/translate", len(body)), body)]
        assert translator.begun.wait(30)
        busy += [connect(port, post_header("/translate", len(body)), body) for _ in range(2)]
        wait_until(lambda: app.state.service.translation_worker.waiting_jobs == 2)
        assert read_status(port) == b"503"
        translator.go.set()
        assert [connection.recv(12) for connection in busy] == [b"HTTP/1.1 200"] * 3
        for connection in busy:
            connection.close()
        wait_until(lambda: read_status(port, HEADER) == b"200")


def post_header(path: str, length: int) -> bytes:
    """Return the header of a request with a JSON body of that length."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {length}\r\n\r\n".encode()


HALF_BODIES = {
    "awaited": post_header("/translate", 10**6) + b"{",
    "refused before it was read": post_header("/nothing", 10**6) + b"{",
    "too large": post_header("/translate", 10**7) + b"{",
    "of no interest": HEADER[:-2] + b"Content-Length: 1000000\r\n\r\na",
}


@pytest.mark.parametrize("kind", HALF_BODIES)
def test_connections_with_half_a_body_give_way_to_requests(kind: str):
    with running(small_model(), connections=8) as port:
        half_bodies = [connect(port, HALF_BODIES[kind]) for _ in range(8)]
        for connection in half_bodies if kind != "awaited" else ():
            assert connection.recv(9) == b"HTTP/1.1 "
        for _ in range(3):
            assert read_status(port, HEADER) == b"200"
            for connection in half_bodies:
                with suppress(OSError):  # closed already
                    connection.sendall(b" ")
        for connection in half_bodies:
            connection.close()


@pytest.mark.parametrize("kind", HALF_BODIES)
def test_a_connection_with_half_a_body_is_answered_and_then_closed(kind: str):
    with running(small_model(), arrival=0.4) as port, connect(port, HALF_BODIES[kind]) as connection:
        answer = connection.makefile("rb").read()  # ends when the server sends no more
        assert answer.startswith(b"HTTP/1.1 200" if kind == "of no interest" else b"HTTP/1.1 4")
        assert b"\r\nconnection: close\r\n" in answer.lower()
        # A byte now and then does not keep it open.
        with pytest.raises(ConnectionError):
            send_forever(connection, b" ", seconds_between=0.02)


def upload_whole(content: bytes) -> bytes:
    """Return a whole request to translate a text file."""
    fields = ('name="source"', b"en"), ('name="target"', b"es"), ('name="file"; filename="a.txt"', content)
    parts = [f"--x\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + value for head, value in fields]
    body = b"\r\n".join([*parts, b"--x--\r\n"])
    kind = b"multipart/form-data; boundary=x"
    return post_header("/translate_file", len(body)).replace(b"application/json", kind) + body


def test_uploads_that_do_not_arrive_take_no_place_of_a_document():
    with running(small_model(), documents=1) as port, connect(port, upload_whole(b"Yes.")[:-9]):
        assert read_status(port, HEADER) == b"200"
        assert read_status(port, upload_whole(b"Yes.")) == b"200"


def test_the_bytes_of_all_bodies_that_arrive_have_a_limit():
    with running(small_model(), documents=1, document_bytes=100_000, open_requests=4, body=1000) as port:
        half = upload_whole(b"<!-- " + b"-" * 90_000)[:60_000]
        with connect(port, half):
            assert read_status(port, HEADER) == b"200"
            assert read_status(port, half) == b"503"
            assert read_status(port, upload_whole(b"Yes.")) == b"200"


def test_a_client_that_is_gone_before_its_answer_ends_is_no_error(monkeypatch, caplog):
    def find_client_gone(transport: asyncio.Transport) -> None:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    monkeypatch.setattr("asyncio.selector_events._SelectorSocketTransport.write_eof", find_client_gone)
    with running(small_model()) as port:
        with suppress(ConnectionError), connect(port, HALF_BODIES["refused before it was read"]) as connection:
            assert connection.makefile("rb").readline() == b"HTTP/1.1 404 Not Found\r\n"
        assert read_status(port, HEADER) == b"200"
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_connection_goes_on_after_a_body_that_was_read():
    with running(small_model()) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for target, status in (("es", 200), ("de", 422), ("es", 200)):
            body = json.dumps(request_body("Yes.", target=target))
            connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert (answer.status, answer.getheader("Connection"), bool(answer.read())) == (status, None, True)
        connection.close()


def test_a_server_that_stops_does_not_wait_for_half_bodies():
    with running(small_model()) as port:
        connection = connect(port, HALF_BODIES["too large"])
        assert connection.recv(12) == b"HTTP/1.1 413"
        began = time.monotonic()
    assert time.monotonic() - began < Limits().arrival / 2
    connection.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        HEADER + b"\0\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
    ],
)
def test_invalid_http_is_refused_with_json_and_not_logged(sent: bytes, capfd):
    with running(small_model()) as port, connect(port, sent) as connection:
        received = connection.makefile("rb").read()
    head, _, body = received.rpartition(b"\r\n\r\n")
    assert b"HTTP/1.1 400 Bad Request\r\n" in head
    assert b"content-length: %d\r\n" % len(body) in head
    assert list(json.loads(body)) == ["error"]
    assert capfd.readouterr().err == ""


def test_a_body_in_too_many_small_chunks_is_refused():
    header = b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    header += b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    text = json.dumps(request_body("Yes.")).encode()

    def send_chunks(size: int, length: int) -> bytes:
        parts = [text.ljust(length)[i : i + size] for i in range(0, length, size)]
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
        with running(small_model()) as port, connect(port, header + chunks + b"0\r\n\r\n") as connection:
            return connection.makefile("rb").read()

    assert b"HTTP/1.1 200" in send_chunks(size=1, length=SMALL_CHUNKS)
    assert b"HTTP/1.1 200" in send_chunks(size=CHUNK_BYTES, length=3 * SMALL_CHUNKS * CHUNK_BYTES)
    answer = send_chunks(size=1, length=SMALL_CHUNKS + 1)
    assert b"HTTP/1.1 413" in answer
    assert b"send larger chunks" in answer
    assert send_chunks(size=1, length=250_000) == answer


def test_a_request_sent_before_the_stop_is_answered(monkeypatch):
    monkeypatch.setattr("pellucid.serve.connections.ON_ITS_WAY", 3.0)
    with ThreadPoolExecutor(1) as pool:
        with running(small_model()) as port:
            new, used = connect(port), connect(port, HEADER)
            assert used.recv(12) == b"HTTP/1.1 200"
            answers = pool.submit(ask_while_stopping, port, [new, used])
        assert answers.result() == [True, True]


def ask_while_stopping(port: int, connections: list[socket.socket]) -> list[bool]:
    """Send a request on each connection once no new one is accepted; return which are answered."""
    with suppress(ConnectionError):  # refused, or reset, if it stopped between the two
        while True:
            connect(port).close()
    for connection in connections:
        connection.sendall(HEADER)
    answered = []
    for connection in connections:
        with connection:
            answered.append(b"200 OK" in connection.makefile("rb").read())
    return answered


def test_an_answer_that_nobody_reads_is_given_up():
    with running(small_model(), seconds=0.3) as port:
        ask = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        slow = connect(port)
        slow.settimeout(10)
        with pytest.raises(ConnectionError):
            send_forever(slow, ask)
        slow.close()
        assert read_path(port, "/health") == '{"status":"ok"}'


def test_a_lack_of_files_is_logged_once(caplog):
    connections, loop = Connections(Limits()), asyncio.new_event_loop()
    for _ in range(1000):
        connections.handle_loop_error(loop, {"message": "out", "exception": OSError(errno.EMFILE, "Too many")})
    assert len(caplog.records) == 1
    connections.handle_loop_error(loop, {"message": "something else"})
    assert "something else" in caplog.records[-1].message
    loop.close()


def test_there_are_fewer_connections_than_files():
    connections = Connections(Limits(connections=10**9))
    assert connections.limit <= most_open_files() // 2
    assert 1 <= connections.accepted_at_once <= max(1, most_open_files() // 16)
    assert Connections(Limits(connections=5)).limit == min(5, most_open_files() // 2)


def send_forever(connection: socket.socket, data: bytes, seconds_between: float = 0.0) -> None:
    """Send until sending fails, for 20 seconds at most."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        connection.sendall(data)
        time.sleep(seconds_between)


def wait_until(condition) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
