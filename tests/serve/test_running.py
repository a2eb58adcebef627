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
from tests.serve.servers import EndlessTranslator, HeldTranslator, request_body, running, small_model

HEADER_OF_A_FORM = b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"


def translate(port: int, q: str | list[str]) -> Any:
    """Translate as a client of its own."""
    body = json.dumps(request_body(q)).encode()
    with urlopen(Request(f"http://127.0.0.1:{port}/translate", body, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)["translatedText"]


def test_many_clients_get_the_translations_of_each_alone():
    texts = [f"{line} {number}" for number in range(2) for line in LINES]
    expected = {text: small_model().translate([text])[0].text for text in texts}
    translator = HeldTranslator()
    with running(translator.model) as port, ThreadPoolExecutor(1 + len(texts)) as pool:
        first = pool.submit(translate, port, LINES[0])
        assert translator.begun.wait(5)
        requests = [pool.submit(translate, port, [text, text[::-1]]) for text in texts]
        while f"pellucid_texts_waiting {len(texts)}.0" not in read_path(port, "/metrics"):
            time.sleep(0.01)
        translator.go.set()
        assert first.result(10) == small_model().translate(LINES[:1])[0].text
        answers = [request.result(10) for request in requests]
    assert [answer[0] for answer in answers] == [expected[text] for text in texts]
    assert [answer[1] for answer in answers] == [small_model().translate([text[::-1]])[0].text for text in texts]
    assert [len(texts_together) for texts_together in translator.translated] == [
        1,
        2 * len(texts),
    ]  # one after the first, all others together


def read_path(port: int, path: str) -> str:
    with urlopen(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.read().decode()


def test_a_client_that_goes_away_holds_up_nobody():
    translator = HeldTranslator()
    with running(translator.model) as port, ThreadPoolExecutor(2) as pool:
        first = pool.submit(translate, port, "One.")
        assert translator.begun.wait(5)
        body = json.dumps(request_body("Two.")).encode()
        leaving = http.client.HTTPConnection("127.0.0.1", port)
        leaving.request("POST", "/translate", body, {"Content-Type": "application/json"})
        while "pellucid_texts_waiting 1.0" not in read_path(port, "/metrics"):
            time.sleep(0.01)
        leaving.close()
        while "pellucid_texts_waiting 0.0" not in read_path(port, "/metrics"):
            time.sleep(0.01)
        third = pool.submit(translate, port, "Three.")
        while "pellucid_texts_waiting 1.0" not in read_path(port, "/metrics"):
            time.sleep(0.01)
        translator.go.set()
        assert all(request.result(10) for request in (first, third))
        assert 'path="/translate",status="499"} 1.0' in read_path(port, "/metrics")
    assert translator.translated == [["One."], ["Three."]]


def test_a_client_that_goes_away_does_not_keep_the_model_busy():
    translator = EndlessTranslator()
    with running(translator.model) as port:
        leaving = http.client.HTTPConnection("127.0.0.1", port)
        body = json.dumps(request_body("Endless.")).encode()
        leaving.request("POST", "/translate", body, {"Content-Type": "application/json"})
        assert translator.begun.wait(10)
        leaving.close()
        assert translator.stopped.wait(10)
        assert translate(port, "Yes.")


def test_slow_clients_hold_up_nobody():
    with running(small_model(), arrival=0.3) as port:
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        for connection in slow[:30]:
            connection.sendall(HEADER_OF_A_FORM + b"Content-Length: 99\r\n\r\nq=")
        for connection in slow[30:]:
            connection.sendall(b"POST /trans")
        assert translate(port, LINES[0]) == small_model().translate(LINES[:1])[0].text
        assert slow[0].recv(99).startswith(b"HTTP/1.1 408")
        for connection in slow:
            connection.close()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_client_that_sends_too_much_is_told_why(chunked: bool):
    with running(small_model(), body=1000) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        parts = (b"a" * 100_000 for _ in range(50))
        body = parts if chunked else b"".join(parts)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/translate", body, headers, encode_chunked=chunked)
        answer = connection.getresponse()
        assert (answer.status, list(json.load(answer))) == (413, ["error"])
        connection.close()


def test_requests_under_way_are_answered_before_the_server_stops():
    translator = HeldTranslator()
    with ThreadPoolExecutor(2) as pool:
        with running(translator.model) as port:
            requests = [pool.submit(translate, port, text) for text in ("One.", "Two.")]
            assert translator.begun.wait(5)
            while "/translate" not in read_path(port, "/metrics") and not translator.translated:
                time.sleep(0.01)
            translator.go.set()
        assert [bool(request.result(0.1)) for request in requests] == [True, True]
        with pytest.raises(OSError, match="refused"):
            translate(port, "Three.")


def test_a_server_that_has_stopped_leaves_no_thread_behind_and_says_so():
    app = create_app(small_model())
    with TestClient(app, base_url="http://127.0.0.1") as server:
        assert app.state.service.is_alive
        assert server.get("/health").json() == {"status": "ok"}
    assert not app.state.service.is_alive
    assert server.get("/health").status_code == 503
