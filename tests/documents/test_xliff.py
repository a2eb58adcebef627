"""Laws of translators' files: what is translated in them is what nobody has translated, and all else stays."""

import xml.etree.ElementTree as ET

import pytest

from pellucid.localize.documents.readers import read_document
from tests.documents.samples import MQXLIFF, MXLIFF, SDLXLIFF

EN_ES = ("en", "es")
FIRST = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" source-language="en" '
    'target-language="es" datatype="x"><body>{}</body></file></xliff>'
)
SECOND = (
    '<xliff version="2.1" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="es"><file id="f">{}'
    "</file></xliff>"
)
MEMORY = '<tmx version="1.4"><header srclang="en"/><body>{}</body></tmx>'


def translate(name: str, text: str | bytes) -> tuple[list[str], str, dict[str, int]]:
    """Return the texts of a document, the document with these in capitals, and the counts of what stays."""
    content = text if isinstance(text, bytes) else text.encode()
    document = read_document(name, content, EN_ES)
    written = document.write([text.upper() for text in document.texts]).decode()
    ET.fromstring(written.removeprefix("\ufeff"))
    return document.texts, written, {kind: count for kind, count in document.kept.items() if count}


def unit(source: str, target: str = "", attributes: str = "") -> str:
    return f'<trans-unit id="1" {attributes}><source>{source}</source>{target}</trans-unit>'


def segment(source: str, target: str = "", attributes: str = "") -> str:
    return f"<unit id='1'><segment {attributes}><source>{source}</source>{target}</segment></unit>"


@pytest.mark.parametrize(
    "target",
    [
        "<target/>",
        "<target> </target>",
        '<target><g id="1"></g></target>',
        '<target><g id="1"><g id="2"/></g> <x id="3"/></target>',
        "<target><!-- nobody yet --></target>",
        '<target><bpt id="1">[b]</bpt><ept id="1">[/b]</ept></target>',
        '<target><mrk mtype="seg" mid="0"/></target>',
    ],
)
def test_marks_codes_and_comments_alone_are_no_translation(target: str):
    texts, written, _ = translate("a.xlf", FIRST.format(unit("One.", target)))
    assert texts == ["One."]
    assert '<target state="needs-review-translation">ONE.</target>' in written


def test_a_half_translated_unit_keeps_what_it_has_and_gets_the_rest():
    source = '<seg-source><mrk mtype="seg" mid="a">One.</mrk> <mrk mtype="seg" mid="b">Two.</mrk>\t'
    source += '<ph id="1">code</ph><mrk mtype="seg" mid="c">Three.</mrk></seg-source>'
    middle = (
        '<target><g id="1"><mrk mtype="seg" mid="a">Uno.</mrk></g> <mrk mtype="seg" mid="c"><!-- --></mrk></target>'
    )
    texts, written, kept = translate("a.xlf", FIRST.format(unit("One. Two. Three.", source + middle)))
    assert texts == ["Two.", "Three."]
    assert (
        '<target state="needs-review-translation"><g id="1"><mrk mtype="seg" mid="a">Uno.</mrk></g> '
        '<mrk mtype="seg" mid="b">TWO.</mrk> <mrk mtype="seg" mid="c">THREE.</mrk></target>'
    ) in written
    assert kept == {"translated": 1}


def test_protected_text_stays_in_its_mark_and_is_translated_again_inside_that():
    for name, frame, make, mark in (
        ("a.xlf", FIRST, unit, 'mtype="protected"'),
        ("a.xlf", SECOND, segment, 'id="m" translate="no"'),
    ):
        inside = f'The <mrk {mark}>Black <pc id="1">Cat</pc></mrk> is blue.'
        texts, written, kept = translate(name, frame.format(make(inside)))
        assert texts == ["The <0/> is blue."]
        assert f'>THE <mrk {mark}>Black <pc id="1">Cat</pc></mrk> IS BLUE.</target>' in written
        assert kept == {"protected": 1}
    again = 'Press <mrk id="m" translate="no">F1 <mrk id="n" translate="yes">or so</mrk></mrk>.'
    texts, written, _ = translate("a.xlf", SECOND.format(segment(again)))
    assert texts == ["Press <0/>.", "or so"]
    assert 'PRESS <mrk id="m" translate="no">F1 <mrk id="n" translate="yes">OR SO</mrk></mrk>.</target>' in written
    stretch = 'The <sm id="m" translate="no"/>Black Cat<em startRef="m"/> is blue.'
    assert translate("a.xlf", SECOND.format(segment(stretch)))[0] == ["The <0/> is blue."]


def test_what_is_said_innermost_about_translation_counts():
    inner = segment("One.").replace("<unit ", '<unit translate="yes" ')
    groups = f'<group id="g" translate="no">{inner}{segment("Two.")}</group>{segment("Three.")}'
    texts, _, kept = translate("a.xlf", SECOND.format(groups))
    assert texts == ["One.", "Three."]
    assert kept == {"protected": 1}
    inner = unit("One.", attributes='translate="yes"')
    groups = f'<group translate="no">{inner}{unit("Two.")}</group>'
    assert translate("a.xlf", FIRST.format(groups))[0] == ["One."]


