import copy
import dataclasses
import json
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.decode.alarms import ALARMS
from pellucid.decode.translation import Translation
from pellucid.localize.terminology import Terms
from pellucid.serve.libretranslate import STOP_ORDER, measure_known_words
from pellucid.serve.settings import Languages
from tests.decode.models import LINES, small_tokenizer
from tests.serve.servers import HeldTranslator, client, request_body, small_model


@pytest.fixture(scope="module")
def server():
    with client() as response:
        yield response


def translate_alone(text: str) -> Translation:
    """Translate one text with the model itself."""
    [translation] = small_model().translate([text])
    return translation


def test_a_text_gives_a_text_and_a_list_gives_a_list_in_its_order(server):
    answer, expected = server.post("/translate", json=request_body(LINES[0])).json(), translate_alone(LINES[0])
    written = {"translatedText": expected.text, "stop": expected.stop, "notes": list(expected.notes)}
    assert answer == written | {"alarms": list(expected.alarms)}
    list_answer = server.post("/translate", json=request_body(LINES)).json()
    assert list_answer["translatedText"] == [translation.text for translation in small_model().translate(LINES)]
    assert server.post("/translate", json=request_body([])).json()["translatedText"] == []


def test_requests_of_the_python_client_are_understood(server):
    # libretranslatepy 2.1.4 sends forms like urllib, and even GET /languages with a body.
    form = {"Content-Type": "application/x-www-form-urlencoded", "User-Agent": "Python-urllib/3.12"}
    fields = {"q": LINES[0], "source": "en", "target": "es", "api_key": "a-key"}
    response = server.post("/translate", content=urlencode(fields).encode(), headers=form)
    assert json.loads(response.text)["translatedText"] == translate_alone(LINES[0]).text
    response = server.post("/detect", content=urlencode({"q": LINES[0]}).encode(), headers=form)
    [detected] = response.json()
    assert detected == {"language": "en", "confidence": measure_known_words(small_tokenizer(), [LINES[0]])}
    response = server.request("GET", "/languages", content=b"", headers=form)
    assert [language["code"] for language in response.json()] == ["en", "es"]


def test_terms_of_the_server_and_of_a_request_apply_to_its_translation():
    server_terms = Terms.from_pairs({LINES[0].split()[0]: "123"})
    with client(terms=server_terms) as server:
        plain = server.post("/translate", json=request_body(LINES[0])).json()["translatedText"]
        assert plain == small_model().translate([LINES[0]], terms=server_terms)[0].text
        assert "123" in plain
        terms = {LINES[0].split()[0]: "456"}
        for response in (
            server.post("/translate", json=request_body(LINES[0], terms=terms)),
            server.post("/translate", data=request_body(LINES[0], terms=json.dumps(terms))),
        ):
            assert response.json()["translatedText"] == small_model().translate([LINES[0]], terms=terms)[0].text
        for wrong in ({"a": ""}, {"a": 5}, "a", ["a"]):
            answer = server.post("/translate", json=request_body(LINES[0], terms=wrong))
            assert (answer.status_code, "terms" in answer.json()["error"]) == (422, True)


def test_a_failed_text_is_reported_in_its_own_answer():
    terms = {LINES[0].split()[0]: "1 " * 80 + "1"}
    with client() as server:
        response = server.post("/translate", json=request_body([LINES[-1], LINES[0]], terms=terms)).json()
        assert response["translatedText"] == [small_model().translate(LINES[-1]).text, LINES[0]]
        assert response["stop"][1] == "failed"
        assert response["notes"][1][0].startswith("its 1 terms take ")


@pytest.mark.parametrize("path", ["/translate", "/detect"])
def test_unknown_fields_are_ignored_and_named_in_a_header(server, path):
    fields = request_body("Yes.") if path == "/translate" else {"q": "Yes."}
    plain = server.post(path, json=fields)
    assert (plain.status_code, "Pellucid-Ignored" in plain.headers) == (200, False)
    for answer in (
        server.post(path, json={**fields, "glossary": {}, "größe": None}),
        server.post(path, data={**fields, "glossary": "x", "größe": ""}),
        server.post(path, params={"glossary": "x", "größe": "", **fields}),
    ):
        assert (answer.status_code, answer.json()) == (200, plain.json())
        assert set(answer.headers["Pellucid-Ignored"].split(", ")) == {"glossary", "gr%C3%B6%C3%9Fe"}
    many = server.post(path, json={**{f"f{i}" * 9: i for i in range(7)}, **fields})
    assert many.headers["Pellucid-Ignored"].endswith("f4f4f4f4f4f4f4f4f4, and 2 more")


