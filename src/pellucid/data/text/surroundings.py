"""Marks around a line: a number, bullet or label before it, quotation marks or brackets around it, notes behind it."""

import re

from pellucid.data.text.protected import ADDRESS

MARK_KINDS = ("numbers", "bullets", "quotes", "brackets", "notes", "labels")

# "12.", "3)", "1.2.", "(4)", "b)", "IV." before the line, and a section
# number of three parts or more without an end.
_NUMBER = re.compile(
    r"(?:\(?\d{1,4}(?:\.\d{1,3})*+[.):\]]|\d+(?:\.\d+){2,}|\(?[a-zA-Z]\)|\(?[ivxIVX]{1,5}\)|[IVX]{2,5}\."
    r"|\d{1,4}\s?[–—-](?=\s+\D))\s+"
)
# Also of a list of tasks, "- [x] Done.", and the dash of somebody
# who speaks, which may touch the first word.
_BULLET = re.compile(r"[-–—*+•‣▪▸►●○◦·∙]\s+(?:\[[ xX]\]\s+)?|[–—-](?=[A-ZÀ-ÖØ-ÞΑ-ΩЀ-Я¿¡])")
_BEHIND_SENTENCE = r"(?<=[.!?…。！？\"'”’»)])"
# What points to a footnote, behind the end of a sentence: [1], ¹, *.
_NOTE = re.compile(rf"{_BEHIND_SENTENCE}\s?(?:\[\d{{1,3}}\]|[¹²³⁰⁴-⁹*†‡]){{1,6}}\Z")
_NOTE_ENDS = "]¹²³⁰⁴⁵⁶⁷⁸⁹*†‡"
_LONGEST_NOTE = 6 * 5 + 2  # with the white space and the mark before it

# What stands before a line or behind it and is no part of its sentence: an address, @name, #topic,
# a time, or a code as AB-1234. A code of two digits may be a word: COVID-19, F-16.
_NAME = r"[@#]\w++(?:[.@-]\w++)*+"
_TIME = r"[(\[]?[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?[)\]]?(?:\s?[AaPp]\.?[Mm]\b\.?)?"
_CODE = r"[A-Z]{1,6}-(?:[0-9]{3,}|[0-9]{1,2}(?=:))"
_LABEL = rf"(?:{ADDRESS.pattern}|{_NAME}|{_TIME}|{_CODE})"
_LABEL_BEFORE = re.compile(rf"{_LABEL}(?::|\s?[–—-])?\s+(?!(?:Uhr|[AP]M)\b)")
_BEFORE_CAPITAL = "\"'“„«‘‚‹»([¿¡*_"
_BEHIND = r"\([0-9]+\)|\{\{?[A-Za-z0-9_.]*\}\}?"  # (1234), {name}
# So that no line, however long, takes more than a moment.
MOST_MARKS = 8
_MOST_LABELS, _LONGEST_LABELS = 4, 1000
_LABELS_BEHIND = re.compile(
    rf"{_BEHIND_SENTENCE}(?:\s+(?:{_LABEL}|{_BEHIND})){{1,{_MOST_LABELS}}}\Z"
)
_NO_LABEL_ENDS = ".!?…"

_CLOSING_QUOTES = {
    '"': '"', "“": "”", "„": "“”", "«": "»", "»": "«", "‘": "’", "‚": "‘’", "‹": "›", "›": "‹", "”": "”",
    "'": "'", "「": "」", "『": "』",
}  # fmt: skip
_ANY_QUOTE = re.compile('["“”„«»「」『』]')
_CLOSING_BRACKETS = {"(": ")", "[": "]", "（": "）", "【": "】", "〔": "〕", "［": "］"}
_AFTER_CLOSING = ".,;:!?…。"


def find_mark_kinds(text: str) -> set[str]:
    """Return the kinds of marks that stand around a text.

    >>> sorted(find_mark_kinds('3. "The ball is blue."')), find_mark_kinds("The ball is blue.")
    (['numbers', 'quotes'], set())
    """
    kinds, (start, end) = set[str](), (0, len(text))
    for _ in range(MOST_MARKS):
        if (trimmed := _trim_one(text, start, end)) is None:
            break
        kind, start, end = trimmed
        kinds.add(kind)
    return kinds


