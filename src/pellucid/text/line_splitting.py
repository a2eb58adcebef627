"""Splits a line into segments that the model can translate, and joins their translations to a line again."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pellucid.text.icu_messages import find_message_texts
from pellucid.text.markup import LEADING_MARKS, MARKUP_SIGN, extract_tags, find_tags
from pellucid.text.protected import find_protected

# A function that lists where text[start:end] may be cut: positions after `start`, ascending, the last one `end`.
FindEnds = Callable[[str, int, int], list[int]]
BREAKS = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"  # they separate cells or lines, and are never inside a segment
CELL = re.compile(f"[^{BREAKS}]++")
# White space, control characters and invisible characters, except joiners, which shape the letters beside them.
SPACES = r"\s\0-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"

SYMBOLS = "".join(
    character
    for character in map(chr, (*range(0x2190, 0x2800), *range(0x2900, 0x2C00)))
    if unicodedata.category(character) == "So" and not unicodedata.decomposition(character)
)
# Emoji, the letters of flags, and older symbols, but not those that stand for letters (℃, Ⓐ), Braille, °, © or №.
PICTURES = rf"{SYMBOLS}\U0001f000-\U0001f0ff\U0001f170-\U0001f1ff\U0001f300-\U0001faff"
# Characters that belong to the emoji before them: joiner, keycap, variation selectors, skin tones, tags.
ATTACHED = r"\u200d\u20e3\ufe0e\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"

TAIL = re.compile(f"[{ATTACHED}]")
OUTER_RUN = re.compile(
    rf"(?:[{SPACES}]|(?:[{PICTURES}]|[0-9#*]\ufe0f?\u20e3|[©®‼⁉™ℹ〰〽㊗㊙\u2190-\u2bff]\ufe0f)[{ATTACHED}]*+)++"
)

# Any first or last character of an `OUTER_RUN`; most texts begin and end with another, and need no search.
OUTER_CHARACTER = re.compile(rf"[{SPACES}{PICTURES}{ATTACHED}0-9#*©®‼⁉™ℹ〰〽㊗㊙\u2190-\u2bff]")

# Possessive quantifiers (*+, ++) everywhere: no text, however long, makes a search go back and try again.
CLOSERS = r"""["'”’»›)\]}」』）】〉》〕]"""
SENTENCE_END = re.compile(
    rf"(?<![.!?…])([.!?…]++)(?:{CLOSERS}|[“«‹])*+(?:\s[»›])?(?=\s++(\S))|[。！？｡।॥؟۔։።။]++{CLOSERS}*+"
)
CLAUSE_END = re.compile(r"[;:,–—](?=\s)|[、，；：،؛]")
SPACE = re.compile(r"\s++")
LAST_WORD = re.compile(r"\w*\Z")
ABBREVIATIONS = """
abb abs bd bzw ca capt cf chap co col corp dept dipl dr eds etc ev fig figs gen gov hon hr hrsg inc jr lt ltd maj mgr
min mlle mme mr mrs ms msgr mt nos nr num pág pp prof pte ref rep rev sen sgt sr sra srta st ste str tel usw vgl vol
vols vs zzgl
"""

UNSPACED = re.compile(  # a letter or mark of a script that puts no spaces between sentences
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]"
)


@dataclass(frozen=True)
class SplitLine:
    """The segments of a line to be translated, and the gaps around them, of which there is one more."""

    segments: tuple[str, ...]
    gaps: tuple[str, ...]

    def __post_init__(self) -> None:
        assert len(self.gaps) == len(self.segments) + 1


