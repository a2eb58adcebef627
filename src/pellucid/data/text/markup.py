"""Takes tags out of a text before it is translated, and puts them back around the words they belong to."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, NamedTuple

from pellucid.data.text.protected import CODE, PROTECTED_SIGN, find_protected
from pellucid.data.text.tag_placement import (
    Link,
    Span,
    Tag,
    leaning_side,
    link_pieces,
    match_tags,
    place_tags,
)

VALUE = r"""(?:"[^"]*+"|'[^']*+'|(?:[^\s"'<>=`/]|/(?!>))++)"""
# A tag as in XML and HTML, or a numbered one; "a < b", "<3" and "<me@example.com>" are text.
TAG = re.compile(
    rf"<(/?)([A-Za-z][\w:.-]*+|\d++)(?:\s++[\w:.@-]++\s*+=\s*+{VALUE})*+\s*+(/?)>", re.ASCII
)

EMPTY = ("br", "hr", "img", "input", "wbr")
BLOCKS = re.compile(  # names of tags that separate words; those in `EMPTY` need no closing tag
    "|".join(
        (*EMPTY, "blockquote|d[dlt]|div|figcaption|h[1-6]|li|[ou]l|option|p|pre|t[dhr]|table|title")
    )
)

# Spaces as HTML spells them. They separate words, and go where the words beside them go.
_SPACE_ENTITY = re.compile(r"&(?:nbsp|ensp|emsp|thinsp|#160|#[xX][aA]0);")

# Marks of Markdown: of emphasis, and of links, as
# [text](address), ![text](address) or [text][name].
_MARK = re.compile(
    r"\\[*_~\[\]]|(?P<emphasis>(?<!\*)\*{1,3}(?!\*)|(?<!_)_{1,3}(?!_)|(?<!~)~~(?!~))|(?P<opening>!?\[)"
    r"|(?P<closing>\](?P<address>\((?:[^()\s]|\([^()\s]*+\))++(?:\s++\"[^\"]*+\")?\)|\[[\w.-]++\])?)"
)
_MARK_SIGN = re.compile(r"[*_~]|\][(\[]")  # every text with a pair of marks has one
_NUMBERED = re.compile(r"</?\d")
# What begins a heading or a quotation of Markdown, but not >>fra<<,
# which tells an imported model what to write.
LEADING_MARKS = re.compile(r"(?:\s*+(?:#{1,6}(?=\s)|>(?!>\w{1,16}<<)))++")

# Every text with markup has one.
MARKUP_SIGN = re.compile(rf"<|{_MARK_SIGN.pattern}|{PROTECTED_SIGN.pattern}|^\s*+>")


class TagMatch(NamedTuple):
    """A tag where it stands in a text."""

    start: int
    end: int
    name: str
    kind: Literal["opening", "closing", "single"]

    def shift_by(self, distance: int) -> "TagMatch":
        """Return the tag as it stands in a text that begins so many characters earlier."""
        return self._replace(start=self.start + distance, end=self.end + distance)


@dataclass(frozen=True)
class TaggedText:
    """A text without its tags, and the tags in order."""

    text: str
    tags: tuple[Tag, ...] = ()


def extract_tags(text: str, matches: "Sequence[TagMatch] | None" = None) -> TaggedText:
    """Take the tags out of a text: those that `matches` names, or else all that are found in it.

    Of two spaces around a tag, one is removed with it. A tag that
    separates words, like a line break, leaves a space.

    >>> marked = extract_tags("The <b>black cat</b> <br/> is here:<br/>1 < 2.")
    >>> marked.text, [(tag.text, tag.position) for tag in marked.tags]
    ('The black cat is here: 1 < 2.', [('<b>', 4), ('</b>', 13), ('<br/>', 14), ('<br/>', 22)])
    """
    plain: list[str] = []
    tags: list[Tag] = []

    # `group` is the index of the first tag after the last text.
    length = previous_end = group = 0
    for match in [*(find_tags(text) if matches is None else matches), None]:
        between = text[previous_end : match.start if match else len(text)]
        if between and tags:
            # The white space after a tag that already has some before
            # it, or begins the text, is the tag's.
            if not plain or plain[-1][-1].isspace():
                stripped = between.lstrip()
                tags[-1] = replace(tags[-1], after=between[: len(between) - len(stripped)])
                between = stripped
            elif begins_word(between) and any(map(separates_words, tags[group:])):
                tags[group:] = _move_shared_space(tags[group:])
                between = " " + between

        if between:
            plain.append(between)
            length, group = length + len(between), len(tags)
        if match:
            tags.append(Tag(text[match.start : match.end], match.name, match.kind, length))
            previous_end = match.end

    return _move_last_space(TaggedText("".join(plain), tuple(tags)))


