import base64
import json
from pathlib import Path

import pytest

from pellucid.serve.keys import ApiKeys
from tests.serve.servers import asked, client

KEY, OTHER = "a-key-of-24-characters--", "another-key-of-some-more-characters"


@pytest.fixture(scope="module")
def server():
    with client(keys=ApiKeys([KEY, OTHER])) as found:
        yield found


def basic(password: str, user: str = "") -> dict[str, str]:
    """What a browser sends that was given a password."""
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


@pytest.mark.parametrize("path", ["/translate", "/detect"])
@pytest.mark.parametrize("form", ["json", "data"])
def test_clients_of_libretranslate_send_the_key_as_they_do(server, path: str, form: str):
    fields = asked("Yes.") if path == "/translate" else {"q": "Yes."}
    for key in (KEY, OTHER):
        assert server.post(path, **{form: {**fields, "api_key": key}}).status_code == 200
    for key in ("", None) if form == "json" else ("",):
        found = server.post(path, **{form: {**fields, "api_key": key}})
        said = "Please contact the server operator to get an API key"
        assert (found.status_code, found.json()) == (403, {"error": said})
    for key in (KEY[:-1], f"{KEY} ", "x" * 9000, "ключ"):
        found = server.post(path, **{form: {**fields, "api_key": key}})
        assert (found.status_code, found.json()) == (403, {"error": "Invalid API key"})


@pytest.mark.parametrize(
    "headers", [basic(KEY), basic(KEY, "anna"), basic("", KEY), {"Authorization": f"Bearer {KEY}"}]
)
def test_everything_takes_the_key_in_the_header(server, headers, monkeypatch):
    monkeypatch.setattr("pellucid.serve.page_routes.read_script", lambda: "export default 1;")
    assert server.post("/translate", json=asked("Yes."), headers=headers).status_code == 200
    traced = server.post("/trace", json={"sentence": "The ball is blue."}, headers=headers)
    paths = ("/", "/pellucid.js", "/metrics", f"/trace/{traced.json()['id']}/manifest.json")
    for path in paths:
        assert server.get(path, headers=headers).status_code == 200
        assert server.head(path, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{}, basic(KEY[:-1]), basic(""), {"Authorization": "Bearer"}, {"Authorization": "Basic é".encode("latin-1")}],
)
def test_without_a_key_the_page_and_what_it_asks_are_refused_and_a_browser_asks_for_one(server, headers):
    answers = [
        server.get(path, headers=headers) for path in ("/", "/pellucid.js", "/metrics", "/trace/x/manifest.json")
    ]
    answers.append(server.post("/trace", json={"sentence": "Yes."}, headers=headers))
    for found in answers:
        assert (found.status_code, list(found.json())) == (401, ["error"])
        assert found.headers["WWW-Authenticate"].startswith("Basic realm=")
        assert "traces are kept" not in found.text


def test_what_says_whether_a_key_is_needed_needs_none(server):
    for path in ("/health", "/languages", "/frontend/settings", "/openapi.json", "/spec"):
        assert server.get(path).status_code == 200
    settings = server.get("/frontend/settings").json()
    assert (settings["apiKeys"], settings["keyRequired"]) == (True, True)


def test_the_description_says_where_a_key_goes(server):
    described = server.get("/openapi.json").json()
    secured = {path for path, methods in described["paths"].items() for each in methods.values() if "security" in each}
    assert secured == set(described["paths"]) - {"/health", "/languages", "/frontend/settings"}
    translate = described["paths"]["/translate"]["post"]
    fields = translate["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert "key of this server" in fields["api_key"]["description"]
    assert "401" in described["paths"]["/trace"]["post"]["responses"]
    with client() as other:
        described = other.get("/openapi.json").json()
    assert "security" not in json.dumps(described)
    assert "needs no key" in json.dumps(described["paths"]["/translate"])


def test_no_answer_and_no_metric_holds_a_key(server, caplog):
    wrong = "wrong-key-that-nobody-has"
    said = [server.post("/translate", json=asked("Yes.", api_key=wrong)).text]
    said.append(server.get("/", headers=basic(wrong)).text)
    said.append(server.get("/metrics", headers=basic(KEY)).text)
    assert wrong not in "".join(said) + caplog.text
    assert KEY not in "".join(said)


def test_keys_are_read_from_a_file_with_comments(tmp_path: Path):
    (tmp_path / "keys").write_text(f"# Anna\n{KEY}\n\n  {OTHER}  \n")
    keys = ApiKeys.from_file(str(tmp_path / "keys"))
    assert keys
    assert [keys.has_key(key) for key in (KEY, OTHER, "# Anna", "")] == [True, True, False, False]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (b"", "it holds none"),
        (b"# only a comment\n", "it holds none"),
        (b"secret\n", "line 1 has 6 characters, 16 or more are needed"),
        (KEY.encode() + b"\ntwo words and more of them\n", "line 2 holds a space"),
        ("ключ-из-многих-букв".encode(), "line 1 holds a space or a character that is not ASCII"),
        (b"\xff\xfe" * 20, "is not a text file"),
    ],
)
def test_a_file_without_usable_keys_is_refused_and_not_repeated(tmp_path: Path, written: bytes, words: str):
    (tmp_path / "keys").write_bytes(written)
    with pytest.raises(ValueError, match=words) as refusal:
        ApiKeys.from_file(str(tmp_path / "keys"))
    assert "secret\n" not in str(refusal.value)
    assert "two words" not in str(refusal.value)
