"""Marks for people in documents: they stand where they were asked for, and change nothing else."""

import re
import xml.etree.ElementTree as ET

import pytest

from pellucid.localize.documents.readers import read_document
from pellucid.localize.documents.slots import Review
from tests.documents.samples import DOCX, SAMPLES, make_docx, read_zip

LOOK, REDO = Review("look", "a number is lost"), Review("redo", "words & more are <missing>")
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def write_docx(content: bytes, reviews: list[Review | None], translations: list[str] | None = None) -> str:
    """Return the text of a DOCX document that is written with marks."""
    document = read_document("a.docx", content)
    return read_zip(document.write(translations or document.texts, reviews))["word/document.xml"]


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_document_without_reviews_is_the_document_without_marks(name):
    content, _ = SAMPLES[name]
    texts = read_document(name, content, ("en", "es")).texts
    translations = [text.replace("e", "o") for text in texts]
    plain = read_document(name, content, ("en", "es")).write(translations)
    assert read_document(name, content, ("en", "es")).write(translations, [None] * len(texts)) == plain


def test_the_words_of_a_marked_paragraph_are_highlighted_and_no_others():
    document = read_document("a.docx", DOCX)
    translations = [f"{text} More." for text in document.texts]
    for place, review, colour in ((0, LOOK, "yellow"), (1, REDO, "red")):
        reviews = [review if i == place else None for i in range(len(document.texts))]
        root = ET.fromstring(write_docx(DOCX, reviews, translations))
        for number, paragraph in enumerate(root.iter(f"{W}p")):
            for run in paragraph.iter(f"{W}r"):
                found = [mark.get(f"{W}val") for mark in run.iter(f"{W}highlight")]
                assert found == ([colour] if number == place and run.find(f"{W}t") is not None else [])


@pytest.mark.parametrize(
    ("formatting", "marked"),
    [
        ("", "<w:rPr>MARK</w:rPr>"),
        ("<w:rPr/>", "<w:rPr>MARK</w:rPr>"),
        ("<w:rPr></w:rPr>", "<w:rPr>MARK</w:rPr>"),
        ("<w:rPr><w:b/><w:sz w:val='20'/></w:rPr>", "<w:rPr><w:b/><w:sz w:val='20'/>MARK</w:rPr>"),
        ("<w:rPr><w:b/><w:u w:val='single'/></w:rPr>", "<w:rPr><w:b/>MARK<w:u w:val='single'/></w:rPr>"),
        ("<w:rPr><w:b/><w:highlight w:val='green'/></w:rPr>", "<w:rPr><w:b/>MARK</w:rPr>"),
        (
            "<w:rPr><w:rPrChange w:id='1'><w:rPr><w:highlight w:val='green'/></w:rPr></w:rPrChange></w:rPr>",
            "<w:rPr>MARK<w:rPrChange w:id='1'><w:rPr><w:highlight w:val='green'/></w:rPr></w:rPrChange></w:rPr>",
        ),
    ],
)
def test_a_highlight_stands_in_its_place_among_the_formatting(formatting, marked):
    content = make_docx(f"<w:p><w:r w:rsidRPr='1'>{formatting}<w:t>One.</w:t></w:r></w:p>")
    written = write_docx(content, [REDO], ["Uno."])
    run = marked.replace("MARK", '<w:highlight w:val="red"/>')
    assert f"""<w:r w:rsidRPr='1'>{run}<w:t xml:space="preserve">Uno.</w:t></w:r>""" in written


def test_a_text_that_stays_as_it_is_can_be_marked_too():
    content = make_docx("<w:p><w:r><w:t>One.</w:t></w:r></w:p><w:p><w:r><w:t>Two.</w:t></w:r></w:p>")
    written = write_docx(content, [REDO, None])
    assert written.count('<w:highlight w:val="red"/>') == 1
    assert "".join(re.findall(r"<w:t[ >][^<]*", written)).endswith("Two.")


