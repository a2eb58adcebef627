"""Messages of programs: only the texts are translated, and each language gets the forms of its plurals."""

import json
import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from pellucid.data.text.plural_rules import find_plural_rule, list_plural_categories
from pellucid.localize.documents.readers import read_document
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


def test_a_key_that_is_a_word_and_the_code_of_another_language_stays():
    document = read_document("a.json", b'{"my": {"title": "My house"}}', ("en", "es"))
    assert document.write(["Mi casa"], language="es") == b'{"my": {"title": "Mi casa"}}'
    document = read_document("a.json", b'{"en": {"comment": "Comment"}}', ("en", "es"))
    assert document.write(["Comentario"], language="es") == b'{"es": {"comment": "Comentario"}}'


def test_plain_messages_beside_described_ones_are_translated_too():
    document = read_document("a.json", b'{"a": {"defaultMessage": "Hello"}, "b": "World"}', ("en", "es"))
    assert document.texts == ["Hello", "World"]


def test_halves_of_a_character_in_androids_texts_are_one():
    text = (
        b"<resources><string name='a'>\\uD83D\\uDE00 Hello</string><item type='string' name='b'>Yes</item></resources>"
    )
    document = read_document("a.xml", text, ("en", "es"))
    assert document.texts == ["\U0001f600 Hello", "Yes"]
    written = document.write(["\U0001f600 Hola", "S\u00ed"]).decode()
    assert "\U0001f600 Hola<" in written


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


# YAML


def test_texts_of_yaml_are_those_that_a_loader_calls_strings():
    content = (
        "a: One\nb: 12\nc: true\nd: 2020-01-02\ne: ~\nf: '12 balls'\ng: !!str 12 cats\nh: !ruby/sym x\ni: [Two, 3]\n"
    )
    assert read_document("a.yml", content.encode()).texts == ["One", "12 balls", "12 cats", "Two"]


def test_yaml_of_rails_is_in_the_language_of_the_translation():
    content = "# Yes.\nen-US:\n  a: One  # here\n  b: &x Two\n  c: *x\n  d: ['It''s', \"x\\ty\"]\n"
    expected = content.replace("en-US", "pt-BR").replace("One", "[x]").replace("Two", "[x]")
    document = read_document("a.yml", content.encode(), ("en", "pt-br"))
    written = document.write(["uno", "dos", "l'a", "x\ty"], language="pt-br").decode()
    assert written == expected.replace("[x]", "uno", 1).replace("[x]", "dos").replace("It's", "l''a").replace(
        "It''s", "l''a"
    )
    assert translate("a.yml", "en:\n  a: A\n", "nb") == 'nb:\n  a: "[A]"\n'
    # Norwegian without its kind is "no", which YAML reads as false where it has no quotes.
    assert translate("a.yml", "en:\n  a: A\n", "no") == '"no":\n  a: "[A]"\n'


@pytest.mark.parametrize(
    ("language", "categories"),
    [("es", ["one", "other"]), ("pl", ["one", "other", "few", "many"]), ("ja", ["one", "other"])],
)
def test_a_plural_of_rails_gets_the_forms_of_its_language(language, categories):
    content = 'en:\n  balls:\n    one: "%{count} ball"\n    other: "%{count} balls"  # more\n  end: End\n'
    written = yaml.safe_load(translate("a.yml", content, language))[language]
    assert list(written["balls"]) == categories
    assert written["end"] == "[End]"


STYLES = [
    "a: Text\nb: x",
    "a: 'Text'\nb: x",
    'a: "Text"\nb: x',
    "{a: Text, b: x}",
    "a: |\n  Text\n\nb: x",
    "a: >-\n  Text\nb: x",
    "a: |+2\n  Text\nb: x",
]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(STYLES),
    st.text(st.sampled_from("aé 😀'\"\\:#-[]{},&*!|>%@`?=~0\u2028\x85\n\t"), min_size=1, max_size=12),
)
def test_a_translation_in_yaml_is_read_as_it_was_given(content, translation):
    document = read_document("a.yml", content.encode(), ("en", "es"))
    translations = [translation if text.strip() == "Text" else text for text in document.texts]
    written = yaml.safe_load(document.write(translations))
    assert written["b"] == "x"
    given_text, read_text = translation, written["a"]
    if "|" in content or ">" in content:
        # Around and inside blocks, white space is layout.
        given_text, read_text = ("".join(text.split()) for text in (translation, read_text))
    assert read_text == (given_text if "|+2" not in content else "Text")


def test_yaml_that_cannot_be_read_is_refused_in_one_sentence():
    for content, message in (
        ("a: [", "a.yml:2: not YAML"),
        ("a: b: c", "a.yml:1: not YAML: mapping values are not allowed"),
        ("[" * 200, "a.yml has more than 100 values in one another"),
        ("a: \x07", "not YAML"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)) as refusal:
            read_document("a.yml", content.encode())
        assert "\n" not in str(refusal.value)


# Android