def find_tags(text: str) -> list[TagMatch]:
    """Find the tags of a text, in order: tags of XML and HTML, numbered tags, and pairs of Markdown marks.

    >>> [text[tag.start : tag.end] for text in ["A <b>*big* cat</b>, 2*3, see [it](x.md)."] for tag in find_tags(text)]
    ['<b>', '*', '*', '</b>', '[', '](x.md)']
    """
    tags: list[TagMatch] = []
    if "<" in text:
        # In code, as in `<b>` or :ref:`text <label>`, only numbered tags are
        # tags: they stand for markup of a document.
        code: set[int] = set()
        if "`" in text:
            for match in CODE.finditer(text):
                code.update(range(*match.span()))
        for match in TAG.finditer(text):
            if match.start() not in code or _NUMBERED.match(match[0]):
                closing, name, single = match.groups()
                kind = "closing" if closing else "single" if single else "opening"
                tags.append(TagMatch(*match.span(), name.lower(), kind))

    if "&" in text:
        spaces = _SPACE_ENTITY.finditer(text)
        tags = sorted([*tags, *(TagMatch(*match.span(), "&nbsp;", "single") for match in spaces)])
    return sorted([*tags, *_find_marks(text)]) if _MARK_SIGN.search(text) else tags


def _find_marks(text: str) -> list[TagMatch]:
    """Find the marks of Markdown in a text, as opening and closing tags; each has its partner."""
    taken: set[int] = set()
    for match in chain(find_protected(text), TAG.finditer(text)):
        taken.update(range(*match.span()))
    marks: list[TagMatch] = []
    open_marks: list[TagMatch] = []
    open_names = Counter[str]()
    for match in _MARK.finditer(text):
        if match.lastgroup is None or match.start() in taken:
            continue
        name = match["emphasis"] or "["
        opens, closes = not match["closing"], bool(match["closing"])
        if match["emphasis"]:
            opens, closes = _mark_sides(text, match)
        mark = TagMatch(*match.span(), name, "closing")
        if closes and open_names[name]:
            # Marks that were opened after the partner have none.
            partner = None
            while partner is None or partner.name != name:
                partner = open_marks.pop()
                open_names[partner.name] -= 1
            # Brackets without an address are brackets.
            marks += [partner, mark] if match["emphasis"] or match["address"] else []
        elif opens:
            open_marks.append(mark._replace(kind="opening"))
            open_names[name] += 1

    return marks


def _mark_sides(text: str, match: re.Match[str]) -> tuple[bool, bool]:
    """Return whether a mark of emphasis can open and whether it can close, by the characters beside it.

    It touches the text that it marks. On its other side is no letter or digit of
    Latin script, beside "_" none at all: "2*3*4", "f**k" and "snake_case" are
    text, but the words beside "**" may be Chinese.
    """
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]

    def is_outside(character: str) -> bool:
        return not (character.isalnum() and (character.isascii() or match[0].startswith("_")))

    can_open = bool(after.strip()) and is_outside(before)
    can_close = bool(before.strip()) and is_outside(after)
    return can_open, can_close


def begins_word(text: str) -> bool:
    """Whether a text begins with something that a space can precede."""
    closes = unicodedata.category(text[0]) in ("Po", "Pe", "Pf") and text[0] not in "¡¿\"'"
    return not (closes or text[0].isspace())


def separates_words(tag: Tag | TagMatch) -> bool:
    """Whether a tag separates the word before it from the word after it, as in "one</li><li>two"."""
    return tag.kind == "single" or BLOCKS.fullmatch(tag.name) is not None


def _move_shared_space(tags: Sequence[Tag]) -> list[Tag]:
    """Put the space that was added to the plain text among neighbouring tags, before the opening tags at their end."""
    closed = max(
        (i for i, tag in enumerate(tags, start=1) if tag.kind != "opening" or tag.name in EMPTY),
        default=0,
    )
    shifted = [*tags[:closed], *(replace(tag, position=tag.position + 1) for tag in tags[closed:])]
    owner = max(0, closed - 1)
    shifted[owner] = replace(shifted[owner], shares_space=True)
    return shifted


def _move_last_space(marked: TaggedText) -> TaggedText:
    """Move white space before tags at the end of the text from the text to the tags."""
    # The model never sees white space at the end of a text, so it must be kept with a tag.
    words = marked.text.rstrip()
    last = [i for i, tag in enumerate(marked.tags) if tag.position == len(marked.text)]
    if not last or len(words) == len(marked.text):
        return marked
    tags = [replace(tag, position=min(tag.position, len(words))) for tag in marked.tags]
    tags[last[0]] = replace(tags[last[0]], before=marked.text[len(words) :])
    return TaggedText(words, tuple(tags))


def restore_tags(marked: TaggedText, translation: str, alignment: Sequence[Link]) -> str:
    """Put each tag back where its words are in the translation; `alignment` links words of both, counted from 0.

    A pair of tags goes around everything that is aligned with its content. If words of a
    neighbour come between, it goes around the longer piece; if nothing is aligned, it stays
    together, beside its neighbour in the source. Nested tags stay nested. Without any alignment,
    words are linked to those that are as far along.

    >>> marked = extract_tags("The <i>white</i> <b>house</b>, <br/>here.")
    >>> restore_tags(marked, "La casa blanca, aquí.", [(0, 0), (1, 2), (2, 1), (3, 3)])
    'La <b>casa</b> <i>blanca</i>, <br/>aquí.'
    """
    within = _tags_in_protected(marked)

    # Tags inside protected text are put back last, by their offset in
    # it: no alignment says where they belong.
    outer_tags = tuple(tag for i, tag in enumerate(marked.tags) if i not in within)
    outer = TaggedText(marked.text, outer_tags)
    with_outer = _restore_beside_words(outer, translation, alignment)
    with_all = _restore_in_protected(with_outer, marked.tags, within)
    return _restore_beside_words(marked, translation, alignment) if with_all is None else with_all


