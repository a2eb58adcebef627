"""Takes the text of one subtitle apart: who speaks, its lines, and the marks in it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pellucid.documents.slots import Inline, Part, Parts, join_markup, make_slot


def _keep(text: str) -> str:
    return text


@dataclass(frozen=True)
class SubtitleMarks:
    """Marks in the subtitles of a format, and how its characters are written."""

    pattern: re.Pattern[str]
    read: Callable[[str], str] = _keep
    escape: Callable[[str], str] = _keep


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


def describe_subtitle(lines: Sequence[str], marks: SubtitleMarks, end: str) -> Parts:
    """Return the lines of one subtitle as a slot, or as one for each person who speaks.

    `end` stands between the lines of a translation.
    """
    starts = [number for number, line in enumerate(lines) if _begins_speech(line, marks)]
    if len(starts) == 1 and starts[0] > 0 and not _SENTENCE_END.search(marks.pattern.sub("", lines[starts[0] - 1])):
        starts = []  # a dash inside a sentence
    bounds = sorted({0, *starts}) if len(lines) > 1 else [0]
    parts: list[Part] = []
    for first, last in zip(bounds, [*bounds[1:], len(lines)], strict=True):
        parts += _describe_speech("".join(lines[first:last]), last - first, marks, end)
    return join_markup(parts)


def _begins_speech(line: str, marks: SubtitleMarks) -> bool:
    """Whether somebody begins to speak with a line."""
    if _VOICE.match(line):
        return True
    words = marks.pattern.sub("", line).lstrip()
    return (_DASH.match(words) or _NAME.match(words)) is not None


def _describe_speech(text: str, line_count: int, marks: SubtitleMarks, end: str) -> Parts:
    """Return what one person says as a slot; marks around all of it and the dash before it stay outside."""
    items = _split_marks(text, marks)
    start = _skip_marks(items)
    first = 0  # from here on marks may belong to the words
    quote = ""
    if start < len(items) and isinstance(words := items[start], str) and (dash := _DASH.match(words.lstrip())):
        cut = len(words) - len(words.lstrip()) + dash.end()
        items[start : start + 1] = [part for part in (words[:cut], words[cut:]) if part]
        quote = dash[0][0] if dash[0][0] in _QUOTES else ""
        first = start + 1
        start = first + _skip_marks(items[first:])
    stop = len(items) - _skip_marks(items[start:][::-1])
    if quote and stop > start and isinstance(words := items[stop - 1], str):
        spoken = words.rstrip().rstrip(_QUOTES)  # the quotation mark that belongs to the one before the dash
        items[stop - 1 : stop] = [spoken, words[len(spoken) :]]

    unopened, unclosed = _find_lone_tags(items[start:stop])
    start = next((i for i in range(first, start) if _is_tag(items[i], "opening", unopened)), start)
    closings = [i for i in range(stop, len(items)) if _is_tag(items[i], "closing", unclosed)]
    stop = closings[-1] + 1 if closings else stop
    finish = partial(wrap_evenly, lines=line_count, end=end)
    slot = make_slot(items[start:stop], marks.escape, read=marks.read, finish=finish)
    return join_markup([*_list_parts(items[:start]), *slot, *_list_parts(items[stop:])])


def _list_parts(items: Sequence[str | Inline]) -> list[Part]:
    return [part for item in items for part in ([item] if isinstance(item, str) else item.parts)]


def _split_marks(text: str, marks: SubtitleMarks) -> list[str | Inline]:
    """Return the texts and the marks of a subtitle, in their order."""
    items: list[str | Inline] = []
    position = 0
    for match in marks.pattern.finditer(text):
        items += [text[position : match.start()], _describe_mark(match[0])]
        position = match.end()
    return [item for item in [*items, text[position:]] if item != ""]


def _describe_mark(mark: str) -> Inline:
    name = _TAG_NAME.match(mark)
    if name is None or name[2].lower() == "br":
        return Inline("single", None, [mark])
    return Inline("closing" if name[1] else "opening", name[2].lower(), [mark])


def _skip_marks(items: Sequence[str | Inline]) -> int:
    """Return how many marks and pieces of white space stand before the first words."""
    return next((i for i, item in enumerate(items) if isinstance(item, str) and item.strip()), len(items))


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


def wrap_evenly(text: str, lines: int, end: str = "\n") -> str:
    r"""Break a text between words into at most so many lines of about equal length; marks have none.

    >>> wrap_evenly("La bola es azul y la casa es grande.", 2)
    'La bola es azul y\nla casa es grande.'
    >>> wrap_evenly('<font color="#ffffff" size="2">La bola</font> es azul.', 2)
    '<font color="#ffffff" size="2">La bola</font>\nes azul.'
    """
    if lines < 2:
        return text
    words = _WORD.findall(text)
    lengths = [len(_MARK.sub("", word)) for word in words]
    total, position = max(1, sum(lengths) + len(words) - 1), 0
    out: list[list[str]] = [[] for _ in range(lines)]
    for word, length in zip(words, lengths, strict=True):
        # A word stands on the line in whose share of the text its middle is.
        out[min(lines - 1, int((position + length / 2) * lines / total))].append(word)
        position += length + 1
    return end.join(" ".join(line) for line in out if line)
