"""Takes PPTX apart: slides in their order, notes, charts and diagrams, with their formatting as inline tags."""

from collections.abc import Mapping

from pellucid.localize.documents.archive import Split, read_members
from pellucid.localize.documents.document import Document
from pellucid.localize.documents.drawing import (
    DrawingReader,
    count_drawing_kept,
    list_drawings,
    split_drawing,
)
from pellucid.localize.documents.packages import (
    count_comments,
    list_members,
    list_properties,
    read_package,
    read_relations,
)
from pellucid.localize.documents.paragraphs import make_content_slot
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import Part, Parts, join_markup
from pellucid.localize.documents.xml_tree import XmlElement, decode_xml, parse_xml

# Presentations, shows and templates, with macros or without, have types of their own.
_MAIN_TYPES = (
    "presentationml.presentation.main",
    "presentationml.slideshow.main",
    "presentationml.template.main",
    "presentation.macroEnabled.main",
    "slideshow.macroEnabled.main",
    "template.macroEnabled.main",
)
_MASTER_TYPES = (
    "presentationml.slideMaster",
    "presentationml.slideLayout",
    "presentationml.notesMaster",
)
_HANDOUT_TYPE = "presentationml.handoutMaster"
_COMMENT_TYPES = ("presentationml.comments", "ms-powerpoint.comments")


def read_pptx(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a PPTX presentation: its slides, their notes, and what stands on layouts beside the places for text."""
    archive, types = read_package(name, content, reading)
    main = list_members(types, *_MAIN_TYPES)
    if not main:
        raise ValueError(f"{name} is not a PPTX presentation: no file in it lists its slides")

    slides = list_members(types, "presentationml.slide")
    order = {member: i for i, member in enumerate(_list_slides(name, main[0], archive, reading))}
    slides.sort(key=lambda member: order.get(member, len(order)))

    # What stands on the master of handouts is on no slide, so that its own places are what is
    # printed.
    texts = [
        *slides,
        *list_members(types, "presentationml.notesSlide"),
        *list_members(types, _HANDOUT_TYPE),
    ]
    members: dict[str, Split] = dict.fromkeys(texts, split_drawing)

    members |= list_drawings(types)
    members |= dict.fromkeys(list_members(types, *_MASTER_TYPES), split_layout)

    comments = list_members(types, *_COMMENT_TYPES)
    if reading.with_comments:
        members |= dict.fromkeys(comments, _split_comments)
    else:
        count_comments(name, archive, comments, reading)

    members |= list_properties(types)
    return read_members(name, content, archive, members, reading)


def _list_slides(
    name: str, main: str, archive: Mapping[str, bytes], reading: DocumentReading
) -> list[str]:
    """Return the files of the slides in the order in which they are shown."""
    targets = read_relations(name, main, archive)
    xml = parse_xml(f"{name}/{main}", decode_xml(name, archive[main])[0], reading)
    slides = xml.child(xml.root, "sldIdLst")
    relations = [xml.attribute(slide, "r:id") or "" for slide in slides.children] if slides else []
    return [targets[relation] for relation in relations if relation in targets]


def split_layout(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take a layout apart: what its author wrote is a slot, and not what stands in its places for text.

    That is never shown on a slide, and PowerPoint writes it
    itself, unless it says that the author did.
    """
    xml = parse_xml(name, text, reading)
    count_drawing_kept(xml, reading)
    reader = DrawingReader(xml)

    def is_place(shape: XmlElement) -> bool:
        places = [element for element in xml.walk(shape) if element.name == "ph"]
        return any(xml.attribute(place, "hasCustomPrompt") not in ("1", "true") for place in places)

    def cut(element: XmlElement, out: list[Part]) -> None:
        if element.name == "sp" and is_place(element):
            out.append(xml.raw(element))
        elif element.name in ("sp", "pic", "graphicFrame", "cxnSp"):
            reader.cut(element, out)
        else:
            xml.cut_children(element, cut, out)

    return join_markup(xml.cut_root(cut))


def _split_comments(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take the comments of a presentation apart; comments of older programs have plain text."""
    xml = parse_xml(name, text, reading)
    reader = DrawingReader(xml)

    def cut(element: XmlElement, out: list[Part]) -> None:
        if element.name == "text":
            out += make_content_slot(xml, element)
        elif element.name == "p":
            reader.cut(element, out)
        else:
            xml.cut_children(element, cut, out)

    return join_markup(xml.cut_root(cut))
