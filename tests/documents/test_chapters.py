"""Chapters of documents: they begin at the largest headings of which there are several."""

import pytest

from pellucid.localize.documents.chapters import divide_chapters
from pellucid.localize.documents.readers import read_document
from tests.documents.samples import make_docx, make_odt


def titles(chapters) -> list[tuple[str, int]]:
    """Return the title of each chapter and how many texts it has."""
    return [(chapter.title, len(chapter.places)) for chapter in chapters]


@pytest.mark.parametrize("levels", [[], [0], [1], [0] * 25, [1, 0, 0, 2, 0, 2, 0], [3, 0, 3, 2, 0, 0, 2], [0, 1, 1, 5]])
@pytest.mark.parametrize("start", [0, 7])
def test_chapters_hold_every_text_once_and_in_order(levels, start):
    chapters = divide_chapters([f"Text {i}" for i in range(len(levels))], levels, start)
    places = [place for chapter in chapters for place in chapter.places]
    assert places == list(range(start, start + len(levels)))


def test_a_title_divides_nothing_and_smaller_headings_stay_inside():
    texts = ["Title", "Preface", "It is late.", "Storm", "A detail", "We go.", "End"]
    chapters = divide_chapters(texts, [1, 2, 0, 2, 3, 0, 2])
    assert titles(chapters) == [("Title", 1), ("Preface", 2), ("Storm", 3), ("End", 1)]


def test_text_before_the_first_heading_and_text_without_headings_is_named_by_its_numbers():
    texts = [f"Text {i}" for i in range(23)]
    assert titles(divide_chapters(texts, [0] * 23)) == [
        ("texts 1 to 10", 10),
        ("texts 11 to 20", 10),
        ("texts 21 to 23", 3),
    ]
    assert titles(divide_chapters(texts, [0, 0, 1, *[0] * 18, 1, 0]))[0] == ("texts 1 to 2", 2)


def test_the_headings_of_a_page_are_found_whatever_is_inside_them():
    page = (
        "<h1>My book</h1><p>By me.</p><H2 class='a'>The <b>storm</b></H2><p>Rain.</p><p>Wind.</p>"
        "<h2><a href='#'>The calm</a></h2><div>Sun.</div>"
    )
    chapters = read_document("a.html", page.encode()).chapters
    assert titles(chapters) == [("My book", 2), ("The storm", 3), ("The calm", 2)]


def word_paragraph(text: str, properties: str = "") -> str:
    """Return a paragraph of DOCX."""
    return f"<w:p>{properties and f'<w:pPr>{properties}</w:pPr>'}<w:r><w:t>{text}</w:t></w:r></w:p>"


def test_the_headings_of_a_docx_are_found_by_their_styles_in_any_language_and_by_their_own_level():
    styles = (
        '<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="Mine"><w:name w:val="Mine"/><w:basedOn w:val="berschrift1"/></w:style>'
        '<w:style w:styleId="Own"><w:name w:val="Own"/><w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>'
        '<w:style w:styleId="Plain"><w:name w:val="Plain"/><w:basedOn w:val="Mine"/>'
        '<w:pPr><w:outlineLvl w:val="9"/></w:pPr></w:style>'
        '<w:style w:styleId="A"><w:basedOn w:val="B"/></w:style><w:style w:styleId="B"><w:basedOn w:val="A"/></w:style>'
    )
    rows = [
        ("One", '<w:pStyle w:val="berschrift1"/>'),
        ("Rain.", '<w:pStyle w:val="Plain"/>'),
        ("Two", '<w:pStyle w:val="Mine"/>'),
        ("Wind.", '<w:pStyle w:val="A"/>'),
        ("Three", '<w:pStyle w:val="Own"/>'),
        ("Four", '<w:outlineLvl w:val="0"/>'),
        ("Sun.", '<w:pStyle w:val="berschrift1"/><w:outlineLvl w:val="9"/>'),
    ]
    body = "".join(word_paragraph(*row) for row in rows)
    content = make_docx(body, styles=styles, footnotes=word_paragraph("A note."))
    found = [("One", 2), ("Two", 2), ("Three", 1), ("Four", 2), ("text 8", 1)]
    assert titles(read_document("a.docx", content).chapters) == found


def test_a_docx_with_damaged_styles_is_translated_without_headings():
    content = make_docx(word_paragraph("One", '<w:pStyle w:val="X"/>') + word_paragraph("Rain."), styles="<w:style>")
    assert titles(read_document("a.docx", content).chapters) == [("texts 1 to 2", 2)]


def test_the_headings_of_an_odt_are_found_by_their_level():
    body = (
        '<text:h text:outline-level="1">Book</text:h><text:h text:outline-level="2">One</text:h><text:p>Rain.</text:p>'
        '<text:h text:outline-level="2">Two</text:h><text:p>Sun.</text:p>'
    )
    chapters = read_document("a.odt", make_odt(body)).chapters
    assert titles(chapters) == [("Book", 1), ("One", 2), ("Two", 2), ("text 6", 1)]  # the header


def test_chapters_are_made_of_the_texts_that_are_translated():
    document = read_document("a.html", b"<h2>One</h2><p>12</p><p>Rain.</p><h2>7</h2><p>Sun.</p><h2>Two</h2>")
    assert document.texts == ["One", "Rain.", "Sun.", "Two"]
    assert titles(document.chapters) == [("One", 3), ("Two", 1)]
