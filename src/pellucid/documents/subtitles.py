"""Takes subtitles (SRT) apart into texts to translate, and their times, numbers and positions."""

import re
from functools import partial

from pellucid.documents.document import Document
from pellucid.documents.plain import LINE, decode_text
from pellucid.documents.reading import DocumentReading
from pellucid.documents.slots import Inline, Part, Parts, join_markup, make_slot

_TIMES = re.compile(r"\s*\d+:\d\d:\d\d[,.]\d{1,3}\s*-->\s*\d+:\d\d:\d\d[,.]\d{1,3}.*")
_SPEAKER = re.compile(r"\s*(?:<[^<>]*>)?\s*[-–—]")
_STYLE = re.compile(r"\{\\[^{}]*\}")
_NO_WORDS_YET = re.compile(r"(?:\{\\[^{}]*\})*(?:\s*[-–—]+\s+)?")


def read_subtitles(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a file of subtitles."""
    text, encoding = decode_text(name, content)
    parts = split_subtitles(name, text, reading)
    return Document([parts], lambda bodies: bodies[0].encode(encoding), reading)


def split_subtitles(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take subtitles apart: the lines of each are one text, or one each where several people speak.

    Raises ValueError where no line has two times with an arrow between them.
    """
    parts: list[Part] = []
    lines = LINE.findall(text)
    times = [number for number, line in enumerate(lines) if _TIMES.fullmatch(line.rstrip("\r\n"))]
    if text.strip() and not times:
        raise ValueError(f"{name} has no line such as 00:00:01,000 --> 00:00:02,500, so it holds no subtitles (SRT)")
    position = 0
    for number, following in zip(times, [*times[1:], len(lines)], strict=True):
        first = number + 1
        last = next((i for i in range(first, following) if not lines[i].strip()), following)
        # Without an empty line before it, the number of the next subtitle stands below this one's text.
        if last == following < len(lines) and last > first and lines[last - 1].strip().isdecimal():
            last -= 1
        parts += [*lines[position:first], *_describe_subtitle(lines[first:last])]
        position = last
    return join_markup([*parts, *lines[position:]])


def _describe_subtitle(lines: list[str]) -> Parts:
    """Return the lines of one subtitle as a slot, or as one for each line where several people speak."""
    if len(lines) > 1 and sum(_SPEAKER.match(line) is not None for line in lines) > 1:
        return [part for line in lines for part in _describe_subtitle([line])]
    text = "".join(lines)
    # A position such as {\\an8} is that of the whole subtitle; it stays before it, and so does a dash.
    first = _NO_WORDS_YET.match(text)
    position = first.end() if first else 0
    before = text[:position]
    items: list[str | Inline] = []
    for match in _STYLE.finditer(text, position):
        items += [text[position : match.start()], Inline("single", None, [match[0]])]
        position = match.end()
    end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    finish = partial(_wrap_evenly, lines=len(lines), end=end)
    items = [item for item in [*items, text[position:]] if item]
    return join_markup([before, *make_slot(items, str, read=str, finish=finish)])


def _wrap_evenly(text: str, lines: int, end: str = "\n") -> str:
    r"""Break a text between words into at most so many lines of about equal length.

    >>> _wrap_evenly("La bola es azul y la casa es grande.", 2)
    'La bola es azul y\nla casa es grande.'
    """
    words, position = text.split(" "), 0
    out: list[list[str]] = [[] for _ in range(lines)]
    for word in words:
        # A word stands on the line in whose share of the text its middle is.
        out[min(lines - 1, int((position + len(word) / 2) * lines / max(1, len(text))))].append(word)
        position += len(word) + 1
    return end.join(" ".join(line) for line in out if line)
