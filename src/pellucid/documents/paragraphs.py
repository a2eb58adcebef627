"""Paragraphs with formatting: what the formats of office programs have in common."""

import re
from collections.abc import Mapping, Sequence

from pellucid.documents.slots import MOST_TAGS, Inline
from pellucid.documents.xml_tree import escape_xml_text

SPACES = re.compile(r"[ \t\r\n]+")


def find_middle(items: Sequence[object]) -> tuple[int, int]:
    """Return where the items begin and end that a translation may move: from the first text with words to the last.

    A pair of tags of which one is among them is among them as a whole.
    """
    texts = [
        i for i, item in enumerate(items) if (item if isinstance(item, str) else getattr(item, "text", "")).strip()
    ]
    start, end = texts[0], texts[-1] + 1
    places = {(item.key, item.kind): i for i, item in enumerate(items) if isinstance(item, Inline)}
    ends = {key: i for (key, kind), i in places.items() if kind == "closing"}
    pairs = [(i, ends[key]) for (key, kind), i in places.items() if kind == "opening" and key in ends]
    if len(pairs) > MOST_TAGS:
        raise ValueError(f"a paragraph has more than {MOST_TAGS:,} pairs of inline tags")
    changed = True
    while changed:
        changed = False
        for pair in pairs:
            if any(start <= i < end for i in pair) and not all(start <= i < end for i in pair):
                start, end, changed = min(start, *pair), max(end, pair[1] + 1), True
    return start, end


def escape_with_breaks(text: str, breaks: Mapping[str, str]) -> str:
    """Escape a text for XML, with markup in place of tabs and line ends."""
    text = escape_xml_text(text)
    for sign, markup in breaks.items():
        text = text.replace(sign, markup)
    return text
