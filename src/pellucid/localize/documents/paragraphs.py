"""Paragraphs with formatting: what the formats of office programs have in common."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import PurePath

from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import (
    LETTER,
    Inline,
    Part,
    Parts,
    Review,
    TextSlot,
    Wrap,
    join_markup,
    number_tags,
)
from pellucid.localize.documents.xml_tree import (
    XmlElement,
    XmlText,
    escape_xml_text,
    find_attributes,
)

SPACES = re.compile(r"[ \t\r\n]+")
# Two spaces behind the end of a sentence are a habit; others are there to move what follows them.
_WIDE_SPACE = re.compile(r"(?<![.!?…]) {2,}")
_MARKS_OF_SENTENCES = frozenset(".,;:!?…'\"()[]«»„“”‘’‚¡¿-‐‑–—/&% \t\n\xa0")
TAG = re.compile(r"<[^>]*>")
# Wide spaces of one paragraph that are kept: a table that is drawn with them has more.
_MOST_SPACES = 200

# Languages whose words a word processor takes for East Asian text, and for text of complex scripts.
# Others are neither.
_EAST_ASIAN = frozenset(("zh", "ja", "ko", "yue", "wuu"))
_COMPLEX_SCRIPTS = """
ar fa he ur yi ps ckb sd ug dv syr hi bn mr ne sa ta te kn ml gu pa or si th lo km my bo
"""
_COMPLEX_SCRIPT = frozenset(_COMPLEX_SCRIPTS.split())


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of text with one formatting."""

    text: str
    key: str  # the formatting that readers see
    wrap: Wrap  # what stands before and after a text with this formatting
    escape: Callable[[str], str]
    is_raised: bool = False  # whether it stands above or below the line


Item = Run | Inline


def classify_script(language: str) -> int:
    """Return 0 for a language that office programs call western, 1 for an East Asian one, 2 for a complex script.

    >>> classify_script("pt-BR"), classify_script("zh_Hant"), classify_script("ar")
    (0, 1, 2)
    """
    base = re.split("[-_]", language)[0].lower()
    return 1 if base in _EAST_ASIAN else 2 if base in _COMPLEX_SCRIPT else 0


def read_number(text: str) -> int | None:
    """Return the number that an attribute tells; None for anything else, and for one that no document has.

    >>> read_number("3"), read_number("-3"), read_number("9" * 5000)
    (3, None, None)
    """
    return int(text) if text.isdecimal() and len(text) < 10 else None


def make_paragraph(
    items: Iterable[Item],
    opening: Parts,
    closing: Parts,
    original: Parts,
    *,
    mark: Callable[[Wrap, Review], Wrap] | None = None,
    name_language: Callable[[Wrap, str], Wrap] | None = None,
    line_break: str | None = None,
    escape: Callable[[str], str] | None = None,
    heading: int = 0,
) -> Parts:
    """Return a paragraph as a slot; one without words as it is.

    Formatting that most of its text does not have is a pair of tags. `opening` and `closing` are
    what stands around the items, `original` is the paragraph as it is, and `escape` writes a
    translation, where it is not as the items are.
    """
    runs = _merge_runs(items)
    sizes = Counter[str]()
    for run in runs:
        if isinstance(run, Run) and run.text.strip():
            sizes[run.key] += len(run.text)
    if not sizes:
        return original

    base_key = max(sizes, key=lambda key: sizes[key])
    base = next(run for run in runs if isinstance(run, Run) and run.key == base_key)

    signs = set()
    for i, run in enumerate(runs):
        if isinstance(run, Run) and run.key != base_key and is_sign(run.text, run.is_raised):
            signs.add(i)

    start, end = find_middle(runs, signs)
    middle = runs[start:end]
    edge_before, middle, edge_after = _cut_edges(middle)
    text, tags, wraps = number_tags(_tag_formatting(middle, base_key))
    before = join_markup([*opening, *list_parts(runs[:start]), *edge_before])
    after = join_markup([*edge_after, *list_parts(runs[end:]), *closing])

    # The texts inside the paragraph, such as footnotes, must be the same in both, in the same order;
    # where a damaged document has some in a place that is not read, the paragraph is written anew.
    found = sum(_count_slots(parts) for parts in (before, *tags.values(), after))
    return [
        TextSlot(
            text,
            tags,
            original if found == _count_slots(original) else None,
            escape or base.escape,
            wraps=wraps,
            base_wrap=base.wrap,
            before=before,
            after=after,
            mark=mark,
            name_language=name_language,
            line_break=line_break,
            heading=heading,
        )
    ]


