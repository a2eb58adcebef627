"""Packages of Office Open XML: their parts by what these are, and what DOCX, PPTX and XLSX have in common."""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from urllib.parse import unquote

from pellucid.localize.documents.archive import Split, read_archive
from pellucid.localize.documents.paragraphs import (
    TAG,
    classify_script,
    count_kept,
    cut_opening,
    make_content_slot,
)
from pellucid.localize.documents.reading import DocumentReading, DocumentTooLarge
from pellucid.localize.documents.slots import LanguagePlace, Part, Parts, join_markup
from pellucid.localize.documents.xml_tree import (
    XmlElement,
    XmlText,
    decode_xml,
    find_attributes,
    parse_xml,
    with_attribute,
)

_TYPES = "[Content_Types].xml"
_OVERRIDE = re.compile(r"<(?:\w+:)?Override\b[^<>]*>")
_RELATIONSHIP = re.compile(r"<(?:\w+:)?Relationship\b[^<>]*>")
# Titles of a document in its properties, and what else stands there, which is for archives and
# stays.
_PROPERTIES = ("title", "subject")
_KEPT_PROPERTIES: dict[str, str] = dict.fromkeys(
    ("description", "keywords", "keyword", "category", "rights"), "other"
)
_KEPT_META = (
    "belongs-to-collection",
    "dcterms:abstract",
    "dcterms:description",
    "dcterms:rights",
    "schema:accessibilitySummary",
)
_COMMENTS: dict[str, str] = dict.fromkeys(("comment", "cm", "threadedComment"), "comments")


def read_package(
    name: str, content: bytes, reading: DocumentReading
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the files of a package, and the last words of the type of each file for which the package names one."""
    archive = read_archive(name, content, reading)
    types, _ = decode_xml(name, archive.get(_TYPES, b""))
    found: dict[str, str] = {}

    for match in _OVERRIDE.finditer(types):
        values = dict(_read_attributes(match[0], ("PartName", "ContentType")))
        member = unquote(values.get("PartName", "")).lstrip("/")
        if member in archive:
            content_type = values.get("ContentType", "").removesuffix("+xml")
            found[member] = re.split(r"[/.]", content_type, maxsplit=1)[-1]

    # A document in the document, such as the workbook behind a chart, stays as it is.
    reading.kept["other"] += sum("/embeddings/" in member for member in archive)
    return archive, found


def _read_attributes(tag: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        for value, _, _ in find_attributes(tag, (name,)):
            yield name, value


def list_members(types: Mapping[str, str], *endings: str) -> list[str]:
    """Return the files of a package whose type ends in one of these ways, in their order by name and number."""
    found = [member for member, kind in types.items() if kind.endswith(endings)]
    return sorted(found, key=_split_numbers)


def _split_numbers(name: str) -> list[tuple[int, str]]:
    """Return what names are sorted by: `slide10.xml` stands behind `slide9.xml`."""
    pieces = re.split(r"(\d{1,9})", name)
    return [(int(piece), "") if piece.isdecimal() else (0, piece) for piece in pieces]


def read_relations(name: str, member: str, archive: Mapping[str, bytes]) -> dict[str, str]:
    """Return the files that a file of a package refers to, by the names that it uses for them."""
    folder, _, file = member.rpartition("/")
    relations = archive.get(posixpath.join(folder, "_rels", f"{file}.rels"))
    if relations is None:
        return {}

    targets: dict[str, str] = {}
    for match in _RELATIONSHIP.finditer(decode_xml(name, relations)[0]):
        values = dict(_read_attributes(match[0], ("Id", "Target")))
        target = unquote(values.get("Target", ""))
        path = posixpath.normpath(posixpath.join("/", folder, target))
        targets[values.get("Id", "")] = path.lstrip("/")
    return targets


def count_comments(
    name: str, archive: Mapping[str, bytes], members: list[str], reading: DocumentReading
) -> None:
    """Count the comments of a package that are not translated."""
    for member in members:
        # Comments that nobody translates need not be sound.
        with suppress(ValueError):
            text, _ = decode_xml(name, archive[member])
            count_kept(parse_xml(name, text, reading), _COMMENTS, reading)


def list_properties(types: Mapping[str, str]) -> dict[str, Split]:
    """Return how the title and the language in the properties of a package are read, where it has them."""
    return dict.fromkeys(list_members(types, "core-properties"), split_properties)


def split_properties(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take the properties of a document apart: its title and its subject are slots, and its language is named.

    So is the package of a book, in which places of the book have titles, too.
    """
    xml = parse_xml(name, text, reading)
    count_kept(xml, _KEPT_PROPERTIES, reading)
    for element in xml.walk(xml.root):
        if element.name == "meta" and xml.attribute(element, "property") in _KEPT_META:
            inside = xml.raw(element).partition(">")[2]
            reading.count_text("other", TAG.sub(" ", inside))

    def cut(element: XmlElement, out: list[Part]) -> None:
        if element.name in _PROPERTIES:
            out += make_content_slot(xml, element)
        elif element.name == "reference":  # a place in a book, such as its cover
            xml.cut_children(element, cut, out, cut_opening(xml, element, ("title",)))
        elif element.name == "language" and element.end > element.inner and not element.children:
            place = LanguagePlace(xml.text[element.inner : element.inner_end])
            out += [xml.opening(element), place, xml.closing(element)]
        else:
            xml.cut_children(element, cut, out, [place_language(xml, element)])

    return join_markup(xml.cut_root(cut))


def place_language(xml: XmlText, element: XmlElement) -> Part:
    """Return the opening tag of an element, which names another language if it has `xml:lang`."""
    opening = xml.opening(element)
    if xml.attribute(element, "xml:lang") is None:
        return opening
    return LanguagePlace(opening, partial(with_attribute, opening, "xml:lang"))


def split_language_places(
    name: str,
    text: str,
    reading: DocumentReading,
    elements: Collection[str],
    attributes: Sequence[str],
) -> Parts:
    """Take a file apart in which only the language of the document is named, in elements with these names.

    `attributes` are those for text in western, East Asian and
    complex scripts. A damaged file stays as it is.
    """
    try:
        xml = parse_xml(name, text, reading)
    except DocumentTooLarge:
        raise
    except ValueError:
        return [text]

    def cut(element: XmlElement, out: list[Part]) -> None:
        opening: Part = xml.opening(element)
        if element.name in elements:
            names = [xml.prefix(element) + attribute for attribute in attributes]
            opening = LanguagePlace(opening, partial(write_language, opening, names))
        xml.cut_children(element, cut, out, [opening])

    return join_markup(xml.cut_root(cut))


def write_language(opening: str, attributes: Sequence[str], language: str) -> str:
    """Return an opening tag that names a language in the attribute for its script.

    >>> write_language('<w:lang w:val="en-US"/>', ("w:val", "w:eastAsia", "w:bidi"), "ja")
    '<w:lang w:val="en-US" w:eastAsia="ja"/>'
    """
    return with_attribute(opening, attributes[classify_script(language)], language)
