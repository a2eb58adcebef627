"""Takes the texts of Android apps apart: strings, arrays of strings and plurals in a file of resources (XML)."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from pellucid.data.encodings import encode_text, join_surrogates
from pellucid.data.languages import spell_code
from pellucid.documents.document import Document
from pellucid.documents.messages import find_plural_needs
from pellucid.documents.reading import DocumentReading
from pellucid.documents.slots import Inline, LanguagePlace, Part, Parts, TextSlot, join_markup, make_slot
from pellucid.documents.xml_tree import (
    XmlElement,
    XmlText,
    decode_xml,
    escape_xml_text,
    parse_xml,
    read_xml_text,
    with_attribute,
)
from pellucid.text.protected import has_same_protected

_REFERENCE = re.compile(r"\s*[@?](?:[\w.]+:)?[a-z]+/[\w.]+\s*")  # the name of another resource: @string/app_name
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(.))|"', re.DOTALL)
_BARE_QUOTE = re.compile(r'(?<!\\)"')
_SPACE = re.compile(r"[ \t\r\n]+")
_CDATA = re.compile(r"(\s*<!\[CDATA\[)((?:[^\]]|\](?!\]>))*+)(\]\]>\s*)")
_CHARACTERS = {"n": "\n", "t": "\t"}


def read_android_texts(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read the texts of an Android app."""
    text, encoding = decode_xml(name, content)
    parts = _AndroidReader(name, text, reading).split()
    return Document([parts], lambda bodies: encode_text(bodies[0], encoding), reading)


class _AndroidReader:
    """One reading of a file of resources."""

    def __init__(self, name: str, text: str, reading: DocumentReading):
        self.xml = parse_xml(name, text, reading)
        self.reading = reading
        if self.xml.root.name != "resources":
            raise ValueError(
                f"{name} begins with <{self.xml.root.name:.50}>; of files that end in .xml, only the texts of Android "
                "apps are taken, which begin with <resources>"
            )
        self.categories, self.needs_number = find_plural_needs(reading)

    def split(self) -> Parts:
        """Take the file apart."""
        xml = self.xml
        opening = _name_language(xml)
        return join_markup(xml.cut_root(lambda root, out: xml.cut_children(root, self.cut_resource, out, opening)))

    def cut_resource(self, element: XmlElement, out: list[Part]) -> None:
        """Append the parts of a resource."""
        xml = self.xml
        is_text = element.name == "string" or (element.name == "item" and xml.attribute(element, "type") == "string")
        texts = [element] if is_text else [child for child in element.children if child.name == "item"]
        if not is_text and element.name not in ("string-array", "plurals"):
            # An array may hold texts, too, but mostly colours, sizes and names.
            shown = [xml.content(child) for child in texts if not child.children and not self.is_reference(child)]
            self.reading.kept["other"] += sum(any(map(str.isalpha, text)) for text in shown)
            out.append(xml.raw(element))
        elif xml.attribute(element, "translatable") == "false":
            self.reading.kept["protected"] += len(texts)
            out.append(xml.raw(element))
        elif is_text:
            self.cut_text(element, out)
        elif element.name == "plurals":
            self.cut_plural(element, out)
        else:
            xml.cut_children(element, self.cut_text, out)

    def cut_text(self, element: XmlElement, out: list[Part]) -> None:
        """Append the parts of an element with a text."""
        out += [self.xml.opening(element), *self.read_text(element), self.xml.closing(element)]

    def is_reference(self, element: XmlElement) -> bool:
        """Whether an element holds the name of another resource."""
        return _REFERENCE.fullmatch(self.xml.text, element.inner, element.inner_end) is not None

    def read_text(self, element: XmlElement) -> Parts:
        """Return the text of an element as a slot."""
        xml = self.xml
        raw = xml.text[element.inner : element.inner_end]
        if self.is_reference(element):
            self.reading.kept["code"] += 1
            return [raw]
        if not element.children and (cdata := _CDATA.fullmatch(raw)):
            # HTML in it has quotation marks, mostly without the backslash that Android wants: they stay as they are.
            write = partial(_escape_android_cdata, quotes='"' if _BARE_QUOTE.search(cdata[2]) else "")
            slot = make_slot([cdata[2]], write, read=_read_android_cdata, keep_lines=True)
            return [cdata[1], *slot, cdata[3]]
        quote = re.fullmatch(r'(\s*")((?:[^"\\]|\\.)*+)("\s*)', raw, re.DOTALL) if not element.children else None
        if quote:
            return [quote[1], *make_slot([quote[2]], _escape_android, read=_read_quoted, keep_lines=True), quote[3]]
        return make_slot([*self.list_inline(element)], _escape_android, read=_read_android, keep_lines=True)

    def list_inline(self, element: XmlElement) -> Iterator[str | Inline]:
        """Yield the texts and the marks in an element; the inside of <xliff:g> is not translated."""
        xml = self.xml
        position = element.inner
        for child in element.children:
            if position < child.start:
                yield xml.text[position : child.start]
            position = child.end
            if child.end == child.inner or xml.opening(child).startswith("<xliff:g"):
                yield Inline("single", None, [xml.raw(child)])
            else:
                yield Inline("opening", child.start, [xml.opening(child)])
                yield from self.list_inline(child)
                yield Inline("closing", child.start, [xml.closing(child)])
        if position < element.inner_end:
            yield xml.text[position : element.inner_end]

    def cut_plural(self, element: XmlElement, out: list[Part]) -> None:
        """Append the parts of a plural, with all the forms that the language of the translation has."""
        xml = self.xml
        forms = {xml.attribute(child, "quantity"): child for child in element.children if child.name == "item"}
        other = forms.get("other")
        general = self.read_text(other) if other is not None and not self.is_reference(other) else ()
        slots = [part for part in general if isinstance(part, TextSlot)]

        def cut(child: XmlElement, out: list[Part]) -> None:
            if child is forms.get("one") and slots and self.needs_number and self.lacks_number(child, slots[0]):
                out += [xml.opening(child), *(_without_original(part) for part in general), xml.closing(child)]
                return
            self.cut_text(child, out)
            if child is not other or not slots or not slots[0].is_translatable:
                return
            start = xml.text.rfind(">", 0, child.start) + 1
            space = xml.text[start : child.start]
            for category in self.categories:
                if category not in forms:
                    opening = with_attribute(xml.opening(child), "quantity", category)
                    copy = (_without_original(part) for part in general)
                    out += [space if not space.strip() else "", opening, *copy, xml.closing(child)]

        xml.cut_children(element, cut, out)

    def lacks_number(self, form: XmlElement, general: TextSlot) -> bool:
        """Whether a form of a plural has other placeholders than the general one."""
        texts = [part.text for part in self.read_text(form) if isinstance(part, TextSlot)]
        return not texts or not has_same_protected(texts[0], general.text)


