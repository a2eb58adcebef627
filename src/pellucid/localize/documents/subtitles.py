"""Takes subtitles (SRT, WebVTT, SBV, ASS, SSA) apart into texts to translate, and their times and positions."""

import re
from collections.abc import Sequence
from functools import partial
from html import escape, unescape
from itertools import pairwise

from pellucid.data.languages import split_code
from pellucid.localize.documents.document import Document
from pellucid.localize.documents.plain import LINE, decode_text
from pellucid.localize.documents.reading import DocumentReading
from pellucid.localize.documents.slots import LanguagePlace, Part, Parts, join_markup
from pellucid.localize.documents.subtitle_text import SubtitleMarks, describe_subtitle

_TIME = r"(?:\d+\s*:\s*)?\d{1,3}\s*:\s*\d{1,2}(?:\s*[,.:]\s*\d{1,3})?"
_TIMES = re.compile(rf"\s*{_TIME}\s*--?>\s*{_TIME}(?:\s.*)?")
_SBV_TIMES = re.compile(r"\s*\d+:\d\d:\d\d\.\d{3},\d+:\d\d:\d\d\.\d{3}\s*")
_HEADER = re.compile("\ufeff?WEBVTT(?:[ \t].*)?")
_LANGUAGE = re.compile(r"(Language:\s*)([A-Za-z0-9_-]+)(\s*)")
_NO_CUE = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s.*)?|Region:.*")
_POSITION = r"\{\\[^{}]*\}"

# SBV ends a line with [br] or with a line end; ASS with \N, which other formats have from there.
# The small letters are a line end that is seldom one, and a space.
_BREAK = r"(?:(?i:\[br\]|<br\s*/?>)|\\N)(?:[ \t]*+\r?\n)?|\r?\n"
_BREAKS = re.compile(rf"(?<![ \t])[ \t]*+(?:{_BREAK})[ \t]*+")
_SRT_MARKS = SubtitleMarks(
    re.compile(
        rf"{_POSITION}|\{{/?(?:[biusBIUS]|[yYcCsSfF]:[^{{}}]*)\}}|(?-i:\\[nh])"
        r"|</?(?:[biusvc]|font|span|ruby|rt|lang)(?:[\s./][^<>]*)?>|<\d+:[\d:.]+>",
        re.IGNORECASE,
    ),
    breaks=_BREAKS,
)
_VTT_MARKS = SubtitleMarks(
    re.compile(rf"(?!(?i:<br\s*/?>))<[^<>]*>|{_POSITION}|\\[nh]"),
    read=unescape,
    escape=partial(escape, quote=False),
    breaks=_BREAKS,
)
_ASS_MARKS = SubtitleMarks(
    re.compile(r"\{[^{}]*\}|\\[nh]"), breaks=re.compile(r"(?<![ \t])[ \t]*+\\N[ \t]*+")
)
_ASS_DRAWING = re.compile(r"\{[^{}]*\\p[1-9]")


def read_subtitles(name: str, content: bytes, reading: DocumentReading) -> Document:
    """Read a file of subtitles."""
    text, encoding = decode_text(name, content)
    parts = split_subtitles(name, text, reading)
    return Document([parts], lambda bodies: bodies[0].encode(encoding), reading)


def split_subtitles(name: str, text: str, reading: DocumentReading) -> Parts:
    """Take subtitles apart: the lines of each are one text, or one for each person who speaks.

    The content decides the format, even if the name says another. Raises
    ValueError where there are no subtitles in it.
    """
    lines = LINE.findall(text)
    if lines and _HEADER.fullmatch(lines[0].rstrip("\r\n")):
        return _split_webvtt(lines, reading)
    begins_ass = text.lstrip("\ufeff \t\r\n").lower().startswith("[script info]")
    if begins_ass or name.lower().endswith((".ass", ".ssa")):
        return _split_ass(name, lines, reading)
    return _split_srt(name, lines, reading)