def test_a_misspelt_field_is_named_where_the_right_one_is_missing(server):
    answer = server.post("/translate", json={"q": "Yes.", "source": "en", "targt": "es"})
    assert (answer.status_code, answer.json()["error"]) == (422, "target: Field required (not known here: targt)")


@pytest.mark.parametrize(
    ("fields", "alternatives"),
    [
        ({"format": ""}, None),
        ({"format": None, "alternatives": None}, None),
        ({"alternatives": "2"}, 2),
        ({"alternatives": 2.9}, 2),
        ({"alternatives": -1}, None),
        ({"alternatives": ""}, None),
    ],
)
def test_empty_fields_and_numbers_as_text_are_read_as_libretranslate_reads_them(server, fields, alternatives):
    answer = server.post("/translate", json=request_body(LINES[0], **fields)).json()
    assert answer["translatedText"] == translate_alone(LINES[0]).text
    assert len(answer.get("alternatives", ())) == (alternatives or 0)


def test_fields_may_stand_in_the_address_of_a_post(server):
    expected = translate_alone(LINES[0]).text
    fields = request_body(LINES[0])
    in_address, in_body = {name: fields[name] for name in ("q", "source")}, {"target": "es"}
    for answer in (
        server.post("/translate", params=fields),
        server.post("/translate", params=fields, headers={"Content-Type": "application/json"}),
        server.post("/translate", params=fields, content=b"x", headers={"Content-Type": "text/plain"}),
        server.post("/translate", params=in_address, data=in_body),
        server.post("/translate", params=in_address, json=in_body),
        # In both: that of JSON counts, and otherwise that of the address.
        server.post("/translate", params={"q": "No."}, json=fields),
        server.post("/translate", params={"q": LINES[0]}, data={**fields, "q": "No."}),
    ):
        assert (answer.status_code, answer.json()["translatedText"]) == (200, expected)
    wrong = server.post("/translate?q=%ff&source=en&target=es")
    assert (wrong.status_code, wrong.json()["error"][:32]) == (422, "the address is not a valid form:")


def test_a_list_in_a_form_may_be_json_and_other_brackets_are_text(server):
    expected = [translate_alone(line).text for line in LINES[:2]]
    for send in ("data", "params"):
        for q in (json.dumps(LINES[:2]), LINES[:2]):
            answer = server.post("/translate", **{send: request_body(q)}).json()
            assert answer["translatedText"] == expected
        for text in ("[1] Yes.", "[]", "[1]", '["a"', '["a", 1]', "[[" * 5000):
            answer = server.post("/translate", **{send: request_body(text[:1000])}).json()
            assert answer["translatedText"] == translate_alone(text[:1000]).text
        assert server.post("/translate", **{send: request_body(json.dumps(["a"] * 65))}).status_code == 413


def test_json_is_read_by_all_its_names_and_encodings(server):
    body = json.dumps(request_body(LINES[0]))
    kinds = "application/json; charset=utf-8", "application/vnd.api+json"
    for kind in kinds:
        for content in (body.encode(), body.encode("utf-8-sig"), body.encode("utf-16")):
            answer = server.post("/translate", content=content, headers={"Content-Type": kind})
            assert (answer.status_code, answer.json()["translatedText"]) == (200, translate_alone(LINES[0]).text)


def test_a_text_asked_for_in_its_own_language_stays_as_it_is(server):
    for source, target in (("en", "en"), ("es", "spa"), ("en-GB", "eng")):
        answer = server.post("/translate", json=request_body(["Yes.", ""], source=source, target=target)).json()
        assert (answer["translatedText"], answer["stop"]) == (["Yes.", ""], ["same", "same"])
    answer = server.post("/translate", json=request_body("Yes.", target="en", alternatives=2)).json()
    assert (answer["translatedText"], answer["alternatives"]) == ("Yes.", [])
    assert server.post("/translate", json=request_body("Yes.", source="fr", target="fr")).status_code == 422


