"""A server that gets too much, or is told to stop: each request is answered, or told to come again."""

import gc
import json
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from threading import Event, Thread
from time import sleep
from typing import Any

import pytest

from pellucid.interpret.trace.edits import Record
from pellucid.serve import connections, uploads
from pellucid.serve.app import create_app
from pellucid.serve.connections import bind_socket, make_server
from pellucid.serve.service import Service
from pellucid.serve.settings import Limits
from pellucid.serve.training_text import TrainingText
from pellucid.serve.workers import JobsCancelled, Worker
from tests.serve.servers import EN_ES, EndlessTranslator, HeldTranslator, client, request_body, small_model

MULTIPART = "multipart/form-data; boundary=x"
DOCUMENT = (
    b'--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n'
    b'--x\r\nContent-Disposition: form-data; name="target"\r\n\r\nes\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nThe ball.\r\n--x--\r\n'
)


class StoppableServer:
    """A real server in a thread, which is told to stop as by a signal."""

    def __init__(self, model: Any, **limits: Any):
        self.limits = Limits(**limits)
        self.app = create_app(model, self.limits, languages=EN_ES)
        self.service: Service = self.app.state.service
        self.server = make_server(self.app, self.limits)
        self.listener = bind_socket("127.0.0.1", 0)
        self.port: int = self.listener.getsockname()[1]
        self.thread = Thread(target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True)
        self.thread.start()

    def ask(self, path: str, body: bytes, kind: str = "application/json") -> tuple[int, str | None, dict[str, Any]]:
        """Return the status, the seconds after which to come again, and the answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", path, body, {"Content-Type": kind})
        answer = connection.getresponse()
        told = answer.status, answer.headers["Retry-After"], json.load(answer)
        connection.close()
        return told

    def translate(self, text: str) -> tuple[int, str | None, dict[str, Any]]:
        return self.ask("/translate", json.dumps(request_body(text)).encode())

    def stop(self) -> None:
        self.server.should_exit = True


@contextmanager
def stoppable(model: Any, **limits: Any):
    server = StoppableServer(model, **limits)
    try:
        yield server
    finally:
        server.stop()
        server.thread.join(60)
        server.listener.close()


def test_a_server_that_stops_tells_each_request_that_it_cannot_finish_to_come_again():
    translator = HeldTranslator()  # released only after all have been told
    with stoppable(translator.model, stopping=1) as server, ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(server.translate, "One.")]
        assert translator.begun.wait(60)
        asked += [pool.submit(server.translate, text) for text in ("Two.", "Three.", "Four.")]
        while server.service.translation_worker.waiting_jobs < 3:
            sleep(0.001)
        server.stop()
        for status, retry, answer in (request.result(60) for request in asked):
            assert (status, retry) == (503, "2")
            assert answer["error"] == "the server is stopping, and could not answer this before; come again"
        server.thread.join(60)
        assert not server.thread.is_alive()
        assert server.service.is_abandoned  # the process must end itself: a thread is inside of a computation
        translator.go.set()


def test_a_server_that_stops_finishes_what_can_be_finished():
    translator = HeldTranslator()
    with stoppable(translator.model, stopping=60) as server, ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(server.translate, "One.")]
        assert translator.begun.wait(60)
        asked.append(pool.submit(server.translate, "Two."))
        while server.service.translation_worker.waiting_jobs < 1:
            sleep(0.001)
        server.stop()
        while server.service.stops_at is None:
            sleep(0.001)
        translator.go.set()
        assert [request.result(60)[0] for request in asked] == [200, 200]
        server.thread.join(60)
        assert not server.service.is_abandoned


def test_a_document_that_is_taken_apart_without_end_does_not_keep_a_server_from_stopping(
    monkeypatch: pytest.MonkeyPatch,
):
    begun, go = Event(), Event()

    def read_without_end(*arguments: Any) -> None:
        begun.set()
        assert go.wait(60)
        raise ValueError("nobody looks at this any more")

    monkeypatch.setattr(uploads, "read_document", read_without_end)
    with stoppable(small_model(), stopping=1) as server, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.ask, "/translate_file", DOCUMENT, MULTIPART)
        assert begun.wait(60)
        server.stop()
        status, retry, answer = asked.result(60)
        assert (status, retry) == (503, "2")
        assert "stopping" in answer["error"]
        assert server.service.is_abandoned
        go.set()


def test_a_document_between_two_of_its_pieces_is_told_that_the_server_stops():
    translator = HeldTranslator()
    with stoppable(translator.model, stopping=1) as server, ThreadPoolExecutor(2) as pool:
        asked = pool.submit(server.ask, "/translate_file", DOCUMENT, MULTIPART)
        assert translator.begun.wait(60)
        server.stop()
        assert asked.result(60)[0] == 503
        translator.go.set()


@pytest.mark.parametrize(
    "half", [b"", b"POST /tran", b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"]
)
def test_a_client_that_sends_half_a_request_does_not_keep_a_server_from_stopping(half: bytes):
    with (
        stoppable(small_model(), stopping=1, arrival=1000, seconds=1000) as server,
        socket.create_connection(("127.0.0.1", server.port)) as connection,
    ):
        connection.sendall(half.replace(b"Host: a", b"Host: 127.0.0.1"))
        while not server.server.server_state.connections:
            sleep(0.001)
        server.stop()
        server.thread.join(60)
        assert not server.thread.is_alive()


def test_a_process_that_has_not_ended_in_time_ends_itself(monkeypatch: pytest.MonkeyPatch):
    """The last resort is begun when the server is told to stop, not before."""
    begun: list[float] = []

    class Timer:
        daemon = False

        def __init__(self, seconds: float, function: Any):
            assert function is connections._end_process
            self.seconds = seconds

        def start(self) -> None:
            begun.append(self.seconds)

    class Server:
        def __init__(self, on_stop: Any):
            self.on_stop = on_stop

        def run(self, sockets: Any) -> None:
            assert not begun
            # What was there before is left out of Python's search for garbage, which holds its lock.
            assert gc.get_freeze_count() > len(gc.get_objects())
            self.on_stop()

    monkeypatch.setattr(connections, "Timer", Timer)
    monkeypatch.setattr(connections, "make_server", lambda app, limits, on_stop: Server(on_stop))
    limits = Limits()
    with bind_socket("127.0.0.1", 0) as listener:
        connections.serve_until_stopped(create_app(small_model(), limits), listener, limits)
    assert len(begun) == 1
    assert begun[0] < 10  # docker's patience
    assert gc.get_freeze_count() == 0


def test_each_of_too_many_requests_is_answered_or_told_to_come_again():
    translator = EndlessTranslator()  # each batch ends only when its requests are too late
    with stoppable(translator.model, seconds=2, waiting=6, each=0) as server, ThreadPoolExecutor(40) as pool:
        asked: list[Future[Any]] = [pool.submit(server.translate, "Endless.")]
        assert translator.begun.wait(60)
        asked += [pool.submit(server.translate, "Endless.") for _ in range(39)]
        told = [request.result(120) for request in asked]
    assert {status for status, _, _ in told} <= {503, 504}
    for status, retry, answer in told:
        assert answer["error"]
        assert (retry == "2") == (status == 503)
    # The first came behind nobody, and is told that it asks for too much.
    assert told[0][0] == 504


def test_health_is_answered_while_every_thread_of_the_server_is_taken(monkeypatch: pytest.MonkeyPatch):
    translator, go, waiting = HeldTranslator(), Event(), []

    def find_slowly(self: TrainingText, text: str) -> list[Any]:
        waiting.append(text)
        assert go.wait(60)
        return []

    with client(translator.model, documents=1) as server, ThreadPoolExecutor(9) as pool:
        monkeypatch.setattr(TrainingText, "find_rare_words", find_slowly)
        held = pool.submit(server.post, "/translate", json=request_body("One."))
        asked = [pool.submit(server.post, "/rare-words", json={"text": "a"}) for _ in range(8)]
        while len(waiting) < 5:  # as many threads as there are, with one document
            sleep(0.001)
        assert server.get("/health").json() == {"status": "ok"}
        assert len(waiting) == 5
        go.set()
        translator.go.set()
        assert [request.result(60).status_code for request in (held, *asked)] == [200] * 9


def test_a_request_of_usual_size_is_read_without_a_thread(monkeypatch: pytest.MonkeyPatch):
    """The way to a thread and back is what a busy server has no time for."""

    async def refuse_thread(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a thread was asked for")

    for module in ("bodies", "libretranslate"):
        monkeypatch.setattr(f"pellucid.serve.{module}.run_in_threadpool", refuse_thread)
    with client() as server:
        body = request_body("The ball is blue.")
        assert server.post("/translate", json=body).status_code == 200
        assert server.post("/translate", data={"q": "Yes.", "source": "en", "target": "es"}).status_code == 200
        assert server.post("/detect", json={"q": "x" * 5000}).status_code == 500


def test_a_request_for_which_there_is_no_room_is_refused_before_it_is_read():
    translator = HeldTranslator()
    with client(translator.model, waiting=1) as server, ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(server.post, "/translate", json=request_body("One."))]
        assert translator.begun.wait(60)
        asked.append(pool.submit(server.post, "/translate", json=request_body("Two.")))
        while "pellucid_texts_waiting 1" not in server.get("/metrics").text:
            sleep(0.001)
        # No JSON, and of a type that is not read: nobody looks.
        answer = server.post("/translate", content=b"{", headers={"Content-Type": "text/plain"})
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
        assert "1 requests wait already" in answer.json()["error"]
        # What needs no turn of the model is answered.
        assert server.get("/languages").status_code == 200
        translator.go.set()
        assert [request.result(60).status_code for request in asked] == [200, 200]


def test_a_trace_is_stopped_between_two_steps_when_its_client_is_no_longer_there(monkeypatch: pytest.MonkeyPatch):
    """A trace is given no function to ask whether it is wanted: its steps ask the owner of their thread."""
    steps: list[str] = []
    worker = Worker[Callable[[], Any], Any](lambda functions, check: [function() for function in functions], 9)
    keep = Record._keep

    def keep_and_leave(self: Record, name: str, value: Any) -> Any:
        steps.append(name)
        if len(steps) == 3:
            trace.cancel()
        return keep(self, name, value)

    monkeypatch.setattr(Record, "_keep", keep_and_leave)
    trace = worker.submit(lambda: small_model().trace("The ball is blue."))
    with pytest.raises(JobsCancelled):
        trace.result(60)
    assert len(steps) == 3
    worker.close(60)
    assert small_model().trace("The ball.").target.text == small_model().translate("The ball.").text