FIRST = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"
target-language="es" datatype="plaintext" original="a"><body>
<trans-unit id="1"><source>One.</source><target state="new" state-qualifier="mt-suggestion"/><note>By
us.</note></trans-unit>
<trans-unit id="2"><source>Old.</source><target>Viejo.</target></trans-unit>
<trans-unit id="3"><source>Three.</source></trans-unit>
<trans-unit id="4"><source>Four. Five.</source><seg-source><mrk mtype="seg" mid="1">Four.</mrk> <mrk mtype="seg"
mid="2">Five.</mrk></seg-source></trans-unit>
</body></file></xliff>"""


def test_units_of_xliff_1_get_a_qualifier_of_their_own_and_a_note_behind_the_target():
    document = read_document("a.xlf", FIRST.encode())
    assert document.texts == ["One.", "Three.", "Four.", "Five."]
    written = document.write(["Uno.", "Tres.", "Cuatro.", "Cinco."], [REDO, None, LOOK, REDO]).decode()
    name = "{urn:oasis:names:tc:xliff:document:1.2}"
    units = {unit.get("id"): unit for unit in ET.fromstring(written).iter(f"{name}trans-unit")}
    targets = {key: next(unit.iter(f"{name}target")) for key, unit in units.items()}
    assert {key: target.get("state-qualifier") for key, target in targets.items()} == {
        "1": "x-redo", "2": None, "3": None, "4": "x-redo",
    }  # fmt: skip
    assert targets["1"].get("state") == "needs-review-translation"
    notes = {key: [note.text for note in unit.findall(f"{name}note")] for key, unit in units.items()}
    assert notes == {
        "1": ["redo: words & more are <missing>", "By\nus."],
        "2": [],
        "3": [],
        "4": ["redo: a number is lost; words & more are <missing>"],
    }
    for unit in units.values():  # the order that the format asks for
        kinds = [child.tag.removeprefix(name) for child in unit]
        assert kinds == sorted(kinds, key=["source", "seg-source", "target", "note"].index)


SECOND = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="es"><file id="f">
<unit id="1"><segment><source>One.</source></segment><segment><source>Two.</source></segment></unit>
<unit id="2"><notes><note>By us.</note></notes><originalData><data id="d">x</data></originalData>
<segment state="initial"><source>Three.</source></segment></unit>
<unit id="3"><notes/><segment><source>Four.</source></segment></unit>
<unit id="4"><segment state="final"><source>Old.</source><target>Viejo.</target></segment></unit>
<unit id="5"><originalData><data id="d">x</data></originalData><segment><source>Five.</source></segment></unit>
</file></xliff>"""


def test_units_of_xliff_2_get_a_substate_of_their_segment_and_a_note_before_their_data():
    document = read_document("a.xlf", SECOND.encode())
    assert document.texts == ["One.", "Two.", "Three.", "Four.", "Five."]
    written = document.write(["Uno.", "Dos.", "Tres.", "Cuatro.", "Cinco."], [None, REDO, LOOK, LOOK, REDO]).decode()
    name = "{urn:oasis:names:tc:xliff:document:2.0}"
    units = list(ET.fromstring(written).iter(f"{name}unit"))
    states = [[(s.get("state"), s.get("subState")) for s in unit.iter(f"{name}segment")] for unit in units]
    assert states == [
        [("translated", "pellucid:machine"), ("translated", "pellucid:redo")],
        [("translated", "pellucid:look")],
        [("translated", "pellucid:look")],
        [("final", None)],
        [("translated", "pellucid:redo")],
    ]
    notes = [[(note.text, note.get("priority", "")) for note in unit.iter(f"{name}note")] for unit in units]
    redo, look = ("redo: words & more are <missing>", "1"), ("look: a number is lost", "2")
    assert notes == [[redo], [("By us.", ""), look], [look], [], [redo]]
    for unit in units:
        kinds = [child.tag.removeprefix(name) for child in unit]
        assert kinds == sorted(kinds, key=["notes", "originalData", "segment"].index)