def test_a_form_in_parts_is_understood_as_browsers_and_curl_send_it(server):
    text = "¿Dónde está\r\nla casa? 😀 \x01 a=b&c"
    response = server.post("/translate", files={name: (None, str(value)) for name, value in request_body(text).items()})
    assert response.json()["translatedText"] == translate_alone(text).text


def test_a_text_in_several_lines_keeps_them(server):
    text = f"{LINES[0]}\n\n  {LINES[2]}\r\n{LINES[4]}\n"
    response = server.post("/translate", json=request_body(text)).json()["translatedText"]
    assert response == translate_alone(text).text
    assert response.count("\n") == 4


@settings(max_examples=10, deadline=None)
@given(texts=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9), max_size=5))
def test_texts_are_translated_as_each_alone(server, texts):
    response = server.post("/translate", json=request_body(texts))
    assert response.status_code == 200
    assert response.json()["translatedText"] == [translate_alone(text).text for text in texts]
    assert set(response.json()["stop"]) <= set(STOP_ORDER)


def test_alternatives_are_the_next_best_translations(server):
    response = server.post("/translate", json=request_body(LINES[:3], alternatives=3)).json()
    best = small_model().translate(LINES[:3], n_best=4)
    assert response["translatedText"] == [translation.text for translation in best]
    for alternatives, translation in zip(response["alternatives"], best, strict=True):
        assert alternatives == list(
            dict.fromkeys(
                alternative.text for alternative in translation.alternatives if alternative.text != translation.text
            )
        )
    single = server.post("/translate", json=request_body(LINES[0], alternatives=7)).json()
    assert 3 < len(single["alternatives"]) <= 7
    assert single["translatedText"] not in single["alternatives"]


def test_source_auto_reports_the_language_with_the_percentage_of_known_words(server):
    known, unknown = {"language": "en", "confidence": 100.0}, {"language": "en", "confidence": 0.0}
    for text, detected in (("the the", known), ("мяч", unknown), ("", unknown)):
        response = server.post("/translate", json=request_body(text, source="auto")).json()
        assert response["detectedLanguage"] == detected
        assert server.post("/detect", json={"q": text}).json() == [detected]
    response = server.post("/translate", json=request_body(["the the", "мяч"], source="auto")).json()
    # As LibreTranslate has it: one language for all texts of a request, with one confidence.
    assert response["detectedLanguage"] == [{"language": "en", "confidence": 66.7}] * 2
    assert server.post("/detect", json={"q": ["the the", "мяч"]}).json() == [{"language": "en", "confidence": 66.7}]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("es", "en"),
        ("en", "fr"),
        ("de", "es"),
        ("", "es"),
        ("en", "auto"),
        ("en", "es-../b"),
        ("est", "es"),
        ("en", ""),
    ],
)
def test_other_languages_are_refused(server, source: str, target: str):
    response = server.post("/translate", json=request_body("Yes.", source=source, target=target))
    assert response.status_code == 422
    assert "translates en to es" in response.json()["error"]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("en-GB", "ES"),
        ("eng", "spa"),
        ("en_US", "es_MX"),
        ("eng-GB", "spa-ES"),
        ("eng_Latn", "es-419"),
        ("auto", "ESP"),
    ],
)
def test_codes_of_languages_may_have_three_letters_regions_and_scripts(server, source: str, target: str):
    answer = server.post("/translate", json=request_body("Yes.", source=source, target=target))
    assert answer.status_code == (422 if target == "ESP" else 200)  # no code of three letters for Spanish


@pytest.mark.parametrize(
    ("languages", "requests"),
    [
        (
            Languages("zho_Hans", "pt-BR"),
            {("zh", "pt"): 200, ("zh-CN", "pb"): 200, ("zh-TW", "pt-BR"): 422, ("zt", "pt"): 422},
        ),
        (
            Languages("fre", "nb"),
            {("fr-CA", "no"): 200, ("fra_FR", "nor"): 200, ("fre-FR", "nn-NO"): 200, ("frr", "no"): 422},
        ),
    ],
)
def test_a_server_shows_usual_codes_and_takes_all_others_of_its_languages(languages, requests):
    shown = {"zho_Hans": ["zh-Hans", "pt-BR"], "fre": ["fr", "nb"]}[languages.source]
    with client(languages=languages) as server:
        for (source, target), status in requests.items():
            answer = server.post("/translate", json=request_body("Yes.", source=source, target=target))
            assert answer.status_code == status, (source, target)
        assert [language["code"] for language in server.get("/languages").json()] == shown
        assert server.post("/detect", json={"q": "Yes."}).json()[0]["language"] == shown[0]


