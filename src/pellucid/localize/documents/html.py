"""Takes HTML apart into texts to translate and markup that stays as it is."""

import codecs
import re
from collections.abc import Mapping

from pellucid.data.encodings import decode_bytes, encode_text, find_codec
from pellucid.localize.documents.document import Document
from pellucid.localize.documents.html_attributes import (
    RELEVANT,
    find_kept,
    find_meta_name,
    names_other_language,
    read_language_code,
    split_tag,
)
from pellucid.localize.documents.html_frames import cut_frame, keep_frame
from pellucid.localize.documents.html_runs import RUBY_READINGS, Piece, join_run
from pellucid.localize.documents.html_templates import hide_instructions, split_instructions
from pellucid.localize.documents.html_tokens import (
    RAW_ELEMENTS,
    Attribute,
    Markup,
    find_markup,
    find_raw_end,
    read_attributes,
    split_names,
)
from pellucid.localize.documents.html_tree import VOID_ELEMENTS, OpenElements
from pellucid.localize.documents.plain import decode_text
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import Part, Parts

_CHARSET = re.compile(
    rb"<!--.*?(?:-->|\Z)|<meta[^<>]+?charset\s*=\s*(?:[\"']\s*)?(?![<{$#])([^\s\"'/>;]+)",
    re.IGNORECASE | re.DOTALL,
)
# In which a page may name its encoding: browsers look in all of the head, and read again.
_HEAD_BYTES = 2**16
# Pieces of markup after which elements are counted, and somebody is asked whether to go on.
_TOGETHER = 1000

_BLOCK_NAMES = """
address article aside blockquote body br button caption center col colgroup dd details dialog dir div dl dt fieldset
figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe legend li listing main
menu nav noembed noframes noscript object ol optgroup option p plaintext pre search section select summary table tbody
td template tfoot th thead title tr ul video xmp
"""
BLOCK_ELEMENTS = split_names(_BLOCK_NAMES)
"""Elements that separate texts; any other is inline, and stands inside a text."""
_HEADING = re.compile("h([1-6])")
# What is kept without being asked: translate="yes" asks for it, but not in the raw ones.
_CODE_NAMES = split_names("pre code kbd samp var svg math script style xmp listing plaintext")
_KEPT_ELEMENTS = {
    **dict.fromkeys(_CODE_NAMES, "code"),
    **dict.fromkeys(split_names("textarea iframe noembed noframes"), "other"),
    **dict.fromkeys(RUBY_READINGS, "other"),
}