def _split_srt(name: str, lines: Sequence[str], reading: DocumentReading) -> Parts:
    """Take the lines of SRT or SBV apart. An empty line in a subtitle does not end it; the next times do."""
    times = [number for number, line in enumerate(lines) if _is_times(line)]
    if not times and any(line.strip("\ufeff \t\r\n") for line in lines):
        raise ValueError(
            f"{name} has no line such as 00:00:01,000 --> 00:00:02,500, so it holds no subtitles "
            "(SRT, WebVTT, SBV)"
        )

    parts: list[Part] = []
    position = 0
    # No player shows it.
    reading.kept["other"] += any(map(str.isalpha, "".join(lines[: times[0] if times else 0])))

    for number, following in pairwise([*times, len(lines)]):
        last = following
        # The number of the next subtitle stands before its times, even where there is no empty line
        # before it.
        if following < len(lines) and following - 1 > number:
            last -= lines[following - 1].strip().isdecimal()

        parts += lines[position : number + 1]
        parts += _describe_paragraphs(lines[number + 1 : last], _SRT_MARKS)
        position = last
        reading.go_on()
    return join_markup([*parts, *lines[position:]])


def _is_times(line: str) -> bool:
    content = line.rstrip("\r\n")
    return (_TIMES.fullmatch(content) or _SBV_TIMES.fullmatch(content)) is not None


def _describe_paragraphs(lines: Sequence[str], marks: SubtitleMarks) -> list[Part]:
    """Return the parts of the lines of a subtitle; lines with an empty one between them are texts of their own."""
    parts: list[Part] = []
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            paragraph.append(line)
            continue
        if paragraph:
            parts += describe_subtitle("".join(paragraph), marks)
            paragraph = []
        parts.append(line)
    return parts


def _split_webvtt(lines: Sequence[str], reading: DocumentReading) -> Parts:
    """Take the lines of WebVTT apart, block by block; only what stands below times is translated."""
    parts: list[Part] = []
    block: list[str] = []
    is_header = True
    for line in [*lines, ""]:
        if line.strip("\r\n"):
            block.append(line)
            continue

        times = [number for number, text in enumerate(block) if "-->" in text]
        first = times[0] if times else len(block)
        if is_header and block:
            parts += [_describe_header_line(text, reading) for text in block[:first]]
            is_header = False
        else:
            parts += block[:first]
            # Players do not show a text without times, such as one behind an empty line in a
            # subtitle.
            if block and not times and not _NO_CUE.fullmatch(block[0].rstrip("\r\n")):
                reading.kept["other"] += 1

        for number, following in pairwise([*times, len(block)]):
            parts.append(block[number])
            parts += _describe_paragraphs(block[number + 1 : following], _VTT_MARKS)

        parts.append(line)
        block = []
        reading.go_on()
    return join_markup(parts)


def _describe_header_line(line: str, reading: DocumentReading) -> Part:
    """Return a line of the header of WebVTT; one that names the source language is a place for the new one."""
    named = _LANGUAGE.fullmatch(line)
    source = reading.languages[0] if reading.languages else None
    if named is None or (source is not None and split_code(named[2])[0] != split_code(source)[0]):
        return line
    return LanguagePlace(line, lambda code: f"{named[1]}{code}{named[3]}")


def _split_ass(name: str, lines: Sequence[str], reading: DocumentReading) -> Parts:
    """Take the lines of ASS or SSA apart; the texts are the last fields of the lines that begin with Dialogue."""
    parts: list[Part] = []
    fields = 10
    has_dialogue = False
    section = ""
    for line in lines:
        kind, _, rest = line.partition(":")
        kind = kind.strip().lower()

        if line.startswith("["):
            section = line.strip().lower()
        if section == "[events]" and kind == "format":
            fields = rest.count(",") + 1
        if kind == "comment":
            reading.kept["comments"] += 1

        columns = line.split(",", fields - 1)
        if kind != "dialogue" or len(columns) < fields:
            parts.append(line)
            continue

        has_dialogue = True
        text = columns[-1].rstrip("\r\n")
        parts.append(line[: len(line) - len(columns[-1])])

        if _ASS_DRAWING.search(text):
            reading.kept["code"] += 1
            parts.append(text)
        elif text.strip():
            parts += describe_subtitle(text, _ASS_MARKS)
        parts.append(line[len(line.rstrip("\r\n")) :])
        reading.go_on()

    if lines and not has_dialogue:
        raise ValueError(
            f"{name} has no line that begins with Dialogue:, so it holds no subtitles (ASS, SSA)"
        )
    return join_markup(parts)
