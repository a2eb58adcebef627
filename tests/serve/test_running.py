import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.request import Request, urlopen

import pytest
from starlette.testclient import TestClient

from pellucid.serve.app import create_app
from tests.decode.models import LINES
from tests.serve.servers import Held, asked, running, small_model


def translated(port: int, q: str | list[str]) -> Any:
    """What a client of its own gets."""
    body = json.dumps(asked(q)).encode()
    with urlopen(Request(f"http://127.0.0.1:{port}/translate", body, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)["translatedText"]


def test_many_clients_get_what_each_alone_would():
    texts = [f"{line} {number}" for number in range(2) for line in LINES]
    alone = {text: small_model().translate([text])[0].text for text in texts}
    held = Held()
    with running(held.model) as port, ThreadPoolExecutor(1 + len(texts)) as pool:
        first = pool.submit(translated, port, LINES[0])
        assert held.begun.wait(5)
        several = [pool.submit(translated, port, [text, text[::-1]]) for text in texts]
        while f"pellucid_texts_waiting {len(texts)}.0" not in read(port, "/metrics"):
            time.sleep(0.01)
        held.go.set()
        assert first.result(10) == small_model().translate(LINES[:1])[0].text
        found = [each.result(10) for each in several]
    assert [each[0] for each in found] == [alone[text] for text in texts]
    assert [each[1] for each in found] == [small_model().translate([text[::-1]])[0].text for text in texts]
    assert [len(each) for each in held.asked] == [1, 2 * len(texts)]  # one after the first, all others together


def read(port: int, path: str) -> str:
    with urlopen(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.read().decode()


def test_a_client_that_goes_away_holds_up_nobody():
    held = Held()
    with running(held.model) as port, ThreadPoolExecutor(2) as pool:
        first = pool.submit(translated, port, "One.")
        assert held.begun.wait(5)
        body = json.dumps(asked("Two.")).encode()
        leaving = http.client.HTTPConnection("127.0.0.1", port)
        leaving.request("POST", "/translate", body, {"Content-Type": "application/json"})
        while "pellucid_texts_waiting 1.0" not in read(port, "/metrics"):
            time.sleep(0.01)
        leaving.close()
        while "pellucid_texts_waiting 0.0" not in read(port, "/metrics"):
            time.sleep(0.01)
        third = pool.submit(translated, port, "Three.")
        while "pellucid_texts_waiting 1.0" not in read(port, "/metrics"):
            time.sleep(0.01)
        held.go.set()
        assert all(each.result(10) for each in (first, third))
        assert 'path="/translate",status="499"} 1.0' in read(port, "/metrics")
    assert held.asked == [["One."], ["Three."]]


def test_slow_clients_hold_up_nobody():
    with running(small_model(), arrival=0.3) as port:
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        for each in slow[:30]:
            each.sendall(b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\nq=")
        for each in slow[30:]:
            each.sendall(b"POST /trans")
        assert translated(port, LINES[0]) == small_model().translate(LINES[:1])[0].text
        assert slow[0].recv(99).startswith(b"HTTP/1.1 408")
        for each in slow:
            each.close()


@pytest.mark.parametrize("chunked", [False, True])
def test_who_sends_too_much_hears_why(chunked: bool):
    with running(small_model(), body=1000) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        parts = (b"a" * 100_000 for _ in range(50))
        body = parts if chunked else b"".join(parts)
        connection.request("POST", "/translate", body=body, encode_chunked=chunked)
        answer = connection.getresponse()
        assert (answer.status, list(json.load(answer))) == (413, ["error"])
        connection.close()


def test_what_is_under_way_is_answered_before_the_server_stops():
    held = Held()
    with ThreadPoolExecutor(2) as pool:
        with running(held.model) as port:
            several = [pool.submit(translated, port, text) for text in ("One.", "Two.")]
            assert held.begun.wait(5)
            while "/translate" not in read(port, "/metrics") and not held.asked:
                time.sleep(0.01)
            held.go.set()
        assert [bool(each.result(0.1)) for each in several] == [True, True]
        with pytest.raises(OSError, match="refused"):
            translated(port, "Three.")


def test_a_server_that_has_stopped_leaves_no_thread_behind_and_says_so():
    app = create_app(small_model())
    with TestClient(app, base_url="http://127.0.0.1") as server:
        assert app.state.service.is_alive
        assert server.get("/health").json() == {"status": "ok"}
    assert not app.state.service.is_alive
    assert server.get("/health").status_code == 503
