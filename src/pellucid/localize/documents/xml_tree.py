"""Elements of an XML text with their places in it, so that all that is not translated stays byte for byte."""

import codecs
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape
from xml.parsers import expat

from pellucid.data.encodings import decode_bytes, find_codec
from pellucid.data.formats.xml_characters import FORBIDDEN, EncodingCheck, drop_bad_characters
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import Part

_DEEPEST = 200
_ELEMENTS_TOGETHER = 1000  # elements that are counted together
_CHUNK = 2**16

# The text is well-formed when this is used, so the pattern need not refuse anything.
_MARKUP = re.compile(
    r"""<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<![^>]*>|<(/?)([^\s/>]+)((?:[^"'>]++|"[^"]*"|'[^']*')*+)>""",
    re.DOTALL,
)
_PREFIX = re.compile(r"<((?:[^\s/>:]*:)*)")
_ATTRIBUTE = re.compile(r"""\s([^\s=<>"']+)\s*=\s*("[^"]*"|'[^']*')""")
# A document type without declarations of its own, matched from the beginning of the text: no
# comment can imitate it.
_NO_DECLARATIONS = re.compile(
    r"\ufeff?(?:\s++|<!--.*?-->|<\?.*?\?>)*+<!DOCTYPE[^<>\[\]]*+\[\s*+\]\s*+>", re.DOTALL
)
_NO_ELEMENT = re.compile(r"<!--.*?-->|<!\[CDATA\[(.*?)\]\]>|<\?.*?\?>", re.DOTALL)
_DECLARED_ENCODING = re.compile(rb"""\A<\?xml[^>]*?encoding\s*=\s*["']([\w.-]+)["']""")


@dataclass(slots=True, eq=False)
class XmlElement:
    """An element: its name without prefix, and where its tags and its content begin and end in the text."""

    name: str
    start: int
    inner: int
    inner_end: int
    end: int
    children: "Sequence[XmlElement]" = ()


@dataclass(frozen=True)
class XmlText:
    """An XML text and the tree of its elements."""

    text: str
    root: XmlElement

    def opening(self, element: XmlElement) -> str:
        """Return the opening tag of an element, as it stands in the text."""
        return self.text[element.start : element.inner]

    def closing(self, element: XmlElement) -> str:
        """Return the closing tag of an element; "" for one without content."""
        return self.text[element.inner_end : element.end]

    def raw(self, element: XmlElement) -> str:
        """Return an element with its tags and its content, as it stands in the text."""
        return self.text[element.start : element.end]

    def prefix(self, element: XmlElement) -> str:
        """Return the prefix of an element's name with its colon, or ""."""
        match = _PREFIX.match(self.text, element.start)
        return match[1] if match else ""

    def attribute(self, element: XmlElement, name: str) -> str | None:
        """Return the value of an attribute; None where there is none."""
        found = _find_attribute(self.opening(element), name)
        return unescape(found[2][1:-1]) if found else None

    def content(self, element: XmlElement) -> str:
        """Return the characters in an element that has no element in it."""
        return read_xml_text(self.text[element.inner : element.inner_end])

    def child(self, element: XmlElement, name: str) -> XmlElement | None:
        """Return the first child of this name."""
        return next((child for child in element.children if child.name == name), None)

    def walk(self, element: XmlElement) -> Iterator[XmlElement]:
        """Yield an element and all those in it, in their order."""
        waiting = [element]
        while waiting:
            element = waiting.pop()
            yield element
            waiting += reversed(element.children)

    def cut_children(
        self,
        element: XmlElement,
        cut: "Callable[[XmlElement, list[Part]], object]",
        out: "list[Part]",
        opening: "Sequence[Part] | None" = None,
    ) -> None:
        """Append the parts of an element to `out`; `cut` appends the parts of each of its children.

        `opening` are the parts of its opening tag, if they differ
        from the tag as it stands in the text.
        """

        position = element.start
        if opening is not None:
            out += opening
            position = element.inner

        for child in element.children:
            out.append(self.text[position : child.start])
            cut(child, out)
            position = child.end
        out.append(self.text[position : element.end])

    def cut_root(self, cut: "Callable[[XmlElement, list[Part]], object]") -> "list[Part]":
        """Return the parts of the whole text; `cut` appends the parts of the root."""
        parts: list[Part] = [self.text[: self.root.start]]
        cut(self.root, parts)
        return [*parts, self.text[self.root.end :]]


def with_attribute(opening: str, name: str, value: str) -> str:
    """Return an opening tag with an attribute set to a value.

    >>> with_attribute('<target state="new">', "state", "final"), with_attribute("<file>", "target-language", "es")
    ('<target state="final">', '<file target-language="es">')
    """
    quoted = f'"{escape(value)}"'
    if found := _find_attribute(opening, name):
        return opening[: found.start(2)] + quoted + opening[found.end(2) :]
    end = len(opening) - (2 if opening.endswith("/>") else 1)
    return f"{opening[:end].rstrip()} {name}={quoted}{opening[end:]}"


