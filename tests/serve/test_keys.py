import base64
import json
from pathlib import Path

import pytest

from pellucid.serve.gate import ApiKeys
from tests.serve.servers import client, request_body, running, small_model
from tests.serve.test_connections import read_status

KEY, OTHER = "a-key-of-24-characters--", "another-key-of-some-more-characters"


@pytest.fixture(scope="module")
def server():
    with client(keys=ApiKeys([KEY, OTHER])) as response:
        yield response


def basic_header(password: str, user: str = "") -> dict[str, str]:
    """Return the header that a browser sends for a password."""
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


@pytest.mark.parametrize("path", ["/translate", "/detect"])
@pytest.mark.parametrize("form", ["json", "data"])
def test_libretranslate_clients_send_the_key_in_the_body(server, path: str, form: str):
    fields = request_body("Yes.") if path == "/translate" else {"q": "Yes."}
    for key in (KEY, OTHER):
        assert server.post(path, **{form: {**fields, "api_key": key}}).status_code == 200
    for key in ("", None) if form == "json" else ("",):
        response = server.post(path, **{form: {**fields, "api_key": key}})
        message = "Please contact the server operator to get an API key"
        assert (response.status_code, response.json()) == (403, {"error": message})
    for key in (KEY[:-1], f"{KEY} ", "x" * 9000, "ключ"):
        response = server.post(path, **{form: {**fields, "api_key": key}})
        assert (response.status_code, response.json()) == (403, {"error": "Invalid API key"})


@pytest.mark.parametrize(
    "headers", [basic_header(KEY), basic_header(KEY, "anna"), basic_header("", KEY), {"Authorization": f"Bearer {KEY}"}]
)
def test_every_route_takes_the_key_in_the_header(server, headers, monkeypatch):
    monkeypatch.setattr("pellucid.serve.trace_routes.read_script", lambda: "export default 1;")
    assert server.post("/translate", json=request_body("Yes."), headers=headers).status_code == 200
    traced = server.post("/trace", json={"sentence": "The ball is blue."}, headers=headers)
    paths = ("/", "/pellucid.js", "/metrics", f"/trace/{traced.json()['id']}/manifest.json")
    for path in paths:
        assert server.get(path, headers=headers).status_code == 200
        assert server.head(path, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic_header(KEY[:-1]),
        basic_header(""),
        {"Authorization": "Bearer"},
        {"Authorization": "Basic é".encode("latin-1")},
    ],
)
def test_without_a_key_the_page_is_refused_so_that_a_browser_asks_for_one(server, headers):
    answers = [
        server.get(path, headers=headers) for path in ("/", "/pellucid.js", "/metrics", "/trace/x/manifest.json")
    ]
    answers.append(server.post("/trace", json={"sentence": "Yes."}, headers=headers))
    for response in answers:
        assert (response.status_code, list(response.json())) == (401, ["error"])
        assert response.headers["WWW-Authenticate"].startswith("Basic realm=")
        assert "traces are kept" not in response.text


def test_a_key_in_the_header_is_checked_before_the_body_is_read():
    with running(small_model(), ApiKeys([KEY]), arrival=0.5) as port:
        statuses = {
            key: read_status(
                port,
                f"POST /trace HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
                "Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{".encode(),
            )
            for key in (KEY[:-1], KEY)
        }
    # With a key the server waits for the rest of the body, and says that it has not come.
    assert statuses == {KEY[:-1]: b"401", KEY: b"408"}


@pytest.mark.parametrize("key", [None, "x", "\ud800", 5, [KEY]])
def test_a_key_in_the_body_is_checked_before_the_rest_of_it(server, key: object):
    fields = {"q": list(range(100)), "unknown": "\0", "api_key": key}
    response = server.post("/translate", content=json.dumps(fields), headers={"Content-Type": "application/json"})
    assert (response.status_code, "key" in response.json()["error"]) == (403, True)


def test_public_routes_need_no_key(server):
    for path in ("/health", "/languages", "/frontend/settings", "/openapi.json", "/spec"):
        assert server.get(path).status_code == 200
    settings = server.get("/frontend/settings").json()
    assert (settings["apiKeys"], settings["keyRequired"]) == (True, True)


