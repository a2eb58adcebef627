"""Takes HTML apart into texts to translate and markup that stays as it is."""

import codecs
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html import escape

from pellucid.documents.document import Document
from pellucid.documents.plain import decode_text
from pellucid.documents.reading import DocumentReading
from pellucid.documents.slots import Inline, Part, Parts, TextSlot, make_slot
from pellucid.documents.xml_tree import decode_xml, encode_xml

# Possessive quantifiers (*+) never backtrack: without them, a crafted page could take exponential time.
_ATTRIBUTES = r"""(?:"[^"]*+"|'[^']*+'|[^"'<>])*+"""
_UNTOUCHED_ELEMENTS = "script|style|pre|code|kbd|samp|var|textarea|svg|math"
# Markup, that is everything but text. As in browsers, an element that is never closed goes on to the end. The last two
# groups are those of a single tag: whether it closes, and its name.
_MARKUP = re.compile(
    rf"<!--.*?(?:-->|\Z)|<[!?][^>]*+(?:>|\Z)"
    rf"|<({_UNTOUCHED_ELEMENTS})(?=[\s/>]){_ATTRIBUTES}>.*?(?:</\1\s*+>|\Z)"
    rf"|<([a-z][\w:-]*+)\s(?=[^<>]*?\btranslate\s*=\s*[\"']?no\b){_ATTRIBUTES}>.*?(?:</\2\s*+>|\Z)"
    rf"|<(/?)([a-z][\w:-]*+)(?=[\s/>]){_ATTRIBUTES}>",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)

_VOID_NAMES = "area base embed img input link meta param source track wbr"
_VOID_ELEMENTS = frozenset(_VOID_NAMES.split())
_BLOCK_NAMES = """
address article aside audio blockquote body br button caption center col colgroup dd details dialog div dl dt fieldset
figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe legend li main menu nav
noscript object ol optgroup option p picture section select summary table tbody td template tfoot th thead title tr ul
video
"""
_HEADING = re.compile("h([1-6])", re.IGNORECASE)
_BLOCK_ELEMENTS = frozenset(_BLOCK_NAMES.split())  # they separate texts; any other is inline, and stands inside a text


_CHARSET = re.compile(rb"<meta[^>]+?charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)


def read_html(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a page of HTML, in the encoding that it names."""
    named = _CHARSET.search(content[:2000])
    encoding = "utf-8" if content.startswith(codecs.BOM_UTF8) or not named else named[1].decode("ascii")
    if encoding.lower() in ("iso-8859-1", "us-ascii", "latin1"):
        encoding = "windows-1252"  # as browsers read it
    if encoding.lower() == "utf-8" or content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text, encoding = decode_text(name, content)
    else:
        text, encoding = decode_xml(name, content, encoding)
    return Document([split_html(text, reading)], lambda bodies: encode_xml(bodies[0], encoding), reading)


def split_html(html: str, reading: DocumentReading) -> list[Part]:
    """Split HTML into texts to translate and markup that stays as it is, in their order.

    >>> [getattr(part, "text", part) for part in split_html("<p>Tom &amp; <b>Ann</b></p>", DocumentReading())]
    ['<p>', 'Tom & <0>Ann</0>', '</p>']
    """
    parts: list[Part] = []
    run: list[re.Match[str] | str] = []
    position = heading = 0
    for match in _MARKUP.finditer(html):
        run.append(html[position : match.start()])
        position = match.end()
        if (match[4] or "").lower() in _BLOCK_ELEMENTS:
            parts += [*_join_run(run, heading), match[0]]
            run = []
            if level := _HEADING.fullmatch(match[4]):
                heading = 0 if match[3] else int(level[1])
        else:
            run.append(match)
    return [*parts, *_join_run([*run, html[position:]])]


def _join_run(run: Sequence[re.Match[str] | str], heading: int = 0) -> Parts:
    """Join a run of texts and inline tags to one text; a run without words stays as it is."""
    items = [item if isinstance(item, str) else _describe_tag(item) for item in run]
    parts = make_slot(items, partial(escape, quote=False))
    return [replace(part, heading=heading) if isinstance(part, TextSlot) else part for part in parts]


def _describe_tag(match: re.Match[str]) -> Inline:
    """Describe inline markup; a closing tag has the key of the tags that it may close."""
    closing, name = match[3], (match[4] or "").lower()
    single = not name or name in _VOID_ELEMENTS or match[0].endswith("/>")
    return Inline("closing" if closing else "single" if single else "opening", name, [match[0]])
