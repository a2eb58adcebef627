"""Translators' tools that ask by GET are answered as their sources have it."""

import pytest

from pellucid.serve.gate import ApiKeys
from tests.decode.models import LINES
from tests.serve.servers import client, small_model

# OPUS-CAT's plug-in for OmegaT (Helsinki-NLP/OPUS-CAT, OpusCatTranslator.java) and its extension for browsers.
OPUS_CAT = {"input": LINES[0], "srcLangCode": "en", "trgLangCode": "es", "tokenCode": "0", "modelTag": ""}
# OmegaT's plug-in for LibreTranslate (omegat-org/omegat-libre-translate, LibreTranslate.java).
OMEGAT = {"q": LINES[0], "source": "en", "target": "es"}
REQUESTS = [("/MTRestService/TranslateJson", OPUS_CAT, "translation"), ("/translate_get", OMEGAT, "translatedText")]


@pytest.fixture(scope="module")
def server():
    with client() as one:
        yield one


@pytest.mark.parametrize(("path", "query", "name"), REQUESTS)
def test_a_text_in_the_address_is_translated(server, path, query, name):
    answer = server.get(path, params=query)
    assert (answer.status_code, answer.json()[name]) == (200, small_model().translate(LINES[0]).text)


def test_the_test_of_the_connection_lists_the_languages(server):
    assert server.get("/MTRestService/ListSupportedLanguagePairs").json() == ["en-es"]


@pytest.mark.parametrize(("path", "query", "name"), REQUESTS)
def test_what_cannot_be_translated_is_refused_in_a_sentence(server, path, query, name):
    text, source, _ = list(query)[:3]
    for wrong, status in (({source: "de"}, 422), ({text: "a" * 5001}, 422)):
        answer = server.get(path, params={**query, **wrong})
        assert (answer.status_code, list(answer.json())) == (status, ["error"])


def test_a_server_with_keys_takes_one_in_the_address():
    key = "a-key-of-this-server-0123456789"
    with client(keys=ApiKeys([key])) as server:
        for (path, query, _), field in zip(REQUESTS, ("tokenCode", "api_key"), strict=True):
            assert server.get(path, params=query).status_code == 403
            assert server.get(path, params={**query, field: key}).status_code == 200
        assert server.get("/MTRestService/ListSupportedLanguagePairs").status_code == 200