def test_android_texts_are_read_and_written_with_their_escapes():
    content = (
        '<resources xmlns:tools="http://schemas.android.com/tools" tools:locale="en">\n'
        "<string name='a'>Tom\\'s  \n  cat\\u0021 &lt;%1$s></string>"
        '<string name="b">"  It\'s here "</string>'
        '<string name="c"><![CDATA[<a href="x">Here</a>]]></string>'
        '<string name="d">\\@home</string><string name="e">@string/a</string></resources>'
    )
    document = read_document("strings.xml", content.encode(), ("en", "es"))
    assert document.texts == ["Tom's cat! <%1$s>", "It's here", '<a href="x">Here</a>', "@home"]
    assert document.kept["code"] == 1
    translations = ['l\'a "%1$s" & \\', "\n", '<a href="x">Aquí</a>', "@casa"]
    written = document.write(translations, language="es").decode()
    assert 'tools:locale="es"' in written
    assert "<string name='a'>l\\'a \\\"%1$s\\\" &amp; \\\\</string>" in written
    assert '<string name="b">"  \\n "</string>' in written
    assert '<![CDATA[<a href="x">Aquí</a>]]>' in written
    assert ">\\@casa<" in written
    assert read_document("strings.xml", written.encode()).texts == [translations[0], translations[2], translations[3]]


def show_as_android(xml: str) -> list[str]:
    """Return what Android shows of each string: it drops white space outside quotation marks, and these."""
    shown = []
    for element in etree.fromstring(xml.encode()):
        raw = "".join(element.itertext()).strip()
        out, is_quoted, i = "", False, 0
        while i < len(raw):
            if raw[i] == "\\":
                length = 6 if raw[i + 1] == "u" else 2
                out += chr(int(raw[i + 2 : i + 6], 16)) if length == 6 else {"n": "\n"}.get(raw[i + 1], raw[i + 1])
                i += length
                continue
            if raw[i] == '"':
                is_quoted = not is_quoted
            elif not raw[i].isspace() or is_quoted:
                out += raw[i]
            elif not raw[i - 1].isspace():
                out += " "
            i += 1
        shown.append(out)
    return shown


@pytest.mark.parametrize(
    ("raw", "text", "shown"),
    [
        ('"  quoted   spaces "', "quoted <0/>spaces", "  quoted   spaces "),
        ("a   b\n    c", "a b c", "a b c"),
        ("  a  ", "a", "a"),
        ('x "  in  " y', "x <0/>in <1/>y", "x   in   y"),
        ('"a   b" c "  d"', "a <0/>b c <1/>d", "a   b c   d"),
        ("\\u0020a", "a", " a"),
        ("a\\u0020\\u0020b\\u0020", "a <0/>b", "a  b "),
        ("&quot;a  b&quot;", "a <0/>b", "a  b"),
        ('a <b>" b "</b>', "a <0> b </0>", "a  b "),
        ('"a\n  b"', "a\n <0/>b", "a\n  b"),
        ('<![CDATA["a  b"]]>', '"a <0/>b"', "a  b"),
        ("<![CDATA[a  b]]>", "a b", "a b"),
        ('"it\'s"', "it's", "it's"),
        ('it\\\'s \\"a\\"', 'it\'s "a"', 'it\'s "a"'),
    ],
)
def test_android_shows_as_many_spaces_of_a_translation_as_of_the_text(raw, text, shown):
    content = f'<resources><string name="a">{raw}</string></resources>'
    assert show_as_android(content) == [shown]
    document = read_document("a.xml", content.encode(), ("en", "es"))
    assert document.texts == [text]
    assert document.write([text]).decode() == content
    assert show_as_android(document.write([text.upper()]).decode()) == [shown.upper()]


def test_a_text_of_android_with_very_many_spaces_is_read():
    content = f'<resources><string name="a">"{"a   " * 3000}"</string></resources>'
    document = read_document("a.xml", content.encode(), ("en", "es"))
    assert len(re.findall(r"<\d+/>", document.texts[0])) == 200
    assert show_as_android(document.write([document.texts[0].upper()]).decode()) == ["A   " * 3000]


@pytest.mark.parametrize(
    ("language", "quantities", "one"),
    [
        ("es", ["one", "other"], "[One ball]"),
        ("ru", ["one", "other", "few", "many"], "[%d balls]"),
        ("pl", ["one", "other", "few", "many"], "[One ball]"),
    ],
)
def test_a_plural_of_android_gets_the_quantities_of_its_language(language, quantities, one):
    content = (
        '<resources>\n  <plurals name="a">\n    <item quantity="one">One ball</item>\n'
        '    <item quantity="other">%d balls</item>\n  </plurals>\n</resources>\n'
    )
    items = etree.fromstring(translate("a.xml", content, language).encode()).findall(".//item")
    assert [item.get("quantity") for item in items] == quantities
    assert [item.text for item in items] == [one, *["[%d balls]"] * (len(quantities) - 1)]


