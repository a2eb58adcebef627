"""Clients of LibreTranslate that people use get their answers: the packages themselves, or the requests they make."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.decode.models import LINES
from tests.serve.servers import client, running, small_model

TEXT = "The ball is blue."

# As each client sends it: its name and version, the type of the body, the address, and the body.
REQUESTS = [
    (
        "npm libretranslate 1.0.1",
        "application/json",
        "/translate",
        '{"q":"The ball is blue.","source":"en","target":"es","format":"text","apiKey":""}',
    ),
    (
        "npm libretranslate-ts 0.5.12",
        "application/json",
        "/translate",
        '{"q":"The ball is blue.","source":"en","target":"es","format":"text","api_key":null}',
    ),
    (
        "npm libretranslate-ts 0.5.12, with alternatives",
        "application/json",
        "/translate",
        '{"q":"The ball is blue.","source":"en","target":"es","format":"text","api_key":null,"alternatives":2}',
    ),
    (
        "the page of LibreTranslate 1.9",
        "application/json",
        "/translate",
        '{"q":"The ball is blue.","source":"auto","target":"es","format":"text","alternatives":3,"api_key":"",'
        '"secret":"abc"}',
    ),
    (
        "libretranslatepy 2.1.4",
        "application/x-www-form-urlencoded",
        "/translate",
        "q=The+ball+is+blue.&source=en&target=es",
    ),
    (
        "deep-translator 1.11.4",
        None,
        "/translate?q=The+ball+is+blue.&source=en&target=es&format=text&api_key=k",
        "",
    ),
    (
        "Weblate",
        "application/x-www-form-urlencoded",
        "/translate",
        "api_key=&q=The+ball+is+blue.&source=en_GB&target=es",
    ),
    (
        "Mastodon",
        "application/json",
        "/translate",
        '{"q":"The ball is blue.","source":"auto","target":"es","format":"html","api_key":null}',
    ),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running(small_model()) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with client() as one:
        yield one


def translate_alone(text: str) -> str:
    return small_model().translate(text).text


@pytest.mark.parametrize(("name", "kind", "path", "body"), REQUESTS, ids=[name for name, *_ in REQUESTS])
def test_the_request_of_each_client_is_answered(server, name, kind, path, body):
    headers = {} if kind is None else {"Content-Type": kind}
    answer = server.post(path, content=body.encode(), headers=headers)
    assert (answer.status_code, answer.json()["translatedText"]) == (200, translate_alone(TEXT))


def test_ignored_fields_of_clients_are_named(server):
    named = {}
    for name, kind, path, body in REQUESTS:
        answer = server.post(path, content=body, headers={} if kind is None else {"Content-Type": kind})
        if "Pellucid-Ignored" in answer.headers:
            named[name] = answer.headers["Pellucid-Ignored"]
    assert named == {"npm libretranslate 1.0.1": "apiKey", "the page of LibreTranslate 1.9": "secret"}


def test_npm_libretranslate_ts_detects(server):
    body = '{"q":"The ball is blue.","format":"text","api_key":null}'
    answer = server.post("/detect", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()[0]["language"]) == (200, "en")
    assert answer.headers["Pellucid-Ignored"] == "format"


def test_npm_libretranslate_finds_its_languages_before_it_asks(server):
    # It refuses by itself what GET /languages does not list, with this header and no body.
    listed = server.get("/languages", headers={"Content-Type": "application/json", "Sec-Fetch-Mode": "cors"}).json()
    assert {"en", "es"} <= {language["code"] for language in listed}


# memoQ's and OmegaT's requests to OPUS-CAT, and OmegaT's to LibreTranslate: addresses as their plug-ins write them.
@pytest.mark.parametrize(
    "path",
    [
        "/MTRestService/TranslateJson?tokenCode=0&input=The%20ball%20is%20blue.&srcLangCode=eng-GB&trgLangCode=spa-ES"
        "&modelTag=",
        "/MTRestService/TranslateJson?tokenCode=0&input=The+ball+is+blue.&srcLangCode=eng&trgLangCode=spa&modelTag=x",
        "/MTRestService/TranslateJson?tokenCode=0&input=The+ball+is+blue.&srcLangCode=en&trgLangCode=es"
        "&inputIsSingleSentence=true",
        "/translate_get?q=The+ball+is+blue.&source=EN&target=ES&format=text",
    ],
)
def test_the_plug_ins_of_translators_tools_are_answered(server, path):
    answer = server.get(path)
    assert answer.status_code == 200, parse_qs(urlsplit(path).query)
    assert translate_alone(TEXT) in (answer.json().get("translation"), answer.json().get("translatedText"))


def test_libretranslatepy_itself(address):
    package = pytest.importorskip("libretranslatepy", reason="the extra dev brings libretranslatepy")
    api = package.LibreTranslateAPI(address)
    assert api.translate(LINES[0], "en", "es") == translate_alone(LINES[0])
    assert api.translate(LINES[0], "auto", "spa") == translate_alone(LINES[0])
    assert api.detect(LINES[0])[0]["language"] == "en"
    assert [language["code"] for language in api.languages()] == ["en", "es"]


def test_deep_translator_itself(address):
    package = pytest.importorskip("deep_translator", reason="the extra dev brings deep-translator")
    api = package.LibreTranslator(source="English", target="es", api_key="a-key", custom_url=address)
    assert api.translate(LINES[0]) == translate_alone(LINES[0])
    assert api.translate_batch(LINES[:3]) == [translate_alone(line) for line in LINES[:3]]


def test_the_client_of_argos_translate_itself(address):
    package = pytest.importorskip("argostranslate.apis", reason="argostranslate is not installed")
    api = package.LibreTranslateAPI(address)
    assert api.translate(LINES[0], "en", "es") == translate_alone(LINES[0])
    assert api.detect(LINES[0])[0]["language"] == "en"
    assert [language["code"] for language in api.languages()] == ["en", "es"]


def test_argos_translates_client_may_ask_for_languages_by_post(server):
    # Its urllib makes a POST of every request with a body, an empty one too.
    answer = server.post("/languages", content=b"", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.json() == server.get("/languages").json()


def test_a_key_in_the_address_lets_a_client_in_that_sends_all_there():
    from pellucid.serve.gate import ApiKeys

    key = "a-key-of-this-server-0123456789"
    with client(keys=ApiKeys([key])) as server:
        path = "/translate?q=Yes.&source=en&target=es&api_key="
        assert [server.post(path + sent).status_code for sent in (key, "other")] == [200, 403]
        both = server.post(
            path + "other", content=json.dumps({"api_key": key}), headers={"Content-Type": "application/json"}
        )
        assert both.status_code == 200