def _tags_in_protected(marked: TaggedText) -> dict[int, tuple[str, int, int]]:
    """Return the tags that are, with their partners, inside protected text, by their indices.

    The value is the protected text, how many equal ones come
    before it, and the offset of the tag in it.
    """
    counts, inside = Counter[str](), dict[int, tuple[str, int, int]]()
    for match in find_protected(marked.text):
        for i, tag in enumerate(marked.tags):
            if match.start() < tag.position < match.end():
                inside[i] = match[0], counts[match[0]], tag.position - match.start()
        counts[match[0]] += 1

    pairs = match_tags(marked.tags)
    partners = pairs | {closing: opening for opening, closing in pairs.items()}
    # A pair with one tag outside must be placed as a pair, by the alignment.
    kept: dict[int, tuple[str, int, int]] = {}
    for i, entry in inside.items():
        if i not in partners or inside.get(partners[i], ())[:2] == entry[:2]:
            kept[i] = entry
    return kept


def _restore_in_protected(
    text: str, tags: Sequence[Tag], within: Mapping[int, tuple[str, int, int]]
) -> str | None:
    """Put tags back into protected text; None if one of the protected texts is not in the translation unchanged."""
    cuts: list[tuple[int, int]] = []
    for number, (protected, before, offset) in within.items():
        starts = [match.start() for match in re.finditer(re.escape(protected), text)]
        if len(starts) <= before:
            return None
        cuts.append((starts[before] + offset, number))

    out, previous_end = [], 0
    for position, number in sorted(cuts):
        tag = tags[number]
        out += [text[previous_end:position], tag.before, tag.text, tag.after]
        previous_end = position
    return "".join([*out, text[previous_end:]])


def _restore_beside_words(marked: TaggedText, translation: str, alignment: Sequence[Link]) -> str:
    """Put each tag before or after a word of the translation, or into a word that is the same in both texts."""
    if not marked.tags:
        return translation
    cuts = {tag.position for tag in marked.tags}
    sources, targets, links = link_pieces(marked.text, cuts, translation, alignment)
    uncut = _find_uncut(marked, translation, targets)
    order = place_tags(marked.tags, marked.text, sources, targets, links, uncut)
    return _write_with_tags(order, marked, translation, targets)


def _find_uncut(marked: TaggedText, translation: str, targets: Sequence[Span]) -> list[Span]:
    """Return the pieces of a translation that no tag may separate: the protected texts that had no tag inside."""
    positions = [tag.position for tag in marked.tags]  # ascending, as the tags are
    with_tag: set[str] = set()
    for match in find_protected(marked.text):
        first = bisect_right(positions, match.start())
        if first < len(positions) and positions[first] < match.end():
            with_tag.add(match[0])

    starts = [start for start, _ in targets]
    uncut: list[tuple[int, int]] = []
    for match in find_protected(translation):
        if match[0] not in with_tag:
            # From the piece in which it begins to the first that begins behind it.
            first = max(0, bisect_right(starts, match.start()) - 1)
            uncut.append((first, bisect_left(starts, match.end())))
    return uncut


def _write_with_tags(
    order: Sequence[tuple[int, int]], marked: TaggedText, translation: str, targets: Sequence[Span]
) -> str:
    """Write the pieces of the translation with the tags between them."""
    tags_at: dict[int, list[int]] = defaultdict(list)
    for gap, number in order:
        tags_at[gap].append(number)
    out, previous_end = [], 0
    for gap, (start, end) in enumerate([*targets, (len(translation), len(translation))]):
        space, numbers = translation[previous_end:start], tags_at[gap]
        # This space was added when the tag was taken out, so it goes again.
        if space == " " and any(marked.tags[number].shares_space for number in numbers):
            space = ""
        # Tags that lean on the word before them come before the space, the others after it.
        early = 0
        for number in numbers:
            if leaning_side(marked.tags[number], marked.text) != "left":
                break
            early += 1

        last = len(targets)
        tag_texts = [_tag_with_spaces(marked, number, gap, last, space) for number in numbers]
        out += [*tag_texts[:early], space, *tag_texts[early:], translation[start:end]]
        previous_end = end

    return "".join(out)


def _tag_with_spaces(marked: TaggedText, number: int, gap: int, last: int, space: str) -> str:
    """Return a tag with the white space that was removed with it, moved so that none is new at an end of the text."""
    tag = marked.tags[number]
    # Between two words without a space: words of a language without spaces, or a tag inside a word.
    if 0 < gap < last and not space:
        return tag.text
    if gap == 0 < last:
        return tag.text + tag.before + tag.after
    if gap == last > 0 and tag.position < len(marked.text):
        return tag.before + tag.after + tag.text
    return tag.before + tag.text + tag.after