def _count_slots(parts: Parts) -> int:
    return sum(isinstance(part, TextSlot) for part in parts)


def _merge_runs(items: Iterable[Item]) -> list[Item]:
    """Return items in which neighbouring runs of one formatting are one."""
    out: list[Item] = []
    for key, group in groupby(items, key=lambda item: item.key if isinstance(item, Run) else None):
        stretch = [*group]
        first = stretch[0]
        if key is None or len(stretch) == 1 or not isinstance(first, Run):
            out += stretch
        else:
            texts = [item.text for item in stretch if isinstance(item, Run)]
            out.append(replace(first, text="".join(texts)))
    return out


def is_sign(text: str, is_raised: bool = False) -> bool:
    """Return whether a text of its own formatting is a sign beside the words, as the star of a footnote is.

    A model may leave such a sign out, so it is no text but a tag, which is always kept.

    >>> [is_sign("*"), is_sign("."), is_sign("2"), is_sign("2", is_raised=True), is_sign("th", is_raised=True)]
    [True, False, False, True, False]
    """
    if not text.strip() or LETTER.search(text):
        return False

    return is_raised or not any(map(_belongs_to_sentence, text.strip()))


def _belongs_to_sentence(character: str) -> bool:
    return character in _MARKS_OF_SENTENCES or character.isdecimal()


def find_middle(items: Sequence[Item], signs: Collection[int] = ()) -> tuple[int, int]:
    """Return where the items begin and end that a translation may move: from the first text with words to the last.

    If one tag of a pair is among them, the other is, too. Runs at the places `signs` are no words.
    """
    texts = [i for i, item in enumerate(items) if isinstance(item, Run) and item.text.strip()]
    words = [i for i in texts if i not in signs] or texts

    partners = pair_tags(items)
    start, end = words[0], words[-1] + 1

    # Each item is looked at once, also those that come in with the partner of another one.
    low = high = start
    while low > start or high < end:
        if high < end:
            place = high
            high += 1
        else:
            low -= 1
            place = low
        partner = partners.get(place, place)
        start, end = min(start, partner), max(end, partner + 1)
    return start, end


def pair_tags(items: Sequence[Item]) -> dict[int, int]:
    """Return the place of the other half of each tag that is one of a pair, whichever of both comes first."""
    partners: dict[int, int] = {}
    waiting: dict[tuple[Hashable, str], list[int]] = {}
    for i, item in enumerate(items):
        if not isinstance(item, Inline) or item.kind == "single":
            continue
        other = "closing" if item.kind == "opening" else "opening"
        if found := waiting.get((item.key, other)):
            partner = found.pop()
            partners[partner], partners[i] = i, partner
        else:
            waiting.setdefault((item.key, item.kind), []).append(i)
    return partners


def _cut_edges(items: Sequence[Item]) -> tuple[Parts, list[Item], Parts]:
    """Return wide spaces before the items, the items without them, and those behind."""
    middle = [*items]
    edges: list[Parts] = []
    for place, side in ((0, "lstrip"), (-1, "rstrip")):
        run = middle[place]
        edge: Parts = ()
        if isinstance(run, Run):
            text: str = getattr(run.text, side)(" ")
            cut = len(run.text) - len(text)
            if cut > 1 and text:
                middle[place] = replace(run, text=text)
                edge = _write_run(run, " " * cut)
        edges.append(edge)
    return edges[0], middle, edges[1]


def _write_run(run: Run, text: str) -> list[Part]:
    return [run.wrap[0], run.escape(text), run.wrap[1]]