def read_html(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a page of HTML, in the encoding that it names."""
    if content.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text, codec = decode_text(name, content)
    else:
        text, codec = _decode_page(name, content)
    parts = split_html(text, reading)
    return Document([parts], lambda bodies: encode_text(bodies[0], codec), reading)


def _decode_page(name: str, content: bytes) -> tuple[str, str]:
    """Return the text of a page without a byte order mark, and the codec of the encoding that it names."""
    label = "utf-8"
    for match in _CHARSET.finditer(content[:_HEAD_BYTES]):
        if match[1]:  # none is a comment
            label = match[1].decode("latin-1")
            break

    codec = find_codec(label)
    if codec is None:
        raise ValueError(
            f"{name} is in the encoding {label:.40}, which is not known; convert it to UTF-8"
        )

    if codec.startswith("utf"):  # its name was read byte by byte, so it cannot be UTF-16
        return decode_text(name, content)

    try:
        return decode_bytes(content, codec), codec
    except UnicodeError as error:
        raise ValueError(
            f"{name} is not in the encoding {label:.40} that it names: {error!s:.120}"
        ) from None


def split_html(html: str, reading: DocumentReading, *, is_xhtml: bool = False) -> list[Part]:
    """Split HTML into texts to translate and markup that stays as it is, in their order.

    With `is_xhtml`, or where a declaration of XML says so, a tag
    that ends in a slash has no content.

    >>> [getattr(part, "text", part) for part in split_html("<p>Tom &amp; <b>Ann</b></p>", DocumentReading())]
    ['<p>', 'Tom & <0>Ann</0>', '</p>']
    """
    return _PageSplitter(html, reading, is_xhtml).split()


class _PageSplitter:
    """Reads a page from its beginning to its end."""

    def __init__(
        self, html: str, reading: DocumentReading, is_xhtml: bool, in_frame: bool = False
    ) -> None:
        self.html = html
        # Where markup is looked for; the page has all else at the same places.
        self.markup = hide_instructions(html)
        self.in_frame = in_frame
        self.reading = reading
        self.source = reading.languages[0] if reading.languages else None
        self.is_xhtml = is_xhtml or html.lstrip("\ufeff \t\r\n").startswith("<?xml")

        self.elements = OpenElements()
        self.parts: list[Part] = []
        self.run: list[Piece] = []
        self.heading = 0

    def split(self) -> list[Part]:
        """Return the parts of the page."""
        position = pieces = opened = 0
        while markup := find_markup(self.markup, position, self.elements.is_in_drawing):
            self._add_text(position, markup.start)
            position = markup.end
            if markup.kind == "other":
                raw = self.html[markup.start : markup.end]
                self.run.append(Piece("single", [raw], self.elements.explain_kept()))
            elif markup.kind == "closing":
                self._close(markup)
            else:
                position = self._open(markup)
                opened += 1
            pieces += 1
            if pieces == _TOGETHER:
                self.reading.count_elements("the page", opened)
                pieces = opened = 0

        self.reading.count_elements("the page", opened)
        self._add_text(position, len(self.html))
        self._end_run()
        return self.parts

    def _add_text(self, start: int, end: int) -> None:
        text = self.html[start:end]
        if not text:
            return

        if any(kind == "text" and not piece.isspace() for kind, piece in split_instructions(text)):
            self.elements.leave_head()
            self.elements.reopen_formatting()
        self._add_pieces(text, self.elements.explain_kept())

    def _add_pieces(self, text: str, kept: str) -> None:
        """Add a text to the run, in which instructions of a template are marks."""
        name = self.elements.innermost if kept else ""
        for kind, piece in [("text", text)] if kept else split_instructions(text):
            self.run.append(Piece("text" if kind == "text" else "single", [piece], kept, name=name))

    def _open(self, markup: Markup) -> int:
        """Read an opening tag and, if its element's content is all text, the content, too; return the end."""
        tag, name = self.html[markup.start : markup.end], markup.name
        attributes: Mapping[str, Attribute] = {}
        if RELEVANT.search(tag):
            attributes = read_attributes(tag, name, self.markup[markup.start : markup.end])
        code = read_language_code(attributes)
        is_foreign: bool | None = None
        if name in ("html", "body"):
            self.source = self.source or code or None
        elif code and self.source:
            is_foreign = names_other_language(code, self.source)

        can_end_itself = self.is_xhtml or self.elements.can_end_itself(name)
        ends_itself = can_end_itself and self.markup.endswith("/>", markup.start, markup.end)
        has_content = name not in VOID_ELEMENTS and not ends_itself
        is_raw = has_content and name in RAW_ELEMENTS and not self.elements.is_in_drawing
        usual = _KEPT_ELEMENTS.get(name)
        element = self.elements.open(name, find_kept(attributes), is_foreign, usual, has_content)
        kept = element.kept or (usual if is_raw else None) or ""

        parts: Parts = [tag]
        if not element.kept_attributes:
            self._count_attributes(name, attributes)
            parts = split_tag(tag, name, attributes, self.source, self._cut_frame)
        kind = "opening" if has_content else "single"
        self._add_tag(Piece(kind, parts, kept, element, element.name))
        if not is_raw:
            return markup.end

        end = find_raw_end(self.markup, markup.end, name)
        if markup.end < end:
            self._add_pieces(self.html[markup.end : end], kept)
        return end

    def _count_attributes(self, name: str, attributes: Mapping[str, Attribute]) -> None:
        """Count the keywords of a page, which are for machines, and the page of a frame without quotation marks."""
        counted = None
        if name == "meta" and find_meta_name(attributes) == "keywords":
            counted = attributes.get("content")
        elif name == "iframe" and "srcdoc" in attributes and not attributes["srcdoc"].quote:
            counted = attributes["srcdoc"]
        if counted is not None:
            self.reading.count_text("other", counted.value)

    def _cut_frame(self, raw: str) -> Parts:
        """Return the page in an attribute of a frame; one inside such a page, and one that cannot be read, is kept."""

        def split(page: str) -> Parts:
            return _PageSplitter(page, self.reading, self.is_xhtml, in_frame=True).split()

        parts = None if self.in_frame else cut_frame(raw, split)
        return keep_frame(raw, self.reading.kept) if parts is None else parts

    def _close(self, markup: Markup) -> None:
        """Read a closing tag."""
        element = self.elements.close(markup.name)
        kept = element.kept if element else self.elements.explain_kept()
        parts = [self.html[markup.start : markup.end]]
        name = element.name if element else markup.name
        self._add_tag(Piece("closing", parts, kept, element, name))

    def _add_tag(self, piece: Piece) -> None:
        """Add a tag to the run of texts, or end the run with one that separates texts."""
        if piece.name not in BLOCK_ELEMENTS:
            self.run.append(piece)
            return

        self._end_run()
        self.parts += piece.parts
        if level := _HEADING.fullmatch(piece.name):
            self.heading = 0 if piece.kind == "closing" else int(level[1])

    def _end_run(self) -> None:
        """Join a run of texts and inline tags to one text; a run without words stays as it is."""
        parts, kept = join_run(self.run, self.heading)
        self.parts += parts
        self.reading.kept.update(kept)
        self.run = []
