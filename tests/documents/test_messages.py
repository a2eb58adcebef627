"""Messages of programs: only the texts are translated, and each language gets the forms of its plurals."""

import json
import re

import pytest

from pellucid.documents.readers import read_document
from pellucid.text.plural_rules import find_plural_rule, list_plural_categories
from tests.documents.steps import require_linear_steps


def translate(name: str, content: str, language: str = "es") -> str:
    """Return a file of messages with each of its texts in brackets."""
    document = read_document(name, content.encode(), ("en", language))
    return document.write([f"[{text}]" for text in document.texts], language=language).decode()


# JSON

N = "[{{n}} balls]"


def test_the_texts_of_json_are_found_under_their_keys():
    content = '{"a": "One {x}", "b": {"c": ["Two", 3, null, true, ""]}, "url": "12", "d": "go on", "e": "and/or"}'
    document = read_document("a.json", content.encode(), ("en", "es"))
    assert document.texts == ["One {x}", "Two", "go on", "and/or"]
    assert document.kept["without letters"] == 1
    assert json.loads(document.write(['"\\', "\n", "é", "d"])) == {
        **json.loads(content), "a": '"\\', "b": {"c": ["\n", 3, None, True, ""]}, "d": "é", "e": "d",
    }  # fmt: skip


def test_names_of_a_program_and_comments_stay_and_are_counted():
    content = '{"$schema": "https://x/y", "_comment": "Read me.", "a": "home.title", "b": "red_ball", "c": "homeTitle"}'
    document = read_document("a.json", content.encode(), ("en", "es"))
    assert document.texts == []
    assert document.kept["comments"] == 2
    assert document.kept["code"] == 3
    assert document.write([]) == content.encode()


def test_a_message_of_icu_whose_braces_do_not_fit_stays_and_is_counted():
    content = '{"a": "{n, plural, one {a} other {b}", "b": "{n, plural, one {a} other {b}}"}'
    document = read_document("a.json", content.encode())
    assert document.texts == ["{n, plural, one {a} other {b}}"]
    assert document.kept["other"] == 1


@pytest.mark.parametrize(
    ("language", "written"),
    [
        ("es", {"a_one": "[a ball]", "a_other": "[{{n}} balls]", "b_other": "[B]"}),
        # One thing in Russian is said as of 21, so the number has to stand there.
        ("ru", {"a_one": N, "a_other": N, "a_few": N, "a_many": N, "b_other": "[B]"}),
        ("ja", {"a_one": "[a ball]", "a_other": "[{{n}} balls]", "b_other": "[B]"}),
    ],
)  # fmt: skip
def test_a_plural_under_suffixes_gets_the_forms_of_its_language(language, written):
    content = '{\n  "a_one": "a ball",\n  "a_other": "{{n}} balls",\n  "b_other": "B"\n}\n'
    translated = translate("a.json", content, language)
    assert json.loads(translated) == written
    assert all(line.startswith('  "') for line in translated.splitlines()[1:-1])


def test_the_key_of_a_language_follows_the_translation():
    assert translate("a.json", '{"en": {"a": "One"}}') == '{"es": {"a": "[One]"}}'
    assert translate("a.json", '{"en_US": {"a": "One"}}', "pt-BR") == '{"pt_BR": {"a": "[One]"}}'
    with pytest.raises(ValueError, match=r"a\.json holds messages in 2 languages \(en, de\)"):
        translate("a.json", '{"en": {"a": "One"}, "de": {"a": "Eins"}}')


def test_resources_of_flutter_and_extensions_have_texts_and_descriptions():
    arb = '{"@@locale":"en","a":"Hi {n}","@a":{"description":"No","type":"text","placeholders":{"n":{"example":"A"}}}}'
    assert translate("a.arb", arb) == arb.replace('"en"', '"es"').replace("Hi {n}", "[Hi {n}]")
    chrome = '{"a":{"message":"Hi $N$","description":"No","placeholders":{"n":{"content":"$1","example":"Bob"}}}}'
    assert translate("messages.json", chrome) == chrome.replace("Hi $N$", "[Hi $N$]")
    assert read_document("a.json", chrome.encode()).kept["comments"] == 1
    react = '{"a":{"id":"a","defaultMessage":"Hi","description":"No"}}'
    assert translate("a.json", react) == react.replace('"Hi"', '"[Hi]"')


def test_json_keeps_its_way_of_writing():
    content = '\ufeff{ "a":"caf\\u00e9",\r\n\t"b" :"A" }\r\n'
    assert translate("a.json", content) == '\ufeff{ "a":"[caf\\u00e9]",\r\n\t"b" :"[A]" }\r\n'
    assert translate("a.json", '{"a": "é", "b": "\\ud800x"}') == '{"a": "[é]", "b": "\\ud800x"}'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": }', "a.json:1: not JSON: Expecting value at column 7"),
        ("[" * 200 + "]" * 200, "a.json has more than 100 values in one another"),
        ("[" * 100_000, "a.json is no JSON that can be read"),
        ('"a"', "a.json holds a single value"),
        ("// a\n{}", "a.json:1: not JSON"),
    ],
)
def test_json_that_cannot_be_read_is_refused_in_one_sentence(content, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_document("a.json", content.encode())


# All of them


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("a.json", lambda size: "{" + ",".join(f'"a{i}": "Text"' for i in range(size)) + "}"),
        ("a.json", lambda size: "[" + ",".join('{"one": "A", "other": "B"}' for _ in range(size)) + "]"),
        ("a.json", lambda size: '{"a": "' + "x " * size + '"}'),
        ("a.json", lambda size: '{"a": "' + "{n, plural, " * size + '"}'),
        ("a.json", lambda size: "{" + " " * size + '"a_one": "A", "a_other": "B"}'),
    ],
)
def test_the_steps_of_reading_messages_grow_with_their_size_alone(name, make):
    require_linear_steps(lambda size: translate(name, make(size), "ru"))


def test_the_categories_of_a_language_are_as_many_as_its_forms():
    for language in ("en", "ja", "ro", "cs", "sl", "ar", "cy", "lv", "he", "ru", "pl", "gd"):
        forms = find_plural_rule(language).forms
        assert language == "he" or len(list_plural_categories(language)) == forms, language