def test_the_description_says_where_a_key_goes(server):
    description = server.get("/openapi.json").json()
    secured = {
        path for path, methods in description["paths"].items() for method in methods.values() if "security" in method
    }
    assert secured == set(description["paths"]) - {
        "/health",
        "/languages",
        "/frontend/settings",
        "/MTRestService/ListSupportedLanguagePairs",
        "/download_file/{name}",
    }
    translate = description["paths"]["/translate"]["post"]
    fields = translate["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert "key of this server" in fields["api_key"]["description"]
    assert "401" in description["paths"]["/trace"]["post"]["responses"]
    with client() as open_server:
        description = open_server.get("/openapi.json").json()
    assert "security" not in json.dumps(description)
    assert "needs no key" in json.dumps(description["paths"]["/translate"])


def test_no_answer_no_metric_and_no_log_holds_a_key(server, caplog):
    wrong = "wrong-key-that-nobody-has"
    texts = [server.post("/translate", json=request_body("Yes.", api_key=wrong)).text]
    texts.append(server.get("/", headers=basic_header(wrong)).text)
    texts.append(server.get("/metrics", headers=basic_header(KEY)).text)
    assert wrong not in "".join(texts) + caplog.text
    assert KEY not in "".join(texts)


def test_keys_are_read_from_a_file_with_comments(tmp_path: Path):
    (tmp_path / "keys").write_text(f"# Anna\n{KEY}\n\n  {OTHER}  \n")
    keys = ApiKeys.from_file(str(tmp_path / "keys"))
    assert keys
    assert [keys.find(key) for key in (KEY, OTHER, "# Anna", "")] == [0, 1, None, None]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it holds none"),
        (b"# only a comment\n", "it holds none"),
        (b"secret\n", "line 1 has 6 characters, 16 or more are needed"),
        (KEY.encode() + b"\ntwo words and more of them\n", "line 2 holds a space"),
        ("ключ-из-многих-букв".encode(), "line 1 holds a character that is not ASCII"),
        (b"\xff\xfe" * 20, "is not a text file"),
    ],
)
def test_a_file_without_usable_keys_is_refused_and_not_repeated(tmp_path: Path, content: bytes, words: str):
    (tmp_path / "keys").write_bytes(content)
    with pytest.raises(ValueError, match=words) as refusal:
        ApiKeys.from_file(str(tmp_path / "keys"))
    assert "secret\n" not in str(refusal.value)
    assert "two words" not in str(refusal.value)


def test_a_key_is_good_for_its_own_number_of_requests_a_minute():
    now = 0.0
    keys = ApiKeys({KEY: 2, OTHER: None}, lambda: now)
    with client(keys=keys) as server:

        def ask(key: str) -> int:
            return server.post("/translate", json=request_body("Yes.", api_key=key)).status_code

        assert [ask(KEY) for _ in range(3)] == [200, 200, 429]
        assert [ask(OTHER) for _ in range(3)] == [200] * 3
        assert server.get("/metrics", headers=basic_header(KEY)).status_code == 429
        now = 30.0
        assert [ask(KEY), ask(KEY)] == [200, 429]
        now = 600.0
        assert [ask(KEY) for _ in range(3)] == [200, 200, 429]


def test_a_file_of_keys_may_say_how_many_requests_each_is_good_for(tmp_path: Path):
    file = tmp_path / "keys.txt"
    file.write_text(f"# Anna\n{KEY} 1\n{OTHER}\n", encoding="utf-8")
    with client(keys=ApiKeys.from_file(str(file))) as server:
        statuses = [server.get("/metrics", headers=basic_header(key)).status_code for key in (KEY, KEY, OTHER, OTHER)]
    assert statuses == [200, 429, 200, 200]
    file.write_text(f"{KEY} often\n{OTHER} 0\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 1 holds a space, after which only .* line 2 holds a space"):
        ApiKeys.from_file(str(file))
