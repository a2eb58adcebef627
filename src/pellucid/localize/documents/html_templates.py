"""Finds instructions of template languages in HTML, such as {{ name }}, which programs read and people do not."""

import re
from html import escape
from typing import Literal

from pellucid.localize.documents.slots import Inline

# Each ends at the first mark that can end it, and none begins inside another of its kind, so that a
# page with many beginnings is not read from each of them to its end.
_INSTRUCTIONS = (
    r"<%--(?:(?!<%--|--%>).)*+--%>",
    r"<%(?:(?!<%|%>).)*+%>",
    # The last one may go on to the end of the file.
    r"<\?(?:php\b|=)(?:(?!<\?(?:php\b|=)|\?>).)*+(?:\?>|\Z)",
    r"<\?\s(?:(?!<\?|\?>).)*+\?>",
    r"\{\{!--(?:(?!\{\{!--|--\}\}).)*+--\}\}",
    # Braces in a text may open in one paragraph and close in another, which is no instruction.
    r"\{\{\{(?:(?!\{\{|\}\}|</[a-zA-Z]).)*+\}\}\}",
    r"\{\{(?:(?!\{\{|\}\}|</[a-zA-Z]).)*+\}\}",
    r"\{%(?:(?!\{%|%\}|</[a-zA-Z]).)*+%\}",
    r"\{#(?:(?!\{#|#\}).)*+#\}",
    r"[$#]\{[^{}\n]*+\}",
    # In quotation marks and brackets, a sign such as > does not end an instruction of FreeMarker.
    r"</?[#@][a-zA-Z][\w.]*+\s(?:[^<>()\"']|\"[^\"<]*+\"|'[^'<]*+'|\((?:[^()<]|\([^()<]*+\))*+\))*+>",
    r"</?[#@][a-zA-Z][\w.]*+(?:\s[^<>]*+)?>",
)
_INSTRUCTION = re.compile("|".join(_INSTRUCTIONS), re.DOTALL)
_BEGINNING = re.compile(r"<[%?#@]|</[#@]|\{[{%#]|[$#]\{")


def hide_instructions(html: str) -> str:
    """Return a page of the same length in which each instruction is a name, so that no sign in it is taken for markup.

    >>> hide_instructions('<a href="<?= "a" ?>">{{ name }} is here</a>')
    '<a href="xxxxxxxxxx">xxxxxxxxxx is here</a>'
    """
    if not _BEGINNING.search(html):
        return html
    return _INSTRUCTION.sub(lambda match: "x" * len(match[0]), html)


def split_instructions(text: str) -> list[tuple[Literal["text", "instruction"], str]]:
    """Return the texts and the instructions of a stretch of a page, in their order.

    >>> split_instructions("by {{ name }}")
    [('text', 'by '), ('instruction', '{{ name }}')]
    """
    pieces: list[tuple[Literal["text", "instruction"], str]] = []
    position = 0
    for match in _INSTRUCTION.finditer(text) if _BEGINNING.search(text) else ():
        if position < match.start():
            pieces.append(("text", text[position : match.start()]))
        pieces.append(("instruction", match[0]))
        position = match.end()
    return [*pieces, ("text", text[position:])] if position < len(text) else pieces


def escape_page_text(text: str, quote: bool = True) -> str:
    """Return a text as HTML spells it, in which nothing is taken for an instruction.

    >>> escape_page_text("{{ a }} < {b}")
    '&#123;{ a }} &lt; {b}'
    """
    written = escape(text, quote)
    if not _BEGINNING.search(written):
        return written
    return _INSTRUCTION.sub(lambda match: match[0].replace("{", "&#123;", 1), written)


def list_value_items(raw: str) -> list[str | Inline]:
    """Return the texts in the value of an attribute, and the instructions in it as marks."""
    pieces = split_instructions(raw)
    return [piece if kind == "text" else Inline("single", None, [piece]) for kind, piece in pieces]
