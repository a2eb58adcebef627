"""Cuts HTML into tags, comments and texts with their places, as the HTML standard tells browsers to."""

# Written here because of the places: no parser that could be used (html.parser, html5lib, lxml,
# selectolax) says where an end tag or the value of an attribute stands, and without that an
# untouched byte cannot be kept. The quantifiers are possessive (*+), so that nothing is tried
# twice: a crafted page takes no longer than another of its size.

import re
from dataclasses import dataclass
from html import unescape
from typing import Literal

_SPACE = r"\t\n\f\r "
_ATTRIBUTE_NAME = rf"(?:=[^{_SPACE}/>=]*+|[^{_SPACE}/>=]++)"
_ATTRIBUTE_VALUE = rf"""(?:"([^"]*+)"|'([^']*+)'|([^{_SPACE}"'>][^{_SPACE}>]*+))"""
_NO_GROUPS = _ATTRIBUTE_VALUE.replace("([", "(?:[")
_ATTRIBUTE = re.compile(
    rf"[{_SPACE}/]*+({_ATTRIBUTE_NAME})(?:[{_SPACE}]*+=[{_SPACE}]*+(?:{_ATTRIBUTE_VALUE}|(?=>)))?+"
)
_NO_GROUPS_VALUE = rf"(?:[{_SPACE}]*+=[{_SPACE}]*+(?:{_NO_GROUPS}|(?=>)))?+"
_ATTRIBUTES = rf"(?:[{_SPACE}/]*+{_ATTRIBUTE_NAME}{_NO_GROUPS_VALUE})*+"
_TAG_REST = rf"{_ATTRIBUTES}[{_SPACE}/]*+(?:>|\Z)"
_CDATA = re.compile(r"<!\[CDATA\[.*?(?:\]\]>|\Z)", re.DOTALL)
_MARKUP = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))"  # a comment may be as short as <!-->
    r"|</?([a-zA-Z][^\t\n\f\r />]*+)"  # a tag, whose attributes follow
    r"|<(?:[!?]|/[^a-zA-Z])[^>]*+(?:>|\Z)"  # a doctype, and what is read as a comment
    r"|</>",
    re.DOTALL,
)
_REST_OF_TAG = re.compile(_TAG_REST)
_IN_SCRIPT = re.compile(rf"<!--|-->|<(/?)script(?=[{_SPACE}/>])", re.IGNORECASE)


def split_names(names: str) -> frozenset[str]:
    """Return the names in a text, between which white space stands."""
    return frozenset(names.split())


RAW_ELEMENTS = split_names("title textarea style script xmp iframe noembed noframes plaintext")
"""Elements whose content is text up to their closing tag, even if parts of it look like tags."""


@dataclass(frozen=True, slots=True)
class Markup:
    """A piece of markup: a tag with its name in small letters, or a comment or the like without a name."""

    start: int
    end: int
    kind: Literal["opening", "closing", "other"]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Attribute:
    """The value of an attribute, and where it stands in its tag; `quote` is "" for one without quotation marks."""

    value: str
    start: int
    end: int
    quote: str


def find_markup(html: str, position: int, in_drawing: bool = False) -> Markup | None:
    """Return the next markup from a position on; None where only text follows. A tag without an end goes to the end.

    `in_drawing` is true inside SVG and MathML, where CDATA sections are text.
    """
    match = _MARKUP.search(html, position)
    if match is None:
        return None

    start = match.start()
    if match[1] is None:
        if in_drawing and (section := _CDATA.match(html, start)):
            return Markup(start, section.end(), "other")
        # With `</>` the pattern may have read on: `</` and `>` alone are all of it.
        end = start + 3 if html.startswith("</>", start) else match.end()
        return Markup(start, end, "other")

    rest = _REST_OF_TAG.match(html, match.end())
    if rest is None or html[rest.end() - 1] != ">":
        return Markup(start, len(html), "other")
    kind = "closing" if html[start + 1] == "/" else "opening"
    return Markup(start, rest.end(), kind, match[1].lower())


def find_raw_end(html: str, position: int, name: str) -> int:
    """Return where the text of a raw element ends: at its closing tag, or at the end of the page."""
    if name == "plaintext":
        return len(html)
    if name == "script":
        return _find_script_end(html, position)

    match = re.compile(rf"</{name}(?=[{_SPACE}/>])", re.IGNORECASE).search(html, position)
    return match.start() if match else len(html)


def _find_script_end(html: str, position: int) -> int:
    """Return where a script ends; one that is written inside a comment inside it does not end it."""
    depth = 0  # 1 inside a comment, 2 inside a script inside a comment
    while match := _IN_SCRIPT.search(html, position):
        position = match.end()
        if match[0] == "<!--":
            depth = depth or 1
            position = match.start() + 2  # the two dashes may belong to its end, too
        elif match[0] == "-->":
            depth = 0
        elif not match[1]:
            depth = 2 if depth else 0
        elif depth == 2:
            depth = 1
        else:
            return match.start()
    return len(html)


def read_attributes(tag: str, name: str, markup: str | None = None) -> dict[str, Attribute]:
    """Return the attributes of a tag by their names in small letters; of two with the same name the first counts.

    `markup` is the tag as its attributes are found, where that is not as it stands in the page.

    >>> read_attributes("<img alt='A &amp; B' src=a.png>", "img")["alt"]
    Attribute(value='A & B', start=10, end=19, quote="'")
    """
    attributes: dict[str, Attribute] = {}
    position = len(name) + 1

    while match := _ATTRIBUTE.match(markup or tag, position):
        position = match.end()
        for group, quote in ((2, '"'), (3, "'"), (4, "")):
            if match[group] is not None:
                start, end = match.span(group)
                attribute = Attribute(unescape(tag[start:end]), start, end, quote)
                break
        else:
            attribute = Attribute("", match.end(), match.end(), "")
        attributes.setdefault(match[1].lower(), attribute)
    return attributes