def split_line(
    line: str,
    fits: Callable[[str], bool],
    fits_sentence: Callable[[str], bool] | None = None,
    *,
    keep_without_letters: bool = True,
    keep_markup: bool = True,
) -> SplitLine:
    r"""Split a line into segments: its cells between tabs, each whole if it `fits`, and otherwise cut into few pieces.

    A cell is cut after sentences; a sentence that does not meet `fits_sentence`, which may be wider, is cut after
    clauses, then after words, then between characters. Only the last cuts a tag or a placeholder in two. White space
    and emoji at the ends of a segment go into the gaps, and so does all that stays as it is: text without a letter
    (outside of tags and protected text, which is no text where `keep_markup`) if `keep_without_letters`, the marks of a
    heading, and all of a message of ICU but its texts, if `keep_markup`. A single character that does not fit is a
    segment all the same.

    >>> split_line("\tThe ball is blue. It is new. 😀", lambda text: len(text) <= 30)
    SplitLine(segments=('The ball is blue. It is new.',), gaps=('\t', ' 😀'))
    >>> split_line("\tThe ball is blue. It is new. 😀", lambda text: len(text) <= 20).segments
    ('The ball is blue.', 'It is new.')
    >>> split_line("# {n, plural, one {a ball} other {# balls}}\t12,5", lambda _: True).segments
    ('a ball', '# balls')
    """
    spans: list[tuple[int, int]] = []
    levels = _keep_markup_whole(line)
    has_markup = keep_markup and MARKUP_SIGN.search(line) is not None
    for start, end in _find_texts(line) if has_markup else [(0, len(line))]:
        for cell in CELL.finditer(line, start, end):
            if not keep_without_letters or is_translatable(cell[0], has_markup):
                spans += _pack_spans(line, *cell.span(), fits, fits_sentence or fits, levels)
    # A cell that was cut may have parts without a letter.
    if keep_without_letters and len(spans) > 1:
        spans = [(start, end) for start, end in spans if is_translatable(line[start:end], has_markup)]
    edges = [0, *(edge for span in spans for edge in span), len(line)]
    # Between the edges lie gap, segment, gap, ..., segment, gap.
    texts = [line[start:end] for start, end in pairwise(edges)]
    return SplitLine(tuple(texts[1::2]), tuple(texts[::2]))


def _find_texts(line: str) -> list[tuple[int, int]]:
    """Return the spans of a line without the marks at its beginning and without what frames the texts of a message."""
    marks = LEADING_MARKS.match(line)
    first = marks.end() if marks else 0
    return [(max(start, first), end) for start, end in find_message_texts(line) if end > first]


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


def has_letters(text: str) -> bool:
    """Whether a text has something to translate: a letter, or a mark that no letter before it carries.

    >>> [has_letters(text) for text in ("12,5 €", "2024-01-01", "½", "1️⃣", "5 km", "二〇二四")]
    [False, False, False, False, True, True]
    """
    # The joiners of emoji are marks, too.
    return any(character.isalpha() for character in text) or any(
        unicodedata.category(character)[0] == "M" and character not in "\u20e3\ufe0e\ufe0f" for character in text
    )


