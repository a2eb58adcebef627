"""Splits a line into segments that the model can translate, and joins their translations to a line again."""

import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise

from pellucid.data.text.icu_messages import find_message_texts
from pellucid.data.text.markup import (
    LEADING_MARKS,
    MARKUP_SIGN,
    TagMatch,
    extract_tags,
    find_tags,
    separates_words,
)
from pellucid.data.text.protected import find_protected
from pellucid.data.text.sentences import sentence_ends
from pellucid.data.text.surroundings import MOST_MARKS, trim_marks

# A function that lists where text[start:end] may be cut: positions
# after `start`, ascending, the last one `end`.
FindEnds = Callable[[str, int, int], list[int]]
# They separate cells or lines, and are never inside a segment.
BREAKS = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
CELL, BREAK_RUN = re.compile(f"[^{BREAKS}]++"), re.compile(f"[{BREAKS}]++")
# Between the cells of a table in Markdown, or the parts of a title, and around them; and a line end
# or a tab as programs spell it, but not "C:\new".
BAR = re.compile(r"(?<!\S)\|{1,2}(?!\S)|(?<!\\)\\[nrt](?![a-z0-9_{(\[])")
JOINT = re.compile(rf"[^\S{BREAKS}]*+")  # what stands between sentences of one cell
# White space, control characters and invisible characters, except
# joiners, which shape the letters beside them.
SPACES = r"\s\0-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"

SYMBOLS = "".join(
    character
    for character in map(chr, (*range(0x2190, 0x2800), *range(0x2900, 0x2C00)))
    if unicodedata.category(character) == "So" and not unicodedata.decomposition(character)
)
# Emoji, the letters of flags, and older symbols, but not those that
# stand for letters (℃, Ⓐ), Braille, °, © or №.
PICTURES = rf"{SYMBOLS}\U0001f000-\U0001f0ff\U0001f170-\U0001f1ff\U0001f300-\U0001faff"
# Characters that belong to the emoji before them: joiner, keycap,
# variation selectors, skin tones, tags.
ATTACHED = r"\u200d\u20e3\ufe0e\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"

TAIL = re.compile(f"[{ATTACHED}]")
OUTER_RUN = re.compile(
    rf"(?:[{SPACES}]|(?:[{PICTURES}]|[0-9#*]\ufe0f?\u20e3|[©®‼⁉™ℹ〰〽㊗㊙\u2190-\u2bff]\ufe0f)[{ATTACHED}]*+)++"
)

# The white space before a picture goes where the picture goes.
PICTURE = re.compile(rf"[^\S{BREAKS}]*+((?:[{PICTURES}][{ATTACHED}]*+)++)")

# Any first or last character of an `OUTER_RUN`; most texts begin
# and end with another, and need no search.
OUTER_CHARACTER = re.compile(rf"[{SPACES}{PICTURES}{ATTACHED}0-9#*©®‼⁉™ℹ〰〽㊗㊙\u2190-\u2bff]")

# Possessive quantifiers (*+, ++) everywhere: no text, however
# long, makes a search go back and try again.
CLAUSE_END = re.compile(r"[;:,–—](?=\s)|[、，；：،؛]")
SPACE = re.compile(r"\s++")

UNSPACED = re.compile(  # a letter or mark of a script that puts no spaces between sentences
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]"
)


@dataclass(frozen=True)
class SplitLine:
    """The segments of a line to be translated, and the gaps around them: one gap more than segments."""

    segments: tuple[str, ...]
    gaps: tuple[str, ...]

    def __post_init__(self) -> None:
        assert len(self.gaps) == len(self.segments) + 1


NO_LIMIT = sys.maxsize


@dataclass(frozen=True)
class SplitRules:
    """Rules for the segments of a line: how many sentences stand `together` in one, and what is left out of them.

    A sentence stands together with the one before where it `continues` it. Marks of the kinds in
    `marks` (`MARK_KINDS`) around a segment are left out, and so is text without a letter if
    `keep_without_letters`; if `keep_markup`, text outside of tags and protected text counts, and
    the marks of a heading and all of a message of ICU but its texts are left out, too.
    """

    together: int = NO_LIMIT
    continues: Callable[[str], bool] = lambda sentence: True
    marks: frozenset[str] = frozenset()
    keep_without_letters: bool = True
    keep_markup: bool = True


