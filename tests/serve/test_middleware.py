import asyncio
import gzip

import pytest
from starlette.responses import StreamingResponse

from pellucid.serve.gate import SECURITY_HEADERS, CheckHostAndOrigin, LimitRequests
from pellucid.serve.settings import Limits
from tests.serve.servers import HeldTranslator, client, request_body

TRANSLATE = {"url": "/translate", "json": request_body("Yes.")}


@pytest.fixture(scope="module")
def server():
    with client() as response:
        yield response


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:5000", "[::1]:5000", "LOCALHOST:80"])
def test_names_of_this_machine_are_answered(server, host: str):
    assert server.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "example.com",
        "localhost.example.com",
        "127.0.0.1.nip.io",
        "[::1",
        "",
        "a@localhost@b",
        "127.0.0.1:x:y",
        "evil@127.0.0.1",
        "127.0.0.1:x",
    ],
)
def test_other_names_are_refused(server, host: str):
    response = server.get("/health", headers={"Host": host})
    assert response.status_code == 421
    assert "not called" in response.json()["error"]


def test_allowed_names_are_answered():
    with client(hosts=None) as server:
        assert server.get("/health", headers={"Host": "example.com"}).status_code == 200
    with client(hosts={"example.com"}) as server:
        assert server.get("/health", headers={"Host": "Example.com:8080"}).status_code == 200
        assert server.get("/health").status_code == 421


@pytest.mark.parametrize(
    "origin", ["https://example.com", "http://localhost:5001", "null", "http://127.0.0.1.nip.io", "https://127.0.0.1"]
)
def test_pages_of_other_sites_are_refused(server, origin: str):
    response = server.post(**TRANSLATE, headers={"Origin": origin})
    assert response.status_code == 403
    assert "Access-Control-Allow-Origin" not in response.headers


def test_the_servers_own_page_is_answered(server):
    assert server.post(**TRANSLATE, headers={"Origin": "http://127.0.0.1"}).status_code == 200
    assert server.post(**TRANSLATE, headers={"Host": "localhost:7", "Origin": "http://localhost:7"}).status_code == 200


