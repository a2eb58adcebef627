"""Takes OpenDocument apart: paragraphs of ODT, with their formatting as inline tags."""

from functools import partial
from itertools import chain

from pellucid.documents.archive import read_archive, read_members
from pellucid.documents.document import Document
from pellucid.documents.paragraphs import SPACES, escape_with_breaks, find_middle
from pellucid.documents.reading import DocumentReading
from pellucid.documents.slots import Inline, Part, Parts, TextSlot, join_markup, number_tags
from pellucid.documents.xml_tree import XmlElement, parse_xml, read_xml_text

_ODT_PARAGRAPHS = ("p", "h")
_ODT_AROUND_TEXT = ("span", "a", "meta", "meta-field")
_ODT_SKIPPED = ("tracked-changes", "annotation", "scripts", "font-face-decls", "automatic-styles", "forms")
_ODT_BREAKS = {"tab": "\t", "line-break": "\n"}


def read_odt(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read an ODT document."""
    archive = read_archive(name, content, reading)
    if b"encryption-data" in archive.get("META-INF/manifest.xml", b""):
        raise ValueError(f"{name} is encrypted; save it without a password")
    members = [member for member in ("content.xml", "styles.xml") if member in archive]
    if "content.xml" not in members:
        raise ValueError(f"{name} is not an ODT document: it has no content.xml")
    return read_members(name, content, archive, members, split_odt, reading)


def split_odt(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take the content or the styles of an ODT document apart: each paragraph and heading is a slot."""
    xml = parse_xml(name, text, reading)
    # Each paragraph once: a frame in a frame in a frame would otherwise take twice the time with each.
    paragraphs: dict[int, Parts] = {}

    def cut(element: XmlElement, out: list[Part]) -> None:
        if element.name in _ODT_PARAGRAPHS and element.end > element.inner:
            if element.start not in paragraphs:
                paragraphs[element.start] = describe_paragraph(element)
            out += paragraphs[element.start]
        elif element.name in _ODT_SKIPPED:
            out.append(xml.raw(element))
        else:
            xml.cut_children(element, cut, out)

    def describe_all(element: XmlElement) -> Parts:
        out: list[Part] = []
        xml.cut_children(element, cut, out)
        return join_markup(out)

    def describe_paragraph(paragraph: XmlElement) -> Parts:
        items = list_items(paragraph)
        prefix = xml.prefix(paragraph)
        escape = partial(escape_with_breaks, breaks={sign: f"<{prefix}{tag}/>" for tag, sign in _ODT_BREAKS.items()})
        if not any(isinstance(item, str) and item.strip() for item in items):
            return describe_all(paragraph)
        start, end = find_middle(items)
        written = [[escape(item)] if isinstance(item, str) else item.parts for item in items]
        before = [xml.opening(paragraph), *chain.from_iterable(written[:start])]
        after = [*chain.from_iterable(written[end:]), xml.closing(paragraph)]
        slot_text, tags, _ = number_tags(items[start:end])
        level = read_level(xml.attribute(paragraph, f"{prefix}outline-level")) if paragraph.name == "h" else 0
        original = describe_all(paragraph)
        return [TextSlot(slot_text, tags, original, escape, before=before, after=after, heading=level)]

    def read_level(written: str | None) -> int:
        return int(written) if written is not None and written.isdecimal() else 1

    def list_items(element: XmlElement) -> list[str | Inline]:
        items: list[str | Inline] = []
        position = element.inner
        for child in [*element.children, None]:
            items.append(SPACES.sub(" ", read_xml_text(text[position : child.start if child else element.inner_end])))
            if child is None:
                break
            position = child.end
            if child.name in _ODT_BREAKS:
                items.append(_ODT_BREAKS[child.name])
            elif child.name in _ODT_AROUND_TEXT and child.end > child.inner:
                items += [Inline("opening", child.start, [xml.opening(child)]), *list_items(child)]
                items.append(Inline("closing", child.start, [xml.closing(child)]))
            elif child.name != "soft-page-break":
                # A note or a frame stands inside its paragraph and has paragraphs of its own.
                inner: list[Part] = []
                cut(child, inner)
                items.append(Inline("single", None, join_markup(inner)))
        return [item for item in items if item != ""]

    return join_markup([text[: xml.root.start], *describe_all(xml.root), text[xml.root.end :]])