EACH_SENTENCE, ALL_SENTENCES = SplitRules(together=1), SplitRules()


def split_line(
    line: str,
    fits: Callable[[str], bool] = lambda text: True,
    fits_sentence: Callable[[str], bool] | None = None,
    rules: SplitRules = ALL_SENTENCES,
) -> SplitLine:
    r"""Split a line into segments: the sentences of its cells between tabs or bars, as many together as allowed.

    Sentences stand in one segment only where it `fits`. A sentence that does not meet
    `fits_sentence`, which may be wider, is cut after clauses, then after words, then
    between characters. Only the last cuts a tag or a placeholder in two. White space and
    emoji around a segment, and what the rules leave out, go into the gaps. A single
    character that does not fit is a segment all the same.

    >>> split_line("\tThe ball is blue. It is new. 😀")
    SplitLine(segments=('The ball is blue. It is new.',), gaps=('\t', ' 😀'))
    >>> split_line("The ball is blue. It is new.", rules=SplitRules(together=1)).segments
    ('The ball is blue.', 'It is new.')
    >>> split_line("1. The ball is blue. 12,5", rules=SplitRules(together=1, marks=frozenset({"numbers"})))
    SplitLine(segments=('The ball is blue.',), gaps=('1. ', ' 12,5'))
    >>> split_line("# {n, plural, one {a ball} other {# balls}}").segments
    ('a ball', '# balls')
    """
    spans: list[tuple[int, int]] = []
    packing = _Packing(line, fits, fits_sentence or fits, rules)
    has_markup = rules.keep_markup and MARKUP_SIGN.search(line) is not None
    for start, end in _find_texts(line) if has_markup else [(0, len(line))]:
        for first, last in _find_cells(line, start, end):
            cell = line[first:last]
            if not rules.keep_without_letters or is_translatable(cell, has_markup):
                spans += packing.pack_sentences(first, last, _keep_markup_whole(cell, first))

    # A cell that was cut may have parts without a letter.
    if rules.keep_without_letters and len(spans) > 1:
        spans = [span for span in spans if is_translatable(line[slice(*span)], has_markup)]
    edges = [0, *(edge for span in spans for edge in span), len(line)]
    # Between the edges lie gap, segment, gap, ..., segment, gap.
    texts = [line[start:end] for start, end in pairwise(edges)]
    return SplitLine(tuple(texts[1::2]), tuple(texts[::2]))


def _find_texts(line: str) -> list[tuple[int, int]]:
    """Return the spans of a line without the marks at its beginning and without what frames the texts of a message."""
    marks = LEADING_MARKS.match(line)
    first = marks.end() if marks else 0
    return [(max(start, first), end) for start, end in find_message_texts(line) if end > first]