def test_html_keeps_its_tags_and_entities(server):
    text = (
        '<p class="a">The <b>ball</b> is\nblue &amp; new.</p><!-- a note --><script>let a = "ball";</script><p>Yes.</p>'
    )
    response = server.post("/translate", json=request_body(text, format="html")).json()["translatedText"]
    tags = ['<p class="a">', "<b>", "</b>", "</p>", '<!-- a note --><script>let a = "ball";</script>', "<p>", "</p>"]
    assert [tag for tag in tags if tag in response] == tags
    assert "&" not in response.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")


def test_the_settings_are_those_that_libretranslates_page_asks_for(server):
    response = server.get("/frontend/settings").json()
    assert (response["charLimit"], response["apiKeys"], response["keyRequired"]) == (5000, False, False)
    assert response["language"]["source"] == {"code": "en", "name": "English"}
    assert response["filesTranslation"] is True
    assert ".docx" in response["supportedFilesFormat"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'"q"', "the body is 'q', expected an object"),
        (b"[" + b"1," * 10_000 + b"1]", "the body is a list of 10,001 values, expected an object"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5000, "a whole number of 5,000 digits"),
        (b'{"q": "a\\u0000b", "source": "en", "target": "es"}', "a NUL"),
        (b'{"q": ["a", "\\u0000"], "source": "en", "target": "es"}', "a NUL"),
        (b'{"q": "a", "source": "en", "target": "es", "terms": {"\\ud800": "x"}}', "surrogate"),
        (b'{"q": "a", "source": "en", "target": "es", "alternatives": ' + b"9" * 4000 + b"}", "4,000 digits"),
        (b'{"q": "\xff"}', "not JSON"),
        (b'{"q": "\\ud800", "source": "en", "target": "es"}', "surrogate"),
        (b'{"q": "Yes."}', "source: Field required; target: Field required"),
        (b'{"q": 5, "source": "en", "target": "es"}', "q"),
        (b'{"q": ["a", 5], "source": "en", "target": "es"}', "q"),
        (b'{"q": "a", "source": "en", "target": "es", "format": "pdf"}', "format"),
        (b'{"q": "a", "source": "en", "target": "es", "alternatives": 8}', "alternatives"),
        (b'{"q": "a", "source": "en", "target": "es", "alternatives": "-966246220987399"}', "at most 9 characters"),
        (b'{"q": "a", "source": "en", "target": "es", "alternatives": true}', "alternatives"),
        (b'{"q": "a", "source": "en", "target": "es", "alternatives": 1e400}', "alternatives"),
        (b'{"q": "a", "source": "en", "target": "es", "alternatives": "two"}', "alternatives"),
    ],
)
def test_a_hostile_body_is_refused_with_a_sentence(server, body: bytes, words: str):
    response = server.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 422
    assert words in response.json()["error"]
    assert "Traceback" not in response.text
    assert len(response.text) < 300


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/x-www-form-urlencoded", b"q=%ff&source=en&target=es"),
        ("application/x-www-form-urlencoded", b"q=\xff&source=en&target=es"),
        ("application/x-www-form-urlencoded", b"&".join([b"q=a"] * 2000)),
        ("application/x-www-form-urlencoded", b"q=a%00b&source=en&target=es"),
        ("application/x-www-form-urlencoded", b"q=a&source=en&target=es&alternatives=" + b"9" * 4000),
        ("multipart/form-data", b"q=a"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\n"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n\xff\r\n--x--'),
        ("multipart/form-data; boundary=" + "x" * 900, b"--x--"),
    ],
)
def test_an_invalid_form_is_refused_with_a_sentence(server, kind: str, body: bytes):
    response = server.post("/translate", content=body, headers={"Content-Type": kind})
    assert (response.status_code, list(response.json())) == (422, ["error"])
    assert len(response.text) < 300


@pytest.mark.parametrize("kind", ["", "text/plain", "application/xml", "application/json;", "json"])
def test_a_body_of_another_type_is_refused(server, kind: str):
    response = server.post("/translate", content=json.dumps(request_body("Yes.")), headers={"Content-Type": kind})
    assert response.status_code == (200 if kind == "application/json;" else 415)