def _tag_formatting(items: Sequence[Item], base: str) -> list[str | Inline]:
    """Return texts and tags, with a pair of tags around each stretch of another formatting than `base`."""
    out: list[str | Inline] = []
    spaces = 0
    for item in items:
        if isinstance(item, Inline):
            out.append(item)
            continue

        if item.key != base and is_sign(item.text, item.is_raised):
            sign = item.text.strip()
            before, _, after = item.text.partition(sign)
            out += [before, Inline("single", None, _write_run(item, sign)), after]
            continue

        pieces: list[str | Inline] = [item.text]
        if spaces < _MOST_SPACES:
            pieces = _cut_wide_spaces(item)
            spaces += len(pieces) // 2

        # A line to fill in is an underlined tab.
        if item.key == base or not (item.text.strip() or "\t" in item.text):
            out += pieces
        else:
            tag = ("formatting", len(out))
            out += [Inline("opening", tag, [], item.wrap), *pieces, Inline("closing", tag, [])]
    return out


def _cut_wide_spaces(run: Run) -> list[str | Inline]:
    """Return a text in which each wide space is one space, and a tag that stands for the others."""
    if "  " not in run.text:  # as most texts are
        return [run.text]
    out: list[str | Inline] = []
    position = 0
    for match in _WIDE_SPACE.finditer(run.text):
        out += [run.text[position : match.start() + 1]]
        out.append(Inline("single", None, _write_run(run, match[0][1:])))
        position = match.end()
    return [*out, run.text[position:]]


def list_parts(items: Sequence[Item]) -> Parts:
    """Return what items stand for, as it is written where they are not translated."""
    out: list[Part] = []
    for item in items:
        out += _write_run(item, item.text) if isinstance(item, Run) else item.parts
    return join_markup(out)


def has_words(items: Iterable[Item]) -> bool:
    """Return whether a text among the items has a letter."""
    return any(isinstance(item, Run) and LETTER.search(item.text) for item in items)


def split_at_breaks(text: str, breaks: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the stretches of a text between tabs and line ends, each with the markup that stands behind it.

    >>> [*split_at_breaks("a\\tb", {"\\t": "<tab/>"})]
    [('a', '<tab/>'), ('b', '')]
    """
    position = 0
    for match in re.finditer("[" + "".join(breaks) + "]", text):
        yield text[position : match.start()], breaks[match[0]]
        position = match.end()
    yield text[position:], ""


def cut_opening(xml: XmlText, element: XmlElement, names: Collection[str]) -> Parts:
    """Return the opening tag of an element with a slot in place of the value of each of these attributes.

    A value without a letter stays as it is, and so does one that is the name of a file.

    """
    opening = xml.opening(element)
    out: list[Part] = []
    position = 0
    for value, start, end in find_attributes(opening, names):
        is_file_name = " " not in value and PurePath(value).suffix[1:].isalnum()
        if LETTER.search(value) and not is_file_name:
            original = opening[start:end]
            out += [opening[position:start], TextSlot(value, {}, [original], _escape_attribute)]
            position = end
    return [*out, opening[position:]]


def _escape_attribute(text: str) -> str:
    escaped = escape_xml_text(text)
    for sign, reference in {'"': "&quot;", "'": "&#39;", "\n": "&#10;", "\t": "&#9;"}.items():
        escaped = escaped.replace(sign, reference)
    return escaped


def make_content_slot(xml: XmlText, element: XmlElement, heading: int = 0) -> Parts:
    """Return an element that holds nothing but text as a slot between its tags."""
    text = xml.content(element)
    if element.children or not text.strip():
        return [xml.raw(element)]

    inside = xml.text[element.inner : element.inner_end]
    return [
        xml.opening(element),
        TextSlot(text, {}, [inside], escape_xml_text, heading=heading),
        xml.closing(element),
    ]


def count_kept(xml: XmlText, kinds: Mapping[str, str], reading: DocumentReading) -> None:
    """Count the elements with words whose names are in `kinds`, each as of the kind there, and none inside another.

    A name there has a prefix where elements with another prefix are something else.
    """
    names = {name.rpartition(":")[2] for name in kinds}

    waiting = [xml.root]
    while waiting:
        element = waiting.pop()
        kind = None
        if element.name in names:
            kind = kinds.get(element.name) or kinds.get(xml.prefix(element) + element.name)
        if kind is None:
            waiting += element.children
        else:
            reading.count_text(kind, TAG.sub(" ", xml.raw(element)))