def test_texts_inside_codes_are_translated_as_texts_of_their_own():
    code = '<bpt id="1">&lt;a title="<sub>A title</sub>"></bpt>here<ept id="1">&lt;/a></ept>'
    texts, written, _ = translate("a.xlf", FIRST.format(unit(f"Look {code}.")))
    assert texts == ["Look <0>here</0>.", "A title"]
    assert 'LOOK <bpt id="1">&lt;a title="<sub>A TITLE</sub>"></bpt>HERE<ept id="1">' in written
    memory = MEMORY.format(f'<tu><tuv xml:lang="en"><seg>{code.replace("id=", "i=")}</seg></tuv></tu>')
    assert translate("a.tmx", memory)[0] == ["<0>here</0>", "A title"]


def test_an_empty_segment_stays_as_it_is_and_so_does_the_header_of_a_catalogue():
    for name, text in (
        ("a.xlf", SECOND.format(segment("", "<target/>") + segment('<ph id="1"/>'))),
        ("a.xlf", FIRST.format(unit("Language: en", attributes='restype="x-gettext-domain-header"') + unit(""))),
    ):
        texts, written, _ = translate(name, text)
        assert not texts
        assert written == text


def test_the_state_of_a_new_target_is_written_in_the_way_of_the_program_whose_file_it_is():
    _, written, kept = translate("a.sdlxliff", SDLXLIFF)
    assert '<g id="1"><mrk mtype="seg" mid="2">THE <x id="3"/>HOUSE.</mrk></g> <mrk mtype="seg" mid="3">YES.' in written
    assert '<sdl:seg id="1" conf="Translated" origin="interactive"/>' in written
    for name in ("2", "3"):
        assert f'<sdl:seg id="{name}" conf="Draft" origin="mt" origin-system="pellucid"' in written
    assert " state=" not in written
    assert kept == {"translated": 1, "protected": 2}

    _, written, kept = translate("a.mqxliff", MQXLIFF)
    assert '<trans-unit id="1" mq:status="MachineTranslated">' in written
    assert '<target xml:space="preserve">THE <bpt id="1" ctype="bold">{}</bpt>RED<ept' in written
    assert kept == {"translated": 1, "protected": 1}

    _, written, kept = translate("a.mxliff", MXLIFF)
    assert '<trans-unit id="a:0" m:confirmed="0" m:trans-origin="mt">' in written
    assert "<target>THE {1&gt;RED&lt;1} BALL{2}IS HERE.</target>" in written
    assert kept == {"translated": 1}


def test_a_variant_of_a_memory_that_is_there_and_empty_is_filled():
    source = '<tu><tuv xml:lang="en-US"><seg>One.</seg></tuv>{}</tu>'
    for empty in (
        '<tuv xml:lang="ES"><seg></seg></tuv>',
        "<tuv creationid='x' lang='es-MX'><seg/></tuv>",
        '<tuv xml:lang="es"><seg> <ph/></seg></tuv>',
        '<tuv xml:lang="es"><prop type="x">y</prop></tuv>',
        '<tuv xml:lang="es"/>',
    ):
        texts, written, _ = translate("a.tmx", MEMORY.format(source.format(empty)))
        assert texts == ["One."]
        assert written.count("<tuv") == 2
        assert "<seg>ONE.</seg></tuv></tu>" in written
    full = '<tuv xml:lang="es"><seg/></tuv><tuv xml:lang="es-MX"><seg>Uno.</seg></tuv>'
    assert translate("a.tmx", MEMORY.format(source.format(full)))[2] == {"translated": 1}


def test_characters_that_xml_cannot_hold_are_left_out_and_counted_and_all_else_stays():
    for bad in ("&#x1F;", "&#2;", "\x02", "\ufffe", "&#xD83D;"):
        text = FIRST.format(unit(f"The c{bad}at.") + unit("Old.", f"<target>Vi{bad}ejo.</target>"))
        texts, written, kept = translate("a.xlf", text)
        assert texts == ["The cat."]
        assert "<target>Viejo.</target>" in written
        assert kept == {"translated": 1, "unfit characters": 2}
    text = FIRST.format(unit("Smile &#xD83D;&#xDE00;&#x0B;now"))
    assert translate("a.xlf", text)[0] == ["Smile 😀 now"]


def test_a_document_in_another_encoding_than_it_names_is_refused_in_a_sentence():
    for named, encoding in (("iso-8859-1", "utf-8"), ("UTF-8", "iso-8859-1")):
        content = f'<?xml version="1.0" encoding="{named}"?>' + FIRST.format(unit("Señor."))
        with pytest.raises(ValueError, match="encoding") as caught:
            read_document("a.xlf", content.encode(encoding), EN_ES)
        assert named in str(caught.value)
