"""EPUB: the order of the texts of a book, and what stays."""

import pytest

from pellucid.documents.readers import read_document
from tests.documents.samples import EPUB, XHTML, make_epub, make_zip, read_zip


def test_pages_come_in_the_order_in_which_they_are_read():
    pages = [f"<p>Page {letter}.</p>" for letter in "abcdefghijkl"]
    texts = read_document("a.epub", make_epub(*pages)).texts
    assert texts == ["A book", *(f"Page {letter}." for letter in "lkjihgfedcba"), "One"]


def test_a_translated_book_names_its_new_language():
    document = read_document("a.epub", EPUB, ("en", "es"))
    files = read_zip(document.write(document.texts, language="es"))
    assert ">es</dc:language>" in files["OEBPS/book.opf"]
    assert 'xml:lang="es"' in files["OEBPS/toc.ncx"]
    assert read_zip(document.write(document.texts)) == read_zip(EPUB)


def test_the_first_file_of_a_book_stays_uncompressed():
    written = read_document("a.epub", EPUB).write(["X."] * 5)
    assert written[30:58] == b"mimetypeapplication/epub+zip"


def test_pages_of_a_book_are_xml_without_a_declaration_too():
    files = read_zip(EPUB)
    page = f'{XHTML}<head><title/><script src="a.js"/></head><body><p>The ball.</p></body></html>'
    content = make_zip({**files, "OEBPS/text/p1.xhtml": page})
    assert "The ball." in read_document("a.epub", content).texts


def test_files_of_a_book_that_are_no_pages_stay_as_they_are():
    files = read_zip(EPUB) | {"OEBPS/style.css": "p { color: red }", "OEBPS/other.xhtml": "<p>Not listed.</p>"}
    content = make_zip({**files})
    document = read_document("a.epub", content)
    assert document.texts == read_document("a.epub", EPUB).texts
    written = read_zip(document.write(["X."] * len(document.texts)))
    for name in ("OEBPS/style.css", "OEBPS/other.xhtml", "META-INF/container.xml"):
        assert written[name] == files[name]


def test_chapters_of_a_book_begin_at_its_headings():
    content = make_epub("<h1>One</h1><p>A.</p><h1>Two</h1><p>B.</p>")
    assert [chapter.title for chapter in read_document("a.epub", content).chapters][1:3] == ["One", "Two"]


ENCRYPTION = '<encryption><CipherData><CipherReference URI="OEBPS/{}"/></CipherData></encryption>'


def test_a_book_with_encrypted_pages_is_refused_and_one_with_encrypted_fonts_is_read():
    files = read_zip(EPUB)
    locked = make_zip({**files, "META-INF/encryption.xml": ENCRYPTION.format("text/p1.xhtml")})
    with pytest.raises(ValueError, match="is encrypted, as books with copy protection are"):
        read_document("a.epub", locked)
    read_document("a.epub", make_zip({**files, "META-INF/encryption.xml": ENCRYPTION.format("font.otf")}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"META-INF/container.xml": None}, "it has no META-INF/container.xml"),
        ({"OEBPS/book.opf": None}, "META-INF/container.xml names no file that is in it"),
    ],
)
def test_another_archive_is_no_book(change, message):
    files = {**read_zip(EPUB), **change}
    with pytest.raises(ValueError, match=f"a.epub is not an EPUB book: {message}"):
        read_document("a.epub", make_zip({name: text for name, text in files.items() if text is not None}))