def test_a_page_behind_a_tls_proxy_is_answered():
    proxied = {"Host": "example.com", "Origin": "https://example.com"}
    with client(hosts={"example.com"}) as server:
        assert server.post(**TRANSLATE, headers=proxied).status_code == 200
        assert server.post(**TRANSLATE, headers={**proxied, "Origin": "ftp://example.com"}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/pellucid.js", "/health", "/languages", "/frontend/settings", "/spec"])
def test_head_is_answered_as_get_without_the_body(server, monkeypatch, path: str):
    monkeypatch.setattr("pellucid.serve.trace_routes.read_script", lambda: "export default 1;")
    whole, head = server.get(path), server.head(path)
    assert (head.status_code, head.headers, head.content) == (200, whole.headers, b"")
    sent = gzip.compress(whole.content, 6, mtime=0) if "Content-Encoding" in whole.headers else whole.content
    assert int(head.headers["Content-Length"]) == len(sent)


def test_head_has_the_status_of_get(server):
    assert [server.head(path).status_code for path in ("/nothing", "/translate")] == [404, 405]


@pytest.mark.parametrize("allowed", ["https://example.com", "*"])
def test_allowed_sites_are_answered_with_cors_headers(allowed: str):
    headers = {"Origin": "https://example.com", "Access-Control-Request-Method": "POST"}
    with client(origins=[allowed]) as server:
        preflight = server.options("/translate", headers={**headers, "Access-Control-Request-Headers": "content-type"})
        assert preflight.headers["Access-Control-Allow-Origin"] == allowed
        assert "content-type" in preflight.headers["Access-Control-Allow-Headers"].lower()
        response = server.post(**TRANSLATE, headers=headers)
        assert (response.status_code, response.headers["Access-Control-Allow-Origin"]) == (200, allowed)
        if allowed != "*":
            assert server.post(**TRANSLATE, headers={"Origin": "https://example.org"}).status_code == 403


def test_every_answer_has_the_headers_whatever_its_status(server, monkeypatch):
    answers = [
        server.get("/health"),
        server.get("/nothing"),
        server.put("/translate"),
        server.get("/", headers={"Host": "example.com"}),
        server.post("/translate", json={}),
    ]
    translator = HeldTranslator()
    monkeypatch.setattr(translator, "translate", lambda lines, config, **options: 1 // 0)
    with client(translator.model) as broken:
        answers.append(broken.post(**TRANSLATE))
    assert [answer.status_code for answer in answers] == [200, 404, 405, 421, 422, 500]
    for answer in answers:
        assert {name: answer.headers.get(name) for name in SECURITY_HEADERS} == SECURITY_HEADERS
        assert "server" not in answer.headers
    assert "'unsafe" not in SECURITY_HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in SECURITY_HEADERS["Content-Security-Policy"]


def test_an_internal_error_is_logged_and_answered_without_a_traceback(monkeypatch, caplog):
    translator = HeldTranslator()
    monkeypatch.setattr(translator, "translate", lambda lines, config, **options: 1 // 0)
    with client(translator.model) as server:
        response = server.post(**TRANSLATE)
        assert (response.status_code, list(response.json())) == (500, ["error"])
        assert "ZeroDivision" not in response.text
        assert server.get("/health").status_code == 200
        metrics = server.get("/metrics").text
    assert "ZeroDivisionError" in caplog.text
    assert 'path="/translate",status="500"} 1.0' in metrics


def test_metrics_hold_no_text_no_address_and_no_requested_path(server):
    server.post("/translate", json=request_body("Secret sentence."))
    server.get("/trace/secret-id/manifest.json")
    server.get("/secret-path")
    response = server.get("/metrics").text
    assert "pellucid_texts_total" in response
    assert "ecret" not in response
    assert "127.0.0.1" not in response


def send_request(app, *messages, seconds_between=0.0, path="/translate"):
    """Return an application's answer to a request whose body arrives in these messages, and then no more."""
    sent = []

    async def receive():
        await asyncio.sleep(seconds_between if waiting else 60)
        return waiting.pop(0)

    async def send(message):
        sent.append(message)

    waiting = list(messages)
    headers = [(b"transfer-encoding", b"chunked")]
    scope = {"type": "http", "path": path, "headers": headers, "client": ("10.0.0.1", 1), "method": "POST"}
    asyncio.run(asyncio.wait_for(app(scope, receive, send), 10))
    return sent


def body_chunk(size: int, more: bool = True) -> dict[str, object]:
    return {"type": "http.request", "body": b"a" * size, "more_body": more}


async def answer_with_size(scope, receive, send):
    """Answer with the size of the body, which must come at once."""
    message = await receive()
    assert not message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(len(message["body"])).encode()})


def test_body_chunks_are_joined():
    sent = send_request(
        LimitRequests(answer_with_size, Limits()), body_chunk(5), body_chunk(7), body_chunk(0, more=False)
    )
    assert sent[1]["body"] == b"12"


def test_a_body_that_never_ends_is_refused():
    sent = send_request(LimitRequests(answer_with_size, Limits(arrival=0.05)), body_chunk(5))
    assert sent[0]["status"] == 408
    sent = send_request(
        LimitRequests(answer_with_size, Limits(arrival=0.3, body=3)), *[body_chunk(5)] * 50, seconds_between=0.02
    )
    assert sent[0]["status"] == 413


def test_a_client_that_leaves_while_it_is_answered_is_no_failure():
    """A streamed answer listens for its client, whose leaving is the first message of a request without a body."""
    begun = asyncio.Event()

    async def pieces():
        yield b"a"
        await asyncio.Event().wait()

    async def receive():
        await begun.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message["type"])
        if message["type"] == "http.response.body":
            begun.set()

    sent: list[str] = []
    scope = {"type": "http", "path": "/trace", "headers": [], "client": ("10.0.0.1", 1), "method": "GET"}
    asyncio.run(asyncio.wait_for(LimitRequests(StreamingResponse(pieces()), Limits())(scope, receive, send), 10))
    assert sent == ["http.response.start", "http.response.body"]


def test_finished_requests_are_not_counted():
    gate = LimitRequests(answer_with_size, Limits(each=1))
    for _ in range(3):
        assert send_request(gate, body_chunk(1, more=False))[0]["status"] == 200
    assert not gate.open


def test_lifespan_messages_pass():
    async def application(scope, receive, send):
        received.append(scope["type"])

    received: list[str] = []
    for gate in (LimitRequests(application, Limits()), CheckHostAndOrigin(application, {"localhost"}, ())):
        asyncio.run(gate({"type": "lifespan"}, None, None))  # pyright: ignore[reportArgumentType]
    assert received == ["lifespan", "lifespan"]