def _without_original(part: Part) -> Part:
    return replace(part, original=None) if isinstance(part, TextSlot) else part


def _name_language(xml: XmlText) -> Parts:
    """Return the opening tag of the resources, in which the language of the texts may be named."""
    tag = xml.opening(xml.root)
    if xml.attribute(xml.root, "tools:locale") is None:
        return [tag]
    return [LanguagePlace(tag, lambda code: with_attribute(tag, "tools:locale", spell_code(code)))]


def _read_android(raw: str) -> str:
    r"""Return the characters of a text as it stands in a resource.

    >>> _read_android("Tom\\'s  \n &lt;cat&gt;\\u0021\\n")
    "Tom's <cat>!\n"
    """
    return _read_escapes(read_xml_text(_SPACE.sub(" ", raw)))


def _read_quoted(raw: str) -> str:
    return _read_escapes(read_xml_text(raw))


def _read_android_cdata(raw: str) -> str:
    return _read_escapes(_SPACE.sub(" ", raw), quotes='"')


def _read_escapes(text: str, quotes: str = "") -> str:
    def read(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _CHARACTERS.get(match[2], match[2]) if match[2] else quotes

    return join_surrogates(_ESCAPE.sub(read, text))  # a character beyond U+FFFF is escaped as two halves


def _escape_android_cdata(text: str, quotes: str = "") -> str:
    """Return a text with the signs escaped that mean something else in a resource, but for these quotation marks."""
    text = re.sub(r"""[\\'"]""", lambda match: match[0] if match[0] == quotes else f"\\{match[0]}", text)
    text = text.replace("\n", "\\n").replace("\t", "\\t").replace("]]>", "]] >")
    return f"\\{text}" if text.startswith(("@", "?")) else text


def _escape_android(text: str) -> str:
    return escape_xml_text(_escape_android_cdata(text))