def trim_marks(text: str, start: int, end: int, kinds: frozenset[str]) -> tuple[int, int]:
    """Return the span of text[start:end] without up to `MOST_MARKS` marks of these kinds around it.

    Something with a letter stays.

    >>> text = '3. "The ball is blue."'
    >>> text[slice(*trim_marks(text, 0, len(text), frozenset(MARK_KINDS)))]
    'The ball is blue.'
    """
    for _ in range(MOST_MARKS):
        trimmed = _trim_one(text, start, end)
        if trimmed is None or trimmed[0] not in kinds:
            break
        _, start, end = trimmed
    return start, end


def _trim_one(text: str, start: int, end: int) -> tuple[str, int, int] | None:
    """Return the kind of the outermost mark, and the span inside of it; None where there is no mark."""
    if start == end:
        return None
    if text[end - 1] in _NOTE_ENDS and (note := _find_note(text, start, end)) is not None:
        return "notes", start, note
    if (label := _trim_label(text, start, end)) is not None:
        return "labels", *label
    first = text[start]

    # Most lines begin with a letter that none of the marks begins with.
    is_word = first.isalpha() and text[start + 1 : start + 2].isalpha() and first not in "IVXivx"
    if is_word and text[end - 1] not in _CLOSING_QUOTES:
        return None
    found: tuple[str, int, int] | None = None
    if match := _NUMBER.match(text, start, end):
        found = "numbers", match.end(), end
    elif match := _BULLET.match(text, start, end):
        found = "bullets", match.end(), end
    elif first in _CLOSING_QUOTES:
        found = _trim_pair("quotes", text, start, end, _CLOSING_QUOTES[first])
        found = found or _trim_lone(text, start, end)
    elif first in _CLOSING_BRACKETS:
        found = _trim_pair("brackets", text, start, end, _CLOSING_BRACKETS[first])
    elif text[end - 1] in _CLOSING_QUOTES:
        found = _trim_lone(text, start, end)

    if found is None or not any(map(str.isalpha, text[found[1] : found[2]])):
        return None
    return found


def _find_note(text: str, start: int, end: int) -> int | None:
    """Return where a sign of a note at the end of text[start:end] begins; None where there is none."""
    tail = text[max(start, end - _LONGEST_NOTE) : end]
    match = _NOTE.search(tail)
    if match is None or not any(map(str.isalpha, text[start : end - len(match[0])])):
        return None
    begin = end - len(match[0])
    # Asterisks around a text are emphasis.
    return None if "*" in match[0] and "*" in text[start:begin] else begin


def _trim_label(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return the span without a label before a capital, or else without one behind the end of a sentence.

    >>> text = "@tom Come here! https://example.org"
    >>> [text[slice(*span)] for span in (_trim_label(text, 0, 35), _trim_label(text, 5, 35)) if span]
    ['Come here! https://example.org', 'Come here!']
    """
    inside, position = start, start
    for _ in range(_MOST_LABELS):
        label = _LABEL_BEFORE.match(text, position, end)
        if label is None:
            break
        position = label.end()
        capital = text[position:end].lstrip(_BEFORE_CAPITAL)[:1]
        if capital.isupper() or capital.istitle():
            inside = position
    if inside > start:
        return inside, end

    # Most lines end with a mark that no label ends with.
    if text[end - 1] in _NO_LABEL_ENDS:
        return None
    first = max(start, end - _LONGEST_LABELS)
    labels = _LABELS_BEHIND.search(text[first:end])
    if labels is None or not any(map(str.isalpha, text[start : first + labels.start()])):
        return None
    return start, first + labels.start()


def _trim_lone(text: str, start: int, end: int) -> tuple[str, int, int] | None:
    """Return the span without a quotation mark at one end whose partner stands in another sentence; else None."""
    quotes = [match.start() for match in _ANY_QUOTE.finditer(text, start, end)]
    if quotes == [start]:
        return "quotes", start + 1, end
    # A mark behind a digit may be one of inches.
    if quotes == [end - 1] and not text[end - 2].isdecimal():
        return "quotes", start, end - 1
    return None


def _trim_pair(
    kind: str, text: str, start: int, end: int, closing: str
) -> tuple[str, int, int] | None:
    """Return the span inside a pair of marks; None unless the pair stands around everything."""
    last = end - 1
    while last > start and text[last] in _AFTER_CLOSING:
        last -= 1
    if last <= start + 1 or text[last] not in closing:
        return None

    # Another mark of the pair inside means that this one does not go around the whole: "Yes," he
    # said, "no." An apostrophe between two letters is none.
    for i in range(start + 1, last):
        is_inside_word = text[i - 1].isalpha() and text[i + 1].isalpha()
        if text[i] in (text[start], text[last]) and not is_inside_word:
            return None
    return kind, start + 1, last