def test_what_android_does_not_translate_is_counted():
    content = (
        '<resources><string name="a" translatable="false">A</string><string name="b">?attr/b</string><dimen>A</dimen>'
        '<string-array name="c" translatable="false"><item>A</item><item>B</item></string-array></resources>'
    )
    document = read_document("a.xml", content.encode(), ("en", "es"))
    assert document.texts == []
    assert document.kept["protected"] == 3
    assert document.kept["code"] == 1
    with pytest.raises(ValueError, match=r"begins with <svg>; of files that end in \.xml, only the texts of Android"):
        read_document("a.xml", b"<svg/>")


# Qt

TS = '<!DOCTYPE TS><TS version="2.1"{}><context><name>A</name>{}</context></TS>'
MESSAGE = "<message{}><source>{}</source>{}</message>"


def test_only_translations_that_are_missing_are_filled_and_they_stay_unfinished():
    messages = (
        MESSAGE.format("", "One", '<translation type="unfinished"/>'),
        MESSAGE.format("", "Two", "<translation>Dos</translation>"),
        MESSAGE.format("", "Three", '<translation type="unfinished">Tres</translation>'),
        MESSAGE.format("", "Four", '<translation type="vanished"></translation>'),
        MESSAGE.format("", "A &amp; B", ""),
    )
    content = TS.format(' language="es_MX"', "".join(messages))
    document = read_document("a.ts", content.encode(), ("en", "es"))
    assert document.texts == ["One", "A & B"]
    assert document.kept["translated"] == 2
    assert document.kept["other"] == 1
    written = document.write(["<Uno>", "A y B"]).decode()
    expected = content.replace(
        '<translation type="unfinished"/>', '<translation type="unfinished">&lt;Uno&gt;</translation>'
    )
    added = '<source>A &amp; B</source><translation type="unfinished">A y B</translation>'
    assert written == expected.replace("<source>A &amp; B</source>", added)


@pytest.mark.parametrize(("language", "forms"), [("es", 2), ("ru", 3), ("ja", 1), ("ar", 6)])
def test_a_file_without_a_language_gets_it_and_its_forms_of_plurals(language, forms):
    plural = MESSAGE.format(
        ' numerus="yes"', "%n", '<translation type="unfinished"><numerusform></numerusform></translation>'
    )
    root = etree.fromstring(translate("a.ts", TS.format("", plural.replace("%n", "%n balls")), language).encode())
    assert root.get("language") == language
    assert [form.text for form in root.iter("numerusform")] == ["[%n balls]"] * forms


def test_a_file_of_qt_between_other_languages_is_refused():
    done = MESSAGE.format("", "One", "<translation>Eins</translation>")
    with pytest.raises(ValueError, match=r"a\.ts is translated into de, as it says, not es"):
        translate("a.ts", TS.format(' language="de"', done))
    with pytest.raises(ValueError, match=r"a\.ts translates fr, as it says, not en"):
        translate("a.ts", TS.format(' sourcelanguage="fr"', done))
    with pytest.raises(ValueError, match=r"a\.ts holds no messages of Qt"):
        translate("a.ts", "export const a: number = 1;\n")


# All of them


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("a.json", lambda size: "{" + ",".join(f'"a{i}": "Text"' for i in range(size)) + "}"),
        ("a.json", lambda size: "[" + ",".join('{"one": "A", "other": "B"}' for _ in range(size)) + "]"),
        ("a.json", lambda size: '{"a": "' + "x " * size + '"}'),
        ("a.json", lambda size: '{"a": "' + "{n, plural, " * size + '"}'),
        ("a.yml", lambda size: "en:\n" + "".join(f"  a{i}: Text\n" for i in range(size))),
        ("a.yml", lambda size: "- {one: A, other: B}\n" * size),
        ("a.yml", lambda size: "- one: A\n  other: B\n" * size),
        ("a.yml", lambda size: "a: &x\n  - Text\n" + "b: *x\n" * size),
        ("a.yml", lambda size: "a: |\n" + "  Text\n" * size),
        ("a.yml", lambda size: "# Text\n" * size + "a: Text"),
        ("a.xml", lambda size: "<resources>" + '<string name="a">A <b>b</b></string>' * size + "</resources>"),
        (
            "a.xml",
            lambda size: "<resources><plurals>" + '<item quantity="other">A</item>' * size + "</plurals></resources>",
        ),
        ("a.ts", lambda size: TS.format("", MESSAGE.format("", "A", "") * size)),
        ("a.ts", lambda size: TS.format("", "<message>" + "<source>A</source>" * size + "</message>")),
        ("a.json", lambda size: "{" + " " * size + '"a_one": "A", "a_other": "B"}'),
    ],
)
def test_the_steps_of_reading_messages_grow_with_their_size_alone(name, make):
    require_linear_steps(lambda size: translate(name, make(size), "ru"))


def test_the_categories_of_a_language_are_as_many_as_its_forms():
    for language in ("en", "ja", "ro", "cs", "sl", "ar", "cy", "lv", "he", "ru", "pl", "gd"):
        forms = find_plural_rule(language).forms
        assert language == "he" or len(list_plural_categories(language)) == forms, language
