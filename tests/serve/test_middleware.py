import asyncio

import pytest

from pellucid.serve.limits import Limits
from pellucid.serve.middleware import SECURITY_HEADERS, CheckHostAndOrigin, LimitRequests
from tests.serve.servers import Held, asked, client

TRANSLATE = {"url": "/translate", "json": asked("Yes.")}


@pytest.fixture(scope="module")
def server():
    with client() as found:
        yield found


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
def test_other_names_are_not_whoever_points_them_here(server, host: str):
    found = server.get("/health", headers={"Host": host})
    assert found.status_code == 421
    assert "not called" in found.json()["error"]


def test_a_server_for_others_answers_to_any_name_and_to_names_it_was_given():
    with client(hosts=None) as server:
        assert server.get("/health", headers={"Host": "example.com"}).status_code == 200
    with client(hosts={"example.com"}) as server:
        assert server.get("/health", headers={"Host": "Example.com:8080"}).status_code == 200
        assert server.get("/health").status_code == 421


@pytest.mark.parametrize(
    "origin", ["https://example.com", "http://localhost:5001", "null", "http://127.0.0.1.nip.io", "https://127.0.0.1"]
)
def test_pages_of_other_sites_may_not_ask(server, origin: str):
    found = server.post(**TRANSLATE, headers={"Origin": origin})
    assert found.status_code == 403
    assert "Access-Control-Allow-Origin" not in found.headers


def test_the_servers_own_page_may_ask(server):
    assert server.post(**TRANSLATE, headers={"Origin": "http://127.0.0.1"}).status_code == 200
    assert server.post(**TRANSLATE, headers={"Host": "localhost:7", "Origin": "http://localhost:7"}).status_code == 200


def test_a_page_that_came_through_a_proxy_with_tls_may_ask_by_the_name_of_the_proxy():
    proxied = {"Host": "example.com", "Origin": "https://example.com"}
    with client(hosts={"example.com"}) as server:
        assert server.post(**TRANSLATE, headers=proxied).status_code == 200
        assert server.post(**TRANSLATE, headers={**proxied, "Origin": "ftp://example.com"}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/pellucid.js", "/health", "/languages", "/frontend/settings", "/spec"])
def test_head_is_answered_as_get_without_the_body(server, monkeypatch, path: str):
    monkeypatch.setattr("pellucid.serve.page_routes.read_script", lambda: "export default 1;")
    whole, head = server.get(path), server.head(path)
    assert (head.status_code, head.headers, head.content) == (200, whole.headers, b"")
    assert int(head.headers["Content-Length"]) == len(whole.content)


def test_head_finds_what_get_finds(server):
    assert [server.head(path).status_code for path in ("/nothing", "/translate")] == [404, 405]


@pytest.mark.parametrize("allowed", ["https://example.com", "*"])
def test_allowed_sites_may_ask_and_their_browser_is_told(allowed: str):
    ask = {"Origin": "https://example.com", "Access-Control-Request-Method": "POST"}
    with client(origins=[allowed]) as server:
        first = server.options("/translate", headers={**ask, "Access-Control-Request-Headers": "content-type"})
        assert first.headers["Access-Control-Allow-Origin"] == allowed
        assert "content-type" in first.headers["Access-Control-Allow-Headers"].lower()
        found = server.post(**TRANSLATE, headers=ask)
        assert (found.status_code, found.headers["Access-Control-Allow-Origin"]) == (200, allowed)
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
    held = Held()
    monkeypatch.setattr(held, "translate", lambda lines, config, terms: 1 // 0)
    with client(held.model) as broken:
        answers.append(broken.post(**TRANSLATE))
    assert [each.status_code for each in answers] == [200, 404, 405, 421, 422, 500]
    for each in answers:
        assert {name: each.headers.get(name) for name in SECURITY_HEADERS} == SECURITY_HEADERS
        assert "server" not in each.headers
    assert "'unsafe" not in SECURITY_HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in SECURITY_HEADERS["Content-Security-Policy"]


def test_a_failure_of_ours_is_logged_and_told_without_a_traceback(monkeypatch, caplog):
    held = Held()
    monkeypatch.setattr(held, "translate", lambda lines, config, terms: 1 // 0)
    with client(held.model) as server:
        found = server.post(**TRANSLATE)
        assert (found.status_code, list(found.json())) == (500, ["error"])
        assert "ZeroDivision" not in found.text
        assert server.get("/health").status_code == 200
        metrics = server.get("/metrics").text
    assert "ZeroDivisionError" in caplog.text
    assert 'path="/translate",status="500"} 1.0' in metrics


def test_metrics_hold_no_text_no_address_and_no_path_that_was_asked_for(server):
    server.post("/translate", json=asked("Secret sentence."))
    server.get("/trace/secret-id/manifest.json")
    server.get("/secret-path")
    found = server.get("/metrics").text
    assert "pellucid_texts_total" in found
    assert "ecret" not in found
    assert "127.0.0.1" not in found


def spoken(app, *messages, seconds_between=0.0, path="/translate"):
    """What an application answers to a request whose body arrives in these messages, and then no more."""
    sent = []

    async def receive():
        await asyncio.sleep(seconds_between if waiting else 60)
        return waiting.pop(0)

    async def send(message):
        sent.append(message)

    waiting = list(messages)
    scope = {"type": "http", "path": path, "headers": [], "client": ("10.0.0.1", 1), "method": "POST"}
    asyncio.run(asyncio.wait_for(app(scope, receive, send), 10))
    return sent


def part(size: int, more: bool = True) -> dict[str, object]:
    return {"type": "http.request", "body": b"a" * size, "more_body": more}


async def counting(scope, receive, send):
    """Answers with the size of the body, which must come at once."""
    message = await receive()
    assert not message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(len(message["body"])).encode()})


def test_a_body_that_comes_in_parts_is_put_together():
    sent = spoken(LimitRequests(counting, Limits()), part(5), part(7), part(0, more=False))
    assert sent[1]["body"] == b"12"


def test_a_body_that_never_ends_is_given_up():
    sent = spoken(LimitRequests(counting, Limits(arrival=0.05)), part(5))
    assert sent[0]["status"] == 408
    sent = spoken(LimitRequests(counting, Limits(arrival=0.3, body=3)), *[part(5)] * 50, seconds_between=0.02)
    assert sent[0]["status"] == 413


def test_who_is_done_is_not_counted_any_more():
    gate = LimitRequests(counting, Limits(each=1))
    for _ in range(3):
        assert spoken(gate, part(1, more=False))[0]["status"] == 200
    assert not gate.open


def test_what_is_no_request_passes():
    async def application(scope, receive, send):
        heard.append(scope["type"])

    heard: list[str] = []
    for gate in (LimitRequests(application, Limits()), CheckHostAndOrigin(application, {"localhost"}, ())):
        asyncio.run(gate({"type": "lifespan"}, None, None))  # pyright: ignore[reportArgumentType]
    assert heard == ["lifespan", "lifespan"]