def test_a_model_without_named_languages_accepts_any():
    with client(languages=None) as server:
        assert server.post("/translate", json=request_body("Yes.", source="de", target="gn")).status_code == 200
        assert [language["code"] for language in server.get("/languages").json()] == ["x-source", "x-target"]
        assert (
            server.post("/translate", json=request_body("Yes.", source="x-source", target="x-target")).status_code
            == 200
        )


@pytest.mark.parametrize("target", ["a/b", "../..", "auto", "Spanish", "es-", "", "es\ten"])
def test_a_model_without_named_languages_refuses_a_target_that_is_no_code_before_it_translates(target: str):
    held = HeldTranslator()
    with client(held.model, languages=None) as server:
        form = {"source": "en", "target": target}
        refusals = [
            server.post("/translate", json={"q": "Yes.", **form}),
            server.post("/translate_file", data=form, files={"file": ("a.txt", "Yes.")}),
        ]
        for refusal in refusals:
            assert refusal.status_code == 422
            assert refusal.json()["error"].startswith(f"target: {target!r} is not a language code")
    assert held.translated == []


def test_the_server_still_works_after_a_mistake(server):
    with client() as other_server:
        response = other_server.post("/translate", json=request_body("Yes.", target="xx"))
        assert response.status_code == 422
    assert server.get("/health").json() == {"status": "ok"}


def test_missing_sentences_are_told_only_where_there_are_any():
    def lose_sentences(lines, config, first_line=1, **more):
        return [
            dataclasses.replace(translation, missing_sentences=line.count(". "), notes=("a note",) * line.count(". "))
            for line, translation in zip(lines, small_model().translator.translate(lines, config), strict=True)
        ]

    translator = copy.copy(small_model().translator)
    translator.translate = lose_sentences
    with client(dataclasses.replace(small_model(), translator=translator)) as server:
        lossy = server.post("/translate", json=request_body("Yes. No. Yes.")).json()
        assert (lossy["missing_sentences"], lossy["notes"]) == (2, ["a note"])
        assert "missing_sentences" not in server.post("/translate", json=request_body("Yes.")).json()
        several = server.post("/translate", json=request_body(["Yes.", "Yes. No."])).json()
        assert (several["missing_sentences"], several["notes"]) == ([0, 1], [[], ["a note"]])
        assert "missing_sentences" not in server.post("/translate", json=request_body(["Yes.", "No."])).json()
        # A page of HTML has the sum of its texts.
        page = server.post("/translate", json=request_body("<p>Yes. No.</p><p>No. Yes.</p>", format="html")).json()
        assert page["missing_sentences"] == 2
        # What clients of LibreTranslate read is there as before, by GET too.
        assert {"translatedText", "stop", "notes"} <= lossy.keys()
        address = "/translate_get?q=Yes.%20No.&source=en&target=es"
        assert server.get(address).json()["missing_sentences"] == 1
        fields = server.get("/openapi.json").json()["components"]["schemas"]["Translated"]["properties"]
        assert fields["missing_sentences"]["description"].startswith("how many sentences fewer than the text")


def test_alarms_of_a_text_are_those_of_its_sentences_each_once():
    def raise_alarms(lines, config, first_line=1, **more):
        return [
            dataclasses.replace(translation, alarms=("copy", "numbers") if "No" in line else ("empty",) * ("?" in line))
            for line, translation in zip(lines, small_model().translator.translate(lines, config), strict=True)
        ]

    translator = copy.copy(small_model().translator)
    translator.translate = raise_alarms
    with client(dataclasses.replace(small_model(), translator=translator)) as server:
        assert server.post("/translate", json=request_body("No.")).json()["alarms"] == ["copy", "numbers"]
        assert server.post("/translate", json=request_body(["Yes.", "No."])).json()["alarms"] == [
            [],
            ["copy", "numbers"],
        ]
        page = server.post("/translate", json=request_body("<p>No.</p><p>Yes?</p><p>No.</p>", format="html")).json()
        assert page["alarms"] == ["empty", "copy", "numbers"]
        fields = server.get("/openapi.json").json()["components"]["schemas"]["Translated"]["properties"]
        assert all(f'"{name}"' in fields["alarms"]["description"] for name in ALARMS)
