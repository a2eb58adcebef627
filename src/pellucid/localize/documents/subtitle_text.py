"""Takes the text of one subtitle apart: who speaks, its lines, and the marks in it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pellucid.localize.documents.slots import Inline, Part, Parts, join_markup, make_slot


def _keep(text: str) -> str:
    return text


@dataclass(frozen=True)
class SubtitleMarks:
    """Marks in the subtitles of a format, and how its characters are written."""

    pattern: re.Pattern[str]
    read: Callable[[str], str] = _keep
    escape: Callable[[str], str] = _keep
    breaks: re.Pattern[str] = re.compile(r"(?<![ \t])[ \t]*+\r?\n[ \t]*+")
    """What ends a line, with the white space beside it."""


_DASHES = "-‐‑–—―−"
_QUOTES = "\"“”„«»'‘’"
_TAG_NAME = re.compile(r"<(/?)([a-zA-Z]+)")
# What stands before the words of a speaker; a dash before a digit is a minus.
_DASH = re.compile(rf"[{_QUOTES}]?\s*(?:[{_DASHES}]++(?!\s*\d)\s*|(?:>|&gt;){{2,}}\s*)")
# A name in capitals before what somebody says, and the sign of a song.
_NAME = re.compile(r"[^\W\d_a-z](?:[^\W_a-z]|[ .'’#-]){1,30}:\s|[♪♫]")
_VOICE = re.compile(r"\s*<v[\s.]")
_SENTENCE_END = re.compile(rf"[.?!…。？！♪)\]][{_QUOTES}]?\s*\Z")
_WORD = re.compile(r"(?:<[^<>]*>|\{[^{}]*\}|[^ ])+")
_MARK = re.compile(r"<[^<>]*>|\{[^{}]*\}")


def describe_subtitle(text: str, marks: SubtitleMarks) -> Parts:
    """Return one subtitle as a slot, or as one for each person who speaks; the lines of each end as they did."""
    lines = _split_lines(text, marks)
    starts = [number for number, line in enumerate(lines) if _begins_speech(line, marks)]
    if len(starts) == 1 and starts[0] > 0 and not _ends_sentence(lines[starts[0] - 1], marks):
        starts = []  # a dash inside a sentence
    bounds = sorted({0, *starts}) if len(lines) > 1 else [0]

    parts: list[Part] = []
    for first, last in zip(bounds, [*bounds[1:], len(lines)], strict=True):
        parts += _describe_speech("".join(lines[first:last]), marks)
    return join_markup(parts)


def _split_lines(text: str, marks: SubtitleMarks) -> list[str]:
    """Return the lines of a subtitle, each with what ends it."""
    lines: list[str] = []
    position = 0
    for match in marks.breaks.finditer(text):
        lines.append(text[position : match.end()])
        position = match.end()
    return [*lines, text[position:]] if position < len(text) else lines


def _ends_sentence(line: str, marks: SubtitleMarks) -> bool:
    return _SENTENCE_END.search(marks.pattern.sub("", marks.breaks.sub("", line))) is not None


def _begins_speech(line: str, marks: SubtitleMarks) -> bool:
    """Whether somebody begins to speak with a line."""
    if _VOICE.match(line):
        return True

    words = marks.pattern.sub("", line).lstrip()
    return (_DASH.match(words) or _NAME.match(words)) is not None


def _describe_speech(text: str, marks: SubtitleMarks) -> Parts:
    """Return what one person says as a slot; marks around all of it and the dash before it stay outside."""

    def read(text: str) -> str:
        return " " if marks.breaks.fullmatch(text) else marks.read(text)

    items = _split_marks(text, marks)
    start = _skip_marks(items, marks)
    first = 0  # from here on marks may belong to the words
    quote = ""
    words = items[start] if start < len(items) else None
    if isinstance(words, str) and (dash := _DASH.match(words.lstrip())):
        cut = len(words) - len(words.lstrip()) + dash.end()
        items[start : start + 1] = [part for part in (words[:cut], words[cut:]) if part]
        quote = dash[0][0] if dash[0][0] in _QUOTES else ""
        first = start + 1
        start = first + _skip_marks(items[first:], marks)

    stop = len(items) - _skip_marks(items[start:][::-1], marks)
    if quote and stop > start and isinstance(words := items[stop - 1], str):
        # The quotation mark that belongs to the one before the dash.
        spoken = words.rstrip().rstrip(_QUOTES)
        items[stop - 1 : stop] = [spoken, words[len(spoken) :]]

    unopened, unclosed = _find_lone_tags(items[start:stop])
    start = next((i for i in range(first, start) if _is_tag(items[i], "opening", unopened)), start)
    closings = [i for i in range(stop, len(items)) if _is_tag(items[i], "closing", unclosed)]
    stop = closings[-1] + 1 if closings else stop

    middle = items[start:stop]
    ends = []
    for item in middle:
        if isinstance(item, str) and marks.breaks.fullmatch(item):
            ends.append(item.strip(" \t"))

    slot = make_slot(middle, marks.escape, read=read, finish=partial(wrap_evenly, ends=ends))
    return join_markup([*_list_parts(items[:start]), *slot, *_list_parts(items[stop:])])


def _list_parts(items: Sequence[str | Inline]) -> list[Part]:
    parts: list[Part] = []
    for item in items:
        parts += [item] if isinstance(item, str) else item.parts
    return parts


def _split_marks(text: str, marks: SubtitleMarks) -> list[str | Inline]:
    """Return the texts, what ends their lines, and the marks of a subtitle, in their order."""
    items: list[str | Inline] = []
    position = 0
    for match in marks.pattern.finditer(text):
        items += [*_split_breaks(text[position : match.start()], marks), _describe_mark(match[0])]
        position = match.end()
    return [item for item in [*items, *_split_breaks(text[position:], marks)] if item != ""]


def _split_breaks(text: str, marks: SubtitleMarks) -> list[str]:
    """Return the texts between two ends of lines, and those ends."""
    pieces: list[str] = []
    position = 0
    for match in marks.breaks.finditer(text):
        pieces += [text[position : match.start()], match[0]]
        position = match.end()
    return [*pieces, text[position:]]


def _describe_mark(mark: str) -> Inline:
    name = _TAG_NAME.match(mark)
    if name is None:
        return Inline("single", None, [mark])
    return Inline("closing" if name[1] else "opening", name[2].lower(), [mark])


def _skip_marks(items: Sequence[str | Inline], marks: SubtitleMarks) -> int:
    """Return how many marks, ends of lines and pieces of white space stand before the first words."""
    for number, item in enumerate(items):
        if isinstance(item, str) and item.strip() and not marks.breaks.fullmatch(item):
            return number
    return len(items)


def _find_lone_tags(items: Sequence[str | Inline]) -> tuple[set[object], set[object]]:
    """Return the names of tags that are closed and not opened, and of those that are opened and not closed."""
    unopened: set[object] = set()
    opened: dict[object, int] = {}
    for item in items:
        if isinstance(item, str) or item.kind == "single":
            continue
        if item.kind == "opening":
            opened[item.key] = opened.get(item.key, 0) + 1
        elif opened.get(item.key):
            opened[item.key] -= 1
        else:
            unopened.add(item.key)
    return unopened, {name for name, count in opened.items() if count}


def _is_tag(item: str | Inline, kind: str, names: set[object]) -> bool:
    return isinstance(item, Inline) and item.kind == kind and item.key in names


def wrap_evenly(text: str, ends: Sequence[str]) -> str:
    r"""Break a text between words into lines of about equal length, with these ends between them; marks have no length.

    >>> wrap_evenly("La bola es azul y la casa es grande.", ["\n"])
    'La bola es azul y\nla casa es grande.'
    >>> wrap_evenly('<font color="#ffffff" size="2">La bola</font> es azul.', ["[br]"])
    '<font color="#ffffff" size="2">La bola</font>[br]es azul.'
    """
    if not ends:
        return text

    lines = len(ends) + 1
    words = _WORD.findall(text)
    lengths = [len(_MARK.sub("", word)) for word in words]
    total, position = max(1, sum(lengths) + len(words) - 1), 0

    out: list[list[str]] = [[] for _ in range(lines)]
    for word, length in zip(words, lengths, strict=True):
        # A word stands on the line in whose share of the text its middle is.
        out[min(lines - 1, int((position + length / 2) * lines / total))].append(word)
        position += length + 1

    written = [" ".join(line) for line in out if line]
    its_ends = [*ends[: len(written) - 1], ""]
    return "".join(f"{line}{end}" for line, end in zip(written, its_ends, strict=True))
