"""EPUB: the order of the texts of a book, and what stays."""

import pytest

from pellucid.localize.documents.readers import read_document
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


def read_book(**files: str):
    """Return the document of a book in which some files are others, and what its files are when it is written."""
    names = {"package": "OEBPS/book.opf", "contents": "OEBPS/toc.ncx", "page": "OEBPS/text/p1.xhtml"}
    changed = {names.get(name, f"OEBPS/{name}.svg"): text for name, text in files.items()}
    content = make_zip({**read_zip(EPUB), **changed})
    document = read_document("a.epub", content, ("en", "es"))
    assert read_zip(document.write(document.texts)) == read_zip(content)
    return document, read_zip(document.write([text.upper() for text in document.texts]))


def test_the_titles_of_places_are_translated_and_what_only_describes_the_book_is_counted():
    package = read_zip(EPUB)["OEBPS/book.opf"]
    described = (
        '<dc:description xmlns:dc="urn:dc">About a ball.</dc:description><dc:rights xmlns:dc="urn:dc">All.</dc:rights>'
        '<meta property="schema:accessibilitySummary">Has words.</meta><meta property="role">aut</meta></metadata>'
    )
    guide = '<guide><reference type="cover" title="Cover &amp; more" href="text/p1.xhtml"/></guide></package>'
    package = package.replace("</metadata>", described).replace("</package>", guide)
    document, written = read_book(package=package)
    assert document.texts[:2] == ["A book", "Cover & more"]
    assert 'type="cover" title="COVER &amp; MORE" href' in written["OEBPS/book.opf"]
    assert dict(+document.kept) == {"other": 3}


def test_numbers_of_printed_pages_stay():
    pages = '<pageList><navLabel><text>Pages</text></navLabel><pageTarget id="p"><navLabel><text>iv</text></navLabel>'
    contents = read_zip(EPUB)["OEBPS/toc.ncx"].replace("</ncx>", f"{pages}</pageTarget></pageList></ncx>")
    listed = '<nav epub:type="page-list"><ol><li><a href="#p">iv</a></li></ol></nav>'
    page = f'{XHTML}<body><p>A<span epub:type="pagebreak" title="iv"/> ball.</p>{listed}</body></html>'
    document, written = read_book(contents=contents, page=page)
    assert "iv" not in document.texts
    assert {"A<0/> ball.", "Pages"} <= {*document.texts}
    assert dict(+document.kept) == {"other": 2}
    assert "PAGES</text>" in written["OEBPS/toc.ncx"]
    assert written["OEBPS/text/p1.xhtml"] == page.replace(" ball.", " BALL.")


def test_texts_of_pages_that_are_drawings_are_counted():
    package = read_zip(EPUB)["OEBPS/book.opf"]
    package = package.replace("</manifest>", '<item id="d" href="d.svg" media-type="image/svg+xml"/></manifest>')
    package = package.replace("</spine>", '<itemref idref="d"/><itemref idref="d"/></spine>')
    drawing = "<svg><title>A ball</title><g><text>Red <tspan>ball</tspan></text><text>12</text></g></svg>"
    document, written = read_book(package=package, d=drawing)
    assert dict(+document.kept) == {"code": 2}
    assert written["OEBPS/d.svg"] == drawing
    assert document.texts == read_document("a.epub", EPUB).texts
    assert read_book(package=package, d="<svg>")[0].texts == document.texts  # a damaged one


def test_pages_of_old_books_are_read():
    package = read_zip(EPUB)["OEBPS/book.opf"].replace("application/xhtml+xml", "text/x-oeb1-document")
    assert read_book(package=package)[0].texts == read_document("a.epub", EPUB).texts