def find_attributes(opening: str, names: Collection[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the values of attributes with these names and any prefix, and where each value begins and ends.

    >>> [*find_attributes('<a b="1 &lt; 2" w:c="3">', ("b", "c"))]
    [('1 < 2', 6, 14), ('3', 21, 22)]
    """
    for match in _ATTRIBUTE.finditer(opening):
        if match[1].rpartition(":")[2] in names:
            yield unescape(match[2][1:-1]), match.start(2) + 1, match.end(2) - 1


def _find_attribute(opening: str, name: str) -> re.Match[str] | None:
    # One after the other, so that the value of another attribute is not searched.
    return next((match for match in _ATTRIBUTE.finditer(opening) if match[1] == name), None)


def read_xml_text(raw: str) -> str:
    """Return the characters of a stretch of text as it stands in XML, without comments.

    >>> read_xml_text("a &lt; <!-- no --><![CDATA[b & c]]>")
    'a < b & c'
    """
    if "<" not in raw:
        return unescape(raw) if "&" in raw else raw
    out, position = [], 0
    for match in _NO_ELEMENT.finditer(raw):
        out += [unescape(raw[position : match.start()]), match[1] or ""]
        position = match.end()
    return "".join([*out, unescape(raw[position:])])


def escape_xml_text(text: str) -> str:
    """Escape a text for the content of an element; characters that XML cannot hold become spaces."""
    return FORBIDDEN.sub(" ", escape(text, quote=False)).replace("\r", "&#13;")


def decode_xml(name: str, content: bytes, encoding: str = "utf-8") -> tuple[str, str]:
    """Return the text of an XML file and its encoding, which it declares; without a declaration, the one given.

    Raises ValueError for an encoding that is not known, and for bytes that are not in it.
    """
    declared = _DECLARED_ENCODING.match(content[:200].removeprefix(codecs.BOM_UTF8))
    if content.startswith((codecs.BOM_UTF16_LE, b"<\0")):
        encoding = "utf-16le"
    elif content.startswith((codecs.BOM_UTF16_BE, b"\0<")):
        encoding = "utf-16be"
    elif declared and not content.startswith(codecs.BOM_UTF8):
        encoding = declared[1].decode("ascii")

    codec = find_codec(encoding, exact=True)
    if codec is None:
        raise ValueError(
            f"{name} is in the encoding {encoding:.40}, which is not known; convert it to UTF-8"
        )

    if codec.startswith("utf-16") and declared:
        # A declaration that can be read byte by byte is not in UTF-16, which programs for Windows
        # name all the same.
        codec = "utf-8"
    else:
        EncodingCheck(name).take(content)

    try:
        return decode_bytes(content, codec), codec
    except UnicodeError as error:
        raise ValueError(
            f"{name} is not in the encoding {encoding:.40} that it names: {error!s:.120}"
        ) from None


def parse_xml(name: str, text: str, reading: DocumentReading) -> XmlText:
    """Return the tree of an XML text, in which nothing is expanded or fetched.

    Characters that XML cannot hold are left out of it, and
    counted as kept back from the translation.

    Raises ValueError for a text that is not well-formed, declares
    anything of its own, or has too many elements.
    """
    text = check_xml(name, text, reading)

    root: XmlElement | None = None
    open_elements: list[tuple[XmlElement, list[XmlElement]]] = []  # with their children so far
    local_names: dict[str, str] = {}
    number = 0
    for match in _MARKUP.finditer(text):
        if match[2] is None:
            continue

        if match[1]:
            element, children = open_elements.pop()
            element.inner_end, element.end = match.start(), match.end()
            # Most elements have no children; a list for each would take a third of the memory.
            if children:
                element.children = children
            continue

        number += 1
        if number == _ELEMENTS_TOGETHER:
            reading.count_elements(name, number)
            number = 0

        if len(open_elements) >= _DEEPEST:
            raise ValueError(f"{name} has more than {_DEEPEST} elements in one another")
        end = match.end()  # one number for three places: a document has many elements
        local_name = local_names.get(match[2])
        if local_name is None:
            local_name = local_names.setdefault(match[2], match[2].rpartition(":")[2])

        element = XmlElement(local_name, match.start(), end, end, end)
        if open_elements:
            open_elements[-1][1].append(element)
        root = root or element
        if not match[3].endswith("/"):
            open_elements.append((element, []))

    reading.count_elements(name, number)
    assert root is not None
    return XmlText(text, root)


def check_xml(name: str, text: str, reading: DocumentReading) -> str:
    """Return an XML text without the characters that XML cannot hold, which are counted.

    Raises ValueError for a text that is not well-formed XML, or
    declares entities or types of its own.
    """
    text, lost = drop_bad_characters(text)
    reading.kept["unfit characters"] += lost
    parser = expat.ParserCreate("utf-8")

    def refuse_declarations(
        doctype: str, system: str | None, public: str | None, has_own: bool
    ) -> None:
        if has_own and not _NO_DECLARATIONS.match(text):
            raise ValueError(
                f"{name} has declarations of its own (<!DOCTYPE ... [ ... ]>), which can blow up a file or reach for "
                "others; remove them"
            )

    parser.StartDoctypeDeclHandler = refuse_declarations
    try:
        # In pieces, between which other threads get their turn.
        for start in range(0, len(text), _CHUNK):
            reading.go_on()
            parser.Parse(text[start : start + _CHUNK].encode(errors="surrogatepass"), False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "damaged")
        raise ValueError(f"{name}:{error.lineno}: not well-formed XML: {reason}") from None
    return text