def join_line(line: SplitLine, texts: Sequence[str]) -> str:
    r"""Join texts that replace the segments of a line; with the segments themselves the result is the original line.

    Between sentences that had no space, as in Chinese, translations into a language with spaces get one.

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


def describe_split(line: SplitLine) -> str | None:
    r"""Return a note on a line that was too long for one segment, or None; the cells of a table are no reason for one.

    >>> (describe_split(SplitLine(("Yes.", "No."), ("", " ", ""))),
    ...  describe_split(SplitLine(("Yes.", "No."), ("", "\t", ""))))
    ('split into 2 parts', None)
    """
    # The texts of a message have a brace between them.
    divided = any(not set(gap) & set(BREAKS + "{}") for gap in line.gaps[1:-1])
    return f"split into {len(line.segments)} parts" if divided else None


def _pack_spans(
    text: str,
    start: int,
    end: int,
    fits: Callable[[str], bool],
    fits_sentence: Callable[[str], bool],
    levels: Sequence[FindEnds],
) -> list[tuple[int, int]]:
    """Return the spans of the segments of text[start:end], each as long as fits, cut at the coarsest level possible."""
    start, end = _trim_span(text, start, end)
    if start == end:
        return []
    if not levels or fits(text[start:end]):
        return [(start, end)]

    spans: list[tuple[int, int]] = []
    ends = levels[0](text, start, end)
    first_end = 0
    while first_end < len(ends):
        count = _count_fitting_ends(text, start, ends, first_end, fits)
        stop = ends[first_end + max(1, count) - 1]
        if count:
            first, last = _trim_span(text, start, stop)
            spans += [(first, last)] if first < last else []
        else:
            # Not even one sentence fits. Below the first level only the wider limit counts.
            spans += _pack_spans(text, start, stop, fits_sentence, fits_sentence, levels[1:])
        start, first_end = stop, first_end + max(1, count)
    return spans


def _count_fitting_ends(text: str, start: int, ends: Sequence[int], first_end: int, fits: Callable[[str], bool]) -> int:
    """Count how many of the ends, from number `first_end` on, a segment that begins at `start` can include."""

    def fit(count: int) -> bool:
        first, last = _trim_span(text, start, ends[first_end + count - 1])
        return first == last or fits(text[first:last])

    return _largest_fitting(fit, len(ends) - first_end)


def _trim_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of text[start:end] without white space and emoji at its ends; an empty span if nothing is left.

    >>> _trim_span("👍🏽 2 * 3 = 6 ☺️ 1️⃣ ", 0, 20)
    (3, 12)
    """
    if start == end or not (OUTER_CHARACTER.match(text, start) or OUTER_CHARACTER.match(text, end - 1)):
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
    # Doubling before halving: n is small beside `total`, and `holds` tokenizes a text, so large n are costly.
    low, high = 0, 1
    while high <= total and holds(high):
        low, high = high, 2 * high
    high = min(high, total + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def sentence_ends(text: str, start: int, end: int) -> list[int]:
    """Return the ends of sentences: after full stops and their like, with closing quotes and brackets.

    A full stop after one letter, a number of one or two digits or a known abbreviation does not end a sentence, nor
    does any mark before a small letter.

    >>> text = 'Dr. A. Bee paid 3.50 on May 3. "Why?" she asked. He (I know...) left!'
    >>> [text[i:j] for i, j in pairwise([0, *sentence_ends(text, 0, len(text))])]
    ['Dr. A. Bee paid 3.50 on May 3. "Why?" she asked.', ' He (I know...) left!']
    """
    matches = (match for match in SENTENCE_END.finditer(text, start, end) if not _sentence_goes_on(text, match))
    return [*(match.end() for match in matches if match.end() < end), end]


def _sentence_goes_on(text: str, match: re.Match[str]) -> bool:
    """Whether the sentence continues after what looks like its end."""
    mark, following = match.groups()
    # No mark: one of a script without capital letters, such as the Chinese full stop, which is always an end.
    if mark is None or following.islower():
        return mark is not None
    # Ten characters are enough for the longest abbreviation.
    before = LAST_WORD.search(text[max(0, match.start() - 10) : match.start()])
    word = before[0] if before else ""
    short = len(word) == 1 or (len(word) == 2 and word.isdecimal()) or word.lower() in ABBREVIATIONS.split()
    return mark == "." and short


def _ends_after(pattern: re.Pattern[str]) -> FindEnds:
    return lambda text, start, end: [*(m.end() for m in pattern.finditer(text, start, end) if m.end() < end), end]


def character_ends(text: str, start: int, end: int) -> list[int]:
    """Return the ends of characters as a reader sees them: a letter with accents, an emoji with joiners, a flag.

    >>> character_ends("e\u0301x👩🏽‍🚀🇺🇦🇵🇪", 0, 11)
    [2, 3, 7, 9, 11]
    """
    ends, letters = [], 0  # `letters` counts the regional indicators in a row: two of them are a flag
    for i in range(start + 1, end):
        last, following = text[i - 1], text[i]
        letters = letters + 1 if "\U0001f1e6" <= last <= "\U0001f1ff" else 0
        flag = letters % 2 == 1 and "\U0001f1e6" <= following <= "\U0001f1ff"
        attached = unicodedata.category(following).startswith("M") or TAIL.match(following) or last == "\u200d"
        if not (flag or attached):
            ends.append(i)
    return [*ends, end]


# From coarse to fine. Code points come last for a character whose accents alone are too many for the model.
SPLIT_LEVELS: tuple[FindEnds, ...] = (
    sentence_ends,
    _ends_after(CLAUSE_END),
    _ends_after(SPACE),
    character_ends,
    lambda text, start, end: list(range(start + 1, end + 1)),
)


def _keep_markup_whole(line: str) -> Sequence[FindEnds]:
    """Return the levels at which a line is cut, without cuts inside a tag or a placeholder above that of characters."""
    # Most lines have none of these signs, and need no search.
    if not MARKUP_SIGN.search(line):
        return SPLIT_LEVELS
    whole = [*(match.span() for match in find_protected(line)), *((tag.start, tag.end) for tag in find_tags(line))]
    inside = {position for start, end in whole for position in range(start + 1, end)}

    def outside(find_ends: FindEnds) -> FindEnds:
        # The end of the whole span stays, wherever it is.
        return lambda text, start, end: [*(i for i in find_ends(text, start, end)[:-1] if i not in inside), end]

    coarse = SPLIT_LEVELS.index(character_ends)
    return *map(outside, SPLIT_LEVELS[:coarse]), *SPLIT_LEVELS[coarse:]