def _find_cells(line: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the spans of the cells of line[start:end]: what stands between tabs, line ends and bars.

    >>> line = "| The ball | {{ x | y }} |"
    >>> [line[start:end] for start, end in _find_cells(line, 0, len(line))]
    [' The ball ', ' {{ x | y }} ']
    """
    # Most lines have neither.
    if "|" not in line and "\\" not in line:
        return [match.span() for match in CELL.finditer(line, start, end)]
    inside = {i for match in find_protected(line) for i in range(*match.span())}
    bars = [bar.span() for bar in BAR.finditer(line, start, end) if bar.start() not in inside]
    breaks = [run.span() for run in BREAK_RUN.finditer(line, start, end)]
    edges = [start, *chain.from_iterable(sorted([*bars, *breaks])), end]
    cells = zip(edges[::2], edges[1::2], strict=True)
    return [(first, last) for first, last in cells if first < last]


def is_translatable(text: str, has_markup: bool) -> bool:
    """Return whether a text has letters; where it may have markup, letters outside of it.

    >>> is_translatable("5 <b>%</b>, {name}", has_markup=True), is_translatable("5 {name}", has_markup=False)
    (False, True)
    """
    if not has_markup or not has_letters(text):
        return has_letters(text)
    plain = extract_tags(text).text
    position = 0
    for match in find_protected(plain):
        if has_letters(plain[position : match.start()]):
            return True
        position = match.end()
    return has_letters(plain[position:])


def find_pictures(text: str, knows: Callable[[str], bool]) -> list[TagMatch]:
    """Find the emoji and symbols of a text that a model does not know (`knows` says it), as tags.

    >>> [(tag.start, tag.end) for tag in find_pictures("a 👍🏽 b ☂ c", lambda character: character == "☂")]
    [(1, 4)]
    """
    if text.isascii():
        return []
    tags: list[TagMatch] = []
    for match in PICTURE.finditer(text):
        if not knows(match[1][0]):
            tags.append(TagMatch(*match.span(), match[0], "single"))
    return tags


def has_letters(text: str) -> bool:
    """Whether a text has something to translate: a letter, or a mark that no letter before it carries.

    >>> [has_letters(text) for text in ("12,5 €", "2024-01-01", "½", "1️⃣", "5 km", "二〇二四")]
    [False, False, False, False, True, True]
    """
    # The joiners of emoji are marks, too.
    for character in text:
        is_mark = unicodedata.category(character)[0] == "M"
        if character.isalpha() or (is_mark and character not in "\u20e3\ufe0e\ufe0f"):
            return True
    return False


def join_line(line: SplitLine, texts: Sequence[str]) -> str:
    r"""Join texts that replace the segments of a line; with the segments themselves the result is the original line.

    Between sentences that had no space, as in Chinese,
    translations into a language with spaces get one.

    >>> join_line(SplitLine(("Yes.", "No."), (" ", "\t", " 😀")), ["Sí.", "No."])
    ' Sí.\tNo. 😀'
    >>> join_line(SplitLine(("是。", "不。"), ("", "", "")), ["Yes.", "No."])
    'Yes. No.'
    """
    assert len(texts) == len(line.segments)
    gaps = list(line.gaps)
    for i, (left, right) in enumerate(pairwise(texts), start=1):
        if not gaps[i] and left and right and UNSPACED.match(line.segments[i - 1][-1]):
            gaps[i] = "" if UNSPACED.match(left[-1]) or UNSPACED.match(right[0]) else " "
    return "".join(piece for pair in zip(gaps, [*texts, ""], strict=True) for piece in pair)


def describe_split(line: str, split: SplitLine, rules: SplitRules = ALL_SENTENCES) -> str | None:
    r"""Return a note on a line that was too long for one segment, or None; its cells and sentences are no reason.

    >>> describe_split("Yes, no.", SplitLine(("Yes,", "no."), ("", " ", "")))
    'split into 2 parts'
    >>> describe_split("Yes.\tNo.", SplitLine(("Yes.", "No."), ("", "\t", "")))
    """
    wanted = split_line(line, rules=rules).segments
    return f"split into {len(split.segments)} parts" if len(split.segments) > len(wanted) else None


@dataclass(frozen=True)
class _Packing:
    """A text to be cut into segments, and what a segment may be."""

    text: str
    fits: Callable[[str], bool]
    fits_sentence: Callable[[str], bool]
    rules: SplitRules

    def pack_sentences(
        self, start: int, end: int, levels: Sequence[FindEnds]
    ) -> list[tuple[int, int]]:
        """Return the spans of the segments of text[start:end]."""
        start, end = self.trim(start, end)
        if start == end:
            return []
        ends = levels[0](self.text, start, end)

        # Most lines are one sentence.
        if len(ends) == 1 and self.fits(self.text[start:end]):
            return [(start, end)]

        def count_together(first: int) -> int:
            return self._count_together(ends, first)

        return self._pack(start, ends, levels[1:], self.fits, count_together)

    def _count_together(self, ends: Sequence[int], first: int) -> int:
        """Count the sentences from number `first` on that may stand together."""
        most = min(len(ends) - first, self.rules.together)
        together = 1
        while together < most:
            last = first + together
            if not self.rules.continues(self.text[ends[last - 1] : ends[last]]):
                break
            together += 1
        return together

    def _pack_parts(
        self, start: int, end: int, levels: Sequence[FindEnds]
    ) -> list[tuple[int, int]]:
        """Return the spans of the segments of a sentence, each as long as fits, cut at the coarsest level possible."""
        start, end = self.trim(start, end)
        if start == end:
            return []
        if not levels or self.fits_sentence(self.text[start:end]):
            return [(start, end)]
        ends = levels[0](self.text, start, end)

        def count_all(first: int) -> int:
            return len(ends) - first

        return self._pack(start, ends, levels[1:], self.fits_sentence, count_all)

    def _pack(
        self,
        start: int,
        ends: Sequence[int],
        finer: Sequence[FindEnds],
        fits: Callable[[str], bool],
        count_together: Callable[[int], int],
    ) -> list[tuple[int, int]]:
        """Return the spans from `start` to the last end, with as many ends in each as fit and may stand together."""
        spans: list[tuple[int, int]] = []
        first_end = 0
        while first_end < len(ends):
            candidates = ends[first_end : first_end + count_together(first_end)]
            count = self._count_fitting_ends(start, candidates, fits)
            stop = candidates[max(1, count) - 1]
            if count:
                first, last = self.trim(start, stop)
                spans += [(first, last)] if first < last else []
            else:
                # Not even the first fits: it is cut at a finer level, where
                # only the wider limit does not take it.
                spans += self._pack_parts(start, stop, finer)

            start, first_end = stop, first_end + max(1, count)
        return spans

    def trim(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of text[start:end] without white space, emoji and the marks around it."""
        span = _trim_span(self.text, start, end)
        if not self.rules.marks:
            return span

        for _ in range(MOST_MARKS):
            inner = trim_marks(self.text, *span, self.rules.marks)
            if inner == span:
                break
            span = _trim_span(self.text, *inner)
        return span

    def _count_fitting_ends(
        self, start: int, ends: Sequence[int], fits: Callable[[str], bool]
    ) -> int:
        """Count how many of the ends a segment that begins at `start` can include."""

        def fit(count: int) -> bool:
            first, last = self.trim(start, ends[count - 1])
            return first == last or fits(self.text[first:last])

        return _largest_fitting(fit, len(ends))


def _trim_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of text[start:end] without white space and emoji at its ends; an empty span if nothing is left.

    >>> _trim_span("👍🏽 2 * 3 = 6 ☺️ 1️⃣ ", 0, 20)
    (3, 12)
    """
    is_edged = OUTER_CHARACTER.match(text, start) or OUTER_CHARACTER.match(text, end - 1)
    if start == end or not is_edged:
        return start, end
    first, last = start, end
    for run in OUTER_RUN.finditer(text, start, end):
        if run.start() == start:
            first = run.end()
        if run.end() == end:
            last = run.start()
    return first, max(first, last)


def _largest_fitting(holds: Callable[[int], bool], total: int) -> int:
    """Return the largest n from 1 to `total` for which `holds` is true, or 0, in O(log n) calls.

    If `holds` is not true for all smaller numbers, the result is a number for which it is true.

    >>> (_largest_fitting(lambda n: n <= 11, 100), _largest_fitting(lambda n: n <= 11, 7),
    ...  _largest_fitting(lambda n: False, 7))
    (11, 7, 0)
    """
    # Doubling before halving: n is small beside `total`, and `holds`
    # tokenizes a text, so large n are costly.
    low, high = 0, 1
    while high <= total and holds(high):
        low, high = high, 2 * high
    high = min(high, total + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _ends_after(pattern: re.Pattern[str]) -> FindEnds:
    return lambda text, start, end: [
        *(m.end() for m in pattern.finditer(text, start, end) if m.end() < end),
        end,
    ]


def character_ends(text: str, start: int, end: int) -> list[int]:
    """Return the ends of characters as a reader sees them: a letter with accents, an emoji with joiners, a flag.

    >>> character_ends("e\u0301x👩🏽‍🚀🇺🇦🇵🇪", 0, 11)
    [2, 3, 7, 9, 11]
    """
    # `letters` counts the regional indicators in a row: two of them are a flag.
    ends, letters = [], 0
    for i in range(start + 1, end):
        last, following = text[i - 1], text[i]
        letters = letters + 1 if "\U0001f1e6" <= last <= "\U0001f1ff" else 0
        flag = letters % 2 == 1 and "\U0001f1e6" <= following <= "\U0001f1ff"
        attached = (
            unicodedata.category(following).startswith("M")
            or TAIL.match(following)
            or last == "\u200d"
        )
        if not (flag or attached):
            ends.append(i)

    return [*ends, end]


# From coarse to fine. Code points come last for a character whose
# accents alone are too many for the model.
SPLIT_LEVELS: tuple[FindEnds, ...] = (
    sentence_ends,
    _ends_after(CLAUSE_END),
    _ends_after(SPACE),
    character_ends,
    lambda text, start, end: list(range(start + 1, end + 1)),
)


def _keep_markup_whole(cell: str, start: int) -> Sequence[FindEnds]:
    """Return the levels at which a cell of a line is cut, without cuts inside a tag or a placeholder.

    Only the level of characters cuts there. `start` is where the cell begins in its line.
    """
    # Most lines have none of these signs, and need no search.
    if not MARKUP_SIGN.search(cell):
        return SPLIT_LEVELS
    tags = [tag.shift_by(start) for tag in find_tags(cell)]
    inside = {position for tag in tags for position in range(tag.start + 1, tag.end)}
    for match in find_protected(cell):
        inside.update(range(start + match.start() + 1, start + match.end()))

    def outside(find_ends: FindEnds) -> FindEnds:
        # The end of the whole span stays, wherever it is.
        return lambda text, start, end: [
            *(i for i in find_ends(text, start, end)[:-1] if i not in inside),
            end,
        ]

    coarse = SPLIT_LEVELS.index(character_ends)
    beside_tags = partial(_sentence_ends_beside_tags, tags)
    return *map(outside, (beside_tags, *SPLIT_LEVELS[1:coarse])), *SPLIT_LEVELS[coarse:]


def _sentence_ends_beside_tags(
    tags: Sequence[TagMatch], text: str, start: int, end: int
) -> list[int]:
    """Return the ends of sentences of a text with tags, as if they were not there; closing tags stay with the end.

    >>> text = "The <b>ball</b> is <i>blue.</i> <u>It</u> is new."
    >>> [text[:i] for i in _sentence_ends_beside_tags(find_tags(text), text, 0, len(text))]
    ['The <b>ball</b> is <i>blue.</i>', 'The <b>ball</b> is <i>blue.</i> <u>It</u> is new.']
    """
    # The text without its tags, and where each of its characters ends in the text with them.
    visible: list[str] = []
    positions: list[int] = []
    previous_end = start
    for tag in (*tags, None):
        stop = end if tag is None else min(max(tag.start, previous_end), end)
        visible.append(text[previous_end:stop])
        positions += range(previous_end + 1, stop + 1)
        if tag is None or tag.start >= end:
            break
        previous_end = max(previous_end, min(tag.end, end))
        if tag.start >= start and separates_words(tag):
            visible.append(" ")
            positions.append(previous_end)

    without_tags = "".join(visible)

    closing = {tag.start: tag.end for tag in tags if tag.kind == "closing"}
    ends: list[int] = []
    for visible_end in sentence_ends(without_tags, 0, len(without_tags))[:-1]:
        position = positions[visible_end - 1]
        while position in closing and closing[position] <= end:
            position = closing[position]
        ends.append(position)
    return [*(position for position in ends if position < end), end]
