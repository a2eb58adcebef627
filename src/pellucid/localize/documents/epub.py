"""Takes EPUB apart: chapters, titles and the table of contents of an electronic book."""

import posixpath
import re
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import unquote

from pellucid.localize.documents.archive import Split, read_archive, read_members
from pellucid.localize.documents.document import Document
from pellucid.localize.documents.html import split_html
from pellucid.localize.documents.packages import place_language, split_properties
from pellucid.localize.documents.paragraphs import TAG, count_kept, make_content_slot
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import Part, Parts, join_markup
from pellucid.localize.documents.xml_tree import XmlElement, decode_xml, parse_xml

_CONTAINER = "META-INF/container.xml"
# The latter two stand in older books.
_PAGES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document")
_DRAWING = "image/svg+xml"
_DRAWN_TEXTS: dict[str, str] = dict.fromkeys(("text", "title", "desc", "foreignObject"), "code")
_TALKING_BOOK = "application/x-dtbook+xml"
_CONTENTS = "application/x-dtbncx+xml"
_ENCRYPTED = re.compile(r"""<(?:\w+:)?CipherReference\b[^<>]*?\bURI=["']([^"']*)["']""")


def read_epub(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read an EPUB book: its pages in the order in which they are read, its titles and its table of contents."""
    archive = read_archive(name, content, reading)
    if _CONTAINER not in archive:
        raise ValueError(f"{name} is not an EPUB book: it has no {_CONTAINER}")

    container = parse_xml(name, decode_xml(name, archive[_CONTAINER])[0], reading)
    packages = []
    for element in container.walk(container.root):
        path = container.attribute(element, "full-path")
        if path is not None and path in archive:
            packages.append(path)
    if not packages:
        raise ValueError(f"{name} is not an EPUB book: {_CONTAINER} names no file that is in it")

    encryption = archive.get("META-INF/encryption.xml", b"").decode(errors="replace")
    encrypted = _ENCRYPTED.findall(encryption)

    members: dict[str, Split] = {}
    for package in packages:
        members[package] = split_properties
        members |= _list_pages(name, package, archive, reading)

    if any(unquote(uri).lstrip("/") in members for uri in encrypted):
        raise ValueError(
            f"{name} is encrypted, as books with copy protection are; it cannot be translated"
        )
    return read_members(name, content, archive, members, reading)


def _list_pages(
    name: str, package: str, archive: Mapping[str, bytes], reading: DocumentReading
) -> dict[str, Split]:
    """Return how the pages of a book are read, in the order of reading, and then its tables of contents."""
    xml = parse_xml(f"{name}/{package}", decode_xml(name, archive[package])[0], reading)
    folder = posixpath.dirname(package)
    kinds: dict[str, str] = {}
    pages: dict[str, str] = {}
    order: list[str] = []

    for element in xml.walk(xml.root):
        if element.name == "itemref":
            order.append(xml.attribute(element, "idref") or "")
        elif element.name == "item":
            address = unquote(xml.attribute(element, "href") or "")
            target = posixpath.normpath(posixpath.join(folder, address))
            key = xml.attribute(element, "id") or ""
            if target in archive:
                pages[key], kinds[key] = target, xml.attribute(element, "media-type") or ""

    members: dict[str, Split] = {}
    for key in [*order, *pages]:
        if kinds.get(key) in _PAGES:
            members[pages[key]] = _split_page

    for key in dict.fromkeys(order):
        if kinds.get(key) in (_DRAWING, _TALKING_BOOK):
            # What is not translated need not be sound.
            with suppress(ValueError):
                _count_page(f"{name}/{pages[key]}", archive[pages[key]], kinds[key], reading)
    return members | {pages[key]: split_contents for key in pages if kinds[key] == _CONTENTS}


def _count_page(name: str, content: bytes, kind: str, reading: DocumentReading) -> None:
    """Count the texts of a page of a kind that is not translated."""
    xml = parse_xml(name, decode_xml(name, content)[0], reading)
    if kind == _DRAWING:
        count_kept(xml, _DRAWN_TEXTS, reading)
    else:
        reading.kept["other"] += sum(element.name in ("p", "hd") for element in xml.walk(xml.root))


def _split_page(name: str, text: str, reading: DocumentReading) -> Parts:
    return split_html(text, reading, is_xhtml=True)


def split_contents(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take a table of contents of the older kind apart: each of its titles is a slot."""
    xml = parse_xml(name, text, reading)

    def cut(element: XmlElement, out: list[Part]) -> None:
        if element.name == "text":
            out += make_content_slot(xml, element)
        elif element.name in ("docAuthor", "pageTarget"):
            # The number of a page may have letters, as iv has.
            if element.name == "pageTarget":
                reading.count_text("other", TAG.sub(" ", xml.raw(element)))
            out.append(xml.raw(element))
        else:
            xml.cut_children(element, cut, out, [place_language(xml, element)])

    return join_markup(xml.cut_root(cut))
