"""Takes the texts of Android apps apart: strings, arrays of strings and plurals in a file of resources (XML)."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count

from pellucid.data.encodings import encode_text, join_surrogates
from pellucid.data.languages import spell_code
from pellucid.data.text.protected import has_same_protected
from pellucid.localize.documents.document import Document
from pellucid.localize.documents.messages import find_plural_needs
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import (
    NUMBERED_TAG,
    Inline,
    LanguagePlace,
    Part,
    Parts,
    TextSlot,
    join_markup,
    make_slot,
)
from pellucid.localize.documents.xml_tree import (
    XmlElement,
    XmlText,
    decode_xml,
    escape_xml_text,
    parse_xml,
    read_xml_text,
    with_attribute,
)

# The name of another resource: @string/app_name.
_REFERENCE = re.compile(r"\s*[@?](?:[\w.]+:)?[a-z]+/[\w.]+\s*")
_BARE_QUOTE = re.compile(r'(?<!\\)"')
_PIECE = re.compile(
    r'\\(?:u([0-9a-fA-F]{4})|(.))|(")|([ \t\r\n\v\f]+)|[^\\" \t\r\n\v\f]+|\\', re.DOTALL
)
_MORE_SPACES = re.compile("(?<= ) +")
_MOST_WIDE_SPACES = 200  # of one text that are kept: a table that is drawn with them has more
_LOST_SPACE = re.compile(r"\A[ ]|  |[ ]\Z")  # what is shown only where it stands in quotation marks
_QUOTED = re.compile(r'(\s*")((?:[^"\\]|\\.)*+)("\s*)', re.DOTALL)
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

        def cut(root: XmlElement, out: list[Part]) -> None:
            xml.cut_children(root, self.cut_resource, out, opening)

        return join_markup(xml.cut_root(cut))

    def cut_resource(self, element: XmlElement, out: list[Part]) -> None:
        """Append the parts of a resource."""
        xml = self.xml
        is_text = element.name == "string"
        if element.name == "item":
            is_text = xml.attribute(element, "type") == "string"
        texts = [element]
        if not is_text:
            texts = [child for child in element.children if child.name == "item"]

        if not is_text and element.name not in ("string-array", "plurals"):
            # An array may hold texts, too, but mostly colours, sizes and names.
            for child in texts:
                if not child.children and not self.is_reference(child):
                    self.reading.kept["other"] += any(map(str.isalpha, xml.content(child)))
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
            # HTML in it has quotation marks, mostly without the backslash that Android wants: they
            # stay as they are.
            quotes = '"' if _BARE_QUOTE.search(cdata[2]) else ""
            write = partial(_escape_android_cdata, quotes=quotes)
            read = _TextReader('"').read_characters
            parts = make_slot([cdata[2]], write, read=read, keep_lines=True)
            return [cdata[1], *map(_tag_wide_spaces, parts), cdata[3]]

        if not element.children and (quote := _QUOTED.fullmatch(raw)):
            parts = make_slot([quote[2]], _escape_android, read=_read_quoted, keep_lines=True)
            return [quote[1], *map(_tag_wide_spaces, parts), quote[3]]

        items = self.list_inline(element)
        parts = make_slot(items, _escape_android, read=_TextReader().read, keep_lines=True)
        return [*map(_quote_spaces, parts)]

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
        forms = {}
        for child in element.children:
            if child.name == "item":
                forms[xml.attribute(child, "quantity")] = child

        other = forms.get("other")
        general: Parts = ()
        if other is not None and not self.is_reference(other):
            general = self.read_text(other)
        slots = [part for part in general if isinstance(part, TextSlot)]

        def cut(child: XmlElement, out: list[Part]) -> None:
            is_one = child is forms.get("one")
            if is_one and slots and self.needs_number and self.lacks_number(child, slots[0]):
                copy = map(_without_original, general)
                out += [xml.opening(child), *copy, xml.closing(child)]
                return
            self.cut_text(child, out)

            if child is not other or not slots or not slots[0].is_translatable:
                return
            start = xml.text.rfind(">", 0, child.start) + 1
            space = xml.text[start : child.start]
            for category in self.categories:
                if category not in forms:
                    opening = with_attribute(xml.opening(child), "quantity", category)
                    copy = map(_without_original, general)
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


class _TextReader:
    """Reads the pieces of one text as Android does: white space outside quotation marks is one space.

    `quotes` is what stands for a quotation mark.
    """

    def __init__(self, quotes: str = "") -> None:
        self.quotes = quotes
        self.is_quoted = self.is_behind_space = False

    def read(self, raw: str) -> str:
        r"""Return the characters of the next piece, as it stands in a resource.

        >>> _TextReader().read("Tom\\'s  \n &lt;cat&gt;\\u0021\\n  \"  a\"")
        "Tom's <cat>!\n   a"
        """
        return self.read_characters(read_xml_text(raw))

    def read_characters(self, text: str) -> str:
        """Return the characters of the next piece, in which XML has none that are spelled."""
        out: list[str] = []
        for match in _PIECE.finditer(text):
            code, escaped, quote, space = match.groups()
            if quote:
                self.is_quoted = not self.is_quoted
                out.append(self.quotes)
            elif space and not self.is_quoted:
                out.append("" if self.is_behind_space else " ")
                self.is_behind_space = True
            else:
                character = match[0]
                if code:
                    character = chr(int(code, 16))
                elif escaped:
                    character = _CHARACTERS.get(escaped, escaped)
                out.append(character)
                self.is_behind_space = False

        return join_surrogates("".join(out))  # a character beyond U+FFFF is escaped as two halves


def _quote_spaces(slot: Part) -> Part:
    """Return a slot that is written in quotation marks, where Android would not show some space in it otherwise.

    Spaces around it are not in the text of the slot.
    """
    if not isinstance(slot, TextSlot) or not _LOST_SPACE.search(NUMBERED_TAG.sub("", slot.text)):
        return slot

    text = slot.text.strip(" ")
    before, _, after = slot.text.partition(text)

    def finish(written: str) -> str:
        return f'"{before}{written}{after}"'

    return _tag_wide_spaces(replace(slot, text=text, finish=finish))


def _tag_wide_spaces(slot: Part) -> Part:
    """Return a slot in which each wide space is one space, and a tag that stands for the others."""
    if not isinstance(slot, TextSlot):
        return slot

    tags = dict(slot.tags)
    used = map(int, NUMBERED_TAG.findall(slot.text))
    numbers = count(1 + max(used, default=-1))

    def tag(match: re.Match[str]) -> str:
        name = f"<{next(numbers)}/>"
        tags[name] = [match[0]]
        return name

    text = _MORE_SPACES.sub(tag, slot.text, count=_MOST_WIDE_SPACES)
    return replace(slot, text=text, tags=tags)


def _read_quoted(raw: str) -> str:
    reader = _TextReader()
    reader.is_quoted = True
    return reader.read(raw)


def _escape_android_cdata(text: str, quotes: str = "") -> str:
    """Return a text with the signs escaped that mean something else in a resource, but for these quotation marks."""

    def escape_sign(match: re.Match[str]) -> str:
        return match[0] if match[0] == quotes else f"\\{match[0]}"

    text = re.sub(r"""[\\'"]""", escape_sign, text)
    text = text.replace("\n", "\\n").replace("\t", "\\t").replace("]]>", "]] >")
    return f"\\{text}" if text.startswith(("@", "?")) else text


def _escape_android(text: str) -> str:
    return escape_xml_text(_escape_android_cdata(text))
