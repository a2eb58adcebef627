"""Finds the inline marks of Markdown in a text, each with its place, in the way that CommonMark describes."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape
from html.entities import html5
from typing import Literal

from pellucid.localize.documents.markdown_programs import (
    ATTRIBUTE_LIST,
    BRACED,
    JSX_TAG,
    TEMPLATE_TAG,
    find_code_closing,
    is_formula,
    is_jsx_tag,
)

MarkKind = Literal["opening", "closing", "single", "character", "space"]


@dataclass(slots=True)
class MarkdownMark:
    """A mark in a text: markup that opens, closes or stands alone, a character that is written in another way, or a
    line end that is a space."""

    start: int
    end: int
    kind: MarkKind
    # em, strong, del, link, image, code, html, address, break, math, footnote, note, template,
    # attributes, expression, wiki
    name: str
    key: int = 0  # the key of the opening mark that a closing one belongs to
    character: str = ""
    label: tuple[int, int] | None = None  # where the text of an image stands
    title: tuple[int, int] | None = None  # where the title of a link or an image stands


# Possessive quantifiers (*+, ++) throughout: no text makes a search go back.
_SPECIAL = re.compile(r"[\\`*_~<&!\[\]\n${%^]")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_RUN = re.compile(r"`++")
_SPACES_AT_END = re.compile(r" *+\Z")
_LINE_END = re.compile(r"\n[ \t]*+")
_ENTITY = re.compile(r"&(?:#\d{1,7}+|#[xX][0-9a-fA-F]{1,6}+|([A-Za-z][A-Za-z0-9]{1,31}+));")
_AUTOLINK = re.compile(
    r"<(?:[A-Za-z][A-Za-z0-9+.-]{1,31}+:[^\s<>\x00-\x20]*+"
    r"|[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]++@[a-zA-Z0-9-]++(?:\.[a-zA-Z0-9-]++)*+)>"
)
_ATTRIBUTE = r"""\s++[A-Za-z_:][\w.:-]*+(?:\s*+=\s*+(?:[^\s"'=<>`]++|'[^']*+'|"[^"]*+"))?+"""
_HTML_TAG = re.compile(rf"<(/?)([A-Za-z][A-Za-z0-9-]*+)(?:{_ATTRIBUTE})*+\s*+(/?)>", re.ASCII)
_OTHER_HTML = (("<!--", "-->"), ("<?", "?>"), ("<![CDATA[", "]]>"), ("<!", ">"))
_FOOTNOTE = re.compile(r"\[\^[^\]\s\[]{1,200}+\]")
_MATH = re.compile(r"\$(?![\s$])((?:[^$\\\n]|\\.)++)(?<!\s)\$(?![\w$])")
_DISPLAYED = re.compile(r"\$\$((?:[^$\\\n]|\\.)++)\$\$(?!\$)")
_BRACKETED = re.compile(r"(\\\\?)([(\[])((?:[^\\\n]|\\(?![()\[\]\\]))++)\1([)\]])")
_ESCAPED_SIGN = re.compile(r"\\[!-/:-@\[-`{-~]")
_LATEX = re.compile(r"\\[A-Za-z]{2}|[\^_=]")
_ROLE = re.compile(r"\{[A-Za-z][\w:.+-]*+\}(?=`)")  # what MyST makes of the code behind it
_HIDDEN = re.compile(r"%%[^%\n]++%%")  # a comment of Obsidian
# By which Obsidian refers to a paragraph.
_BLOCK_NAME = re.compile(r"(?<=[ \t\n])\^[A-Za-z0-9-]++\Z")
# A link of a wiki: the name of a page, and perhaps the text that stands for it.
_PAGE_NAME = r"(?:[^\[\]|\n*_`<>\\&!~$\ufdd0]|(?<=\w)_(?=\w)){1,300}+"
_WIKI_LINK = re.compile(
    rf"!?\[\[{_PAGE_NAME}(?:\ufdd0?\|(?P<text>[^\[\]\n]{{0,500}}+))?\]\](?![(\[:])"
)

# Its spaces do not end the address.
_TAG_IN_ADDRESS = r"\{\{[^{}\n]{1,500}+\}\}|\{%[^%\n]{1,500}+%\}"
_IN_BRACKETS = r"(?:[^\s()\\\x00-\x1f]|\\.|\\)*+"
for _ in range(4):  # brackets in one another
    _IN_BRACKETS = rf"(?:{_TAG_IN_ADDRESS}|[^\s()\\\x00-\x1f]|\\[^\s]|\\|\({_IN_BRACKETS}\))*+"
_TITLE = r"""(?:"(?:[^"\\]|\\[\s\S])*+"|'(?:[^'\\]|\\[\s\S])*+'|\((?:[^()\\]|\\[\s\S])*+\))"""
_TARGET = re.compile(
    rf"\([ \t]*+\n?[ \t]*+(?:<(?:[^<>\\\n]|\\.)*+>|(?!<){_IN_BRACKETS})?+"
    rf"(?:[ \t]*+(?:\n|(?<=[ \t]))[ \t]*+({_TITLE}))?+[ \t]*+\n?[ \t]*+\)"
)
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.){0,999}+)\]", re.DOTALL)


@dataclass(slots=True)
class _Run:
    """A run of signs that may begin or end emphasis."""

    sign: str
    start: int
    end: int
    length: int
    can_open: bool
    can_close: bool


@dataclass(slots=True)
class _Bracket:
    """A bracket that may begin a link."""

    start: int
    end: int
    is_image: bool
    runs: int  # how many runs stand before it
    marks: int  # how many marks stand before it
    has_bracket_inside: bool = False
    # Whether it begins a footnote that stands in the text, as Pandoc and Obsidian have it.
    is_note: bool = False


class MarkdownScanner:
    """One pass through a text. `is_label` says whether a link is defined under a name."""

    def __init__(self, text: str, is_label: Callable[[str], bool], *, is_mdx: bool = False):
        self.text = text
        self.is_mdx = is_mdx
        self.is_label = is_label
        self.marks: list[MarkdownMark] = []
        self.runs: list[_Run] = []
        self.brackets: list[_Bracket] = []
        self.inactive = 0  # brackets before this number begin no link, since one stands inside them
        self.code_runs: dict[int, list[int]] = {}

        if "`" in text:
            for run in _RUN.finditer(text):
                self.code_runs.setdefault(len(run[0]), []).append(run.start())

        self.last_end = {end: text.rfind(end) for _, end in _OTHER_HTML} if "<" in text else {}
        self.last_tag = max(map(text.rfind, ("%}", "}}", "#}"))) if "{" in text else -1
        self.wiki_ends: set[int] = set()  # where the closing brackets of wiki links stand
        # Where the code ends that is between tags, by the pattern of its end.
        self.code_ends: dict[str, int] = {}

    def scan(self) -> list[MarkdownMark]:
        """Return the marks in the order of their places."""
        position = 0
        while match := _SPECIAL.search(self.text, position):
            position = self.read_sign(match[0], match.start())

        self.pair_runs(0)
        return sorted(self.marks, key=lambda mark: (mark.start, mark.end))

    def read_sign(self, sign: str, start: int) -> int:
        """Read what begins at a sign, and return where it ends."""
        text = self.text
        if sign == "\\":
            return self.read_backslash(start)

        if sign == "\n":
            spaces = _SPACES_AT_END.search(text, max(0, start - 200), start)
            before = len(spaces[0]) if spaces else 0
            end = _LINE_END.match(text, start).end()  # pyright: ignore[reportOptionalMemberAccess]
            kind: MarkKind = "single" if before >= 2 else "space"
            self.marks.append(MarkdownMark(start - before, end, kind, "break", character=" "))
            return end

        if sign == "`":
            end = _RUN.match(text, start).end()  # pyright: ignore[reportOptionalMemberAccess]
            places = self.code_runs.get(end - start, [])
            index = bisect_left(places, end)
            if index == len(places):
                return end
            return self.add_single(start, places[index] + end - start, "code")

        if sign == "<":
            return self.read_angle_bracket(start)
        if sign == "&":
            match = _ENTITY.match(text, start)
            if match is None or (match[1] and f"{match[1]};" not in html5):
                return start + 1
            end, character = match.end(), unescape(match[0])
            self.marks.append(MarkdownMark(start, end, "character", "entity", character=character))
            return end

        if sign == "$":
            return self.read_dollar(start)
        if sign == "{":
            return self.read_brace(start)

        if text.startswith("^[", start):
            end = self.open_bracket(start, start + 2)
            self.brackets[-1].is_image, self.brackets[-1].is_note = False, True
            return end

        if sign in "%^":
            pattern = _HIDDEN if sign == "%" else _BLOCK_NAME
            match = None if text[start - 1 : start].isalnum() else pattern.match(text, start)
            return self.add_single(start, match.end(), "html") if match else start + 1

        if sign in "*_~":
            return self.read_run(sign, start)
        return self.read_bracket(sign, start)

    def add_single(self, start: int, end: int, name: str) -> int:
        self.marks.append(MarkdownMark(start, end, "single", name))
        return end

    def read_dollar(self, start: int) -> int:
        """Read a formula, or a sign of dollars."""
        text = self.text
        before = text[start - 1 : start]
        if before.isalnum() or before == "$":
            return start + 1

        match = _DISPLAYED.match(text, start) or _MATH.match(text, start)
        if match and is_formula(match[1]):
            return self.add_single(start, match.end(), "math")
        return start + 1

    def read_brace(self, start: int) -> int:
        """Read a tag of a template, attributes, the role of code, or an expression of MDX."""
        text = self.text
        if start < self.last_tag and (match := TEMPLATE_TAG.match(text, start)):
            opening = find_code_closing(match[0])
            end = self.find_code_end(match.end(), opening[1]) if opening else 0
            if end:
                return self.add_single(start, end, "code")
            return self.add_single(start, match.end(), "template")

        if match := ATTRIBUTE_LIST.match(text, start):
            return self.add_single(start, match.end(), "attributes")
        if match := _ROLE.match(text, start):
            marks = len(self.marks)
            end = self.read_sign("`", match.end())
            if len(self.marks) > marks:
                self.marks[-1].start = start
            return end

        match = BRACED.match(text, start) if self.is_mdx else None
        return self.add_single(start, match.end(), "expression") if match else start + 1

    def find_code_end(self, position: int, pattern: str) -> int:
        """Return where code ends that began before a position; 0 where it has no end."""
        known = self.code_ends.get(pattern, position)
        if known < position:
            return 0

        match = re.compile(pattern).search(self.text, position)
        if match is None:
            self.code_ends[pattern] = -1
        return match.end() if match else 0

    def read_backslash(self, start: int) -> int:
        following = self.text[start + 1 : start + 2]
        if following == "\n":
            end = _LINE_END.match(self.text, start + 1).end()  # pyright: ignore[reportOptionalMemberAccess]
            return self.add_single(start, end, "break")

        match = _BRACKETED.match(self.text, start)
        if match and match[2] + match[4] in ("()", "[]") and _is_bracketed_formula(match):
            return self.add_single(start, match.end(), "math")
        if _PUNCTUATION.match(following):
            self.marks.append(
                MarkdownMark(start, start + 2, "character", "escape", character=following)
            )
            return start + 2
        return start + 1

    def read_angle_bracket(self, start: int) -> int:
        text = self.text
        if match := _AUTOLINK.match(text, start):
            return self.add_single(start, match.end(), "address")
        if match := _HTML_TAG.match(text, start):
            kind: MarkKind = "closing" if match[1] else "single" if match[3] else "opening"
            self.marks.append(MarkdownMark(start, match.end(), kind, f"html {match[2].lower()}"))
            return match.end()

        match = JSX_TAG.match(text, start)
        if match and (self.is_mdx or is_jsx_tag(match[0], match[2])):
            kind = "closing" if match[1] else "single" if match[3] else "opening"
            self.marks.append(MarkdownMark(start, match.end(), kind, f"html {match[2].lower()}"))
            return match.end()

        for begin, end in _OTHER_HTML:
            if text.startswith(begin, start) and self.last_end[end] >= start + len(begin):
                if begin == "<!" and not text[start + 2 : start + 3].isalpha():
                    break
                place = text.find(end, start + (2 if begin == "<!--" else len(begin)))
                return self.add_single(start, place + len(end), "html")
        return start + 1

    # Emphasis

    def read_run(self, sign: str, start: int) -> int:
        text = self.text
        end = start
        while text[end : end + 1] == sign:
            end += 1

        before = text[start - 1] if start else "\n"
        after = text[end] if end < len(text) else "\n"
        is_word_before = not _is_space(before) and not _is_sign(before)
        is_word_after = not _is_space(after) and not _is_sign(after)
        # Where a run stands beside a sign, it belongs to the other side.
        left = not _is_space(after) and (is_word_after or not is_word_before)
        right = not _is_space(before) and (is_word_before or not is_word_after)

        if sign == "_":
            opens = left and (not right or _is_sign(before))
            right = right and (not left or _is_sign(after))
            left = opens

        if sign != "~" or end - start <= 2:
            self.runs.append(_Run(sign, start, end, end - start, left, right))
        return end

    def pair_runs(self, bottom: int) -> None:
        """Make marks of emphasis of the runs from number `bottom` on, and forget these runs."""
        runs = self.runs[bottom:]
        del self.runs[bottom:]
        previous = list(range(-1, len(runs) - 1))
        following = list(range(1, len(runs) + 1))
        # Below these numbers there is no run that a closing one of the same kind could belong to.
        lowest: dict[tuple[str, bool, int], int] = {}

        def remove(number: int) -> None:
            if previous[number] >= 0:
                following[previous[number]] = following[number]
            if following[number] < len(runs):
                previous[following[number]] = previous[number]

        number = 0
        while number < len(runs):
            closer = runs[number]
            if not closer.can_close:
                number = following[number]
                continue

            size = closer.length % 3 if closer.sign != "~" else closer.length
            kind = closer.sign, closer.can_open, size

            candidate = previous[number]
            while candidate > lowest.get(kind, -1) and not _can_pair(runs[candidate], closer):
                candidate = previous[candidate]

            if candidate <= lowest.get(kind, -1):
                lowest[kind] = previous[number]
                after = following[number]
                if not closer.can_open:
                    remove(number)
                number = after
                continue

            opener = runs[candidate]
            between = following[candidate]
            while between != number:
                remove(between)
                between = following[between]
            self.add_emphasis(opener, closer)
            if opener.start == opener.end:
                remove(candidate)
            if closer.start == closer.end:
                after = following[number]
                remove(number)
                number = after

    def add_emphasis(self, opener: _Run, closer: _Run) -> None:
        size = min(2, opener.end - opener.start, closer.end - closer.start)
        name = "del" if opener.sign == "~" else "strong" if size == 2 else "em"
        opener.end -= size
        start, end = opener.end, closer.start
        self.marks.append(MarkdownMark(start, start + size, "opening", name, start))
        self.marks.append(MarkdownMark(end, end + size, "closing", name, start))
        closer.start += size

    # Links

    def read_bracket(self, sign: str, start: int) -> int:
        text = self.text

        wiki_link = _WIKI_LINK.match(text, start) if sign != "]" else None
        if wiki_link and not self.is_label(wiki_link[0].strip("![]")):
            return self.read_wiki_link(wiki_link)

        if start in self.wiki_ends:
            return start + 2

        if sign == "!":
            if not text.startswith("![", start) or _FOOTNOTE.match(text, start + 1):
                return start + 1
            return self.open_bracket(start, start + 2)
        if sign == "[":
            if match := _FOOTNOTE.match(text, start):
                return self.add_single(start, match.end(), "footnote")
            return self.open_bracket(start, start + 1)

        if not self.brackets:
            return start + 1

        bracket = self.brackets.pop()
        if bracket.is_note:
            begin = bracket.start
            self.pair_runs(bracket.runs)
            self.marks.append(MarkdownMark(begin, bracket.end, "opening", "note", begin))
            self.marks.append(MarkdownMark(start, start + 1, "closing", "note", begin))
            return start + 1

        is_active = bracket.is_image or len(self.brackets) >= self.inactive
        self.inactive = min(self.inactive, len(self.brackets))
        end, title = self.find_target(bracket, start) if is_active else (0, None)
        if not end:
            return start + 1

        self.pair_runs(bracket.runs)
        if bracket.is_image:
            del self.marks[bracket.marks :]
            label = (bracket.end, start)
            self.marks.append(
                MarkdownMark(bracket.start, end, "single", "image", label=label, title=title)
            )
            return end

        self.marks.append(
            MarkdownMark(bracket.start, bracket.end, "opening", "link", bracket.start)
        )
        self.marks.append(MarkdownMark(start, end, "closing", "link", bracket.start, title=title))
        self.inactive = len(self.brackets)
        return end

    def read_wiki_link(self, match: re.Match[str]) -> int:
        """Read a link of a wiki, whose text goes on up to its closing brackets."""
        start, end = match.span()
        if match["text"] is None or match[0].startswith("!"):
            return self.add_single(start, end, "wiki")

        text_start, text_end = match.span("text")
        self.marks.append(MarkdownMark(start, text_start, "opening", "wiki", start))
        self.marks.append(MarkdownMark(text_end, end, "closing", "wiki", start))
        self.wiki_ends.add(text_end)
        return text_start

    def open_bracket(self, start: int, end: int) -> int:
        if self.brackets:
            self.brackets[-1].has_bracket_inside = True
        is_image = end - start == 2
        self.brackets.append(_Bracket(start, end, is_image, len(self.runs), len(self.marks)))
        return end

    def find_target(self, bracket: _Bracket, start: int) -> tuple[int, tuple[int, int] | None]:
        """Return where a link ends whose text ends here, 0 for none, and where its title stands."""
        text = self.text
        if match := _TARGET.match(text, start + 1):
            return match.end(), (match.start(1) + 1, match.end(1) - 1) if match[1] else None

        label = _LABEL.match(text, start + 1)
        if label and label[1]:
            return (label.end(), None) if self.is_label(label[1]) else (0, None)

        if bracket.has_bracket_inside or start - bracket.end > 999:
            return 0, None
        end = label.end() if label else start + 1
        return (end, None) if self.is_label(text[bracket.end : start]) else (0, None)


def _can_pair(opener: _Run, closer: _Run) -> bool:
    if not opener.can_open or opener.sign != closer.sign:
        return False
    if opener.sign == "~":
        return opener.length == closer.length

    # "If one of the delimiters can both open and close emphasis, then the sum of the lengths must
    # not be a multiple of 3 unless both lengths are" (CommonMark 0.31, rules 9 and 10).
    if not (opener.can_close or closer.can_open) or (opener.length + closer.length) % 3 != 0:
        return True
    return opener.length % 3 == closer.length % 3 == 0


def _is_bracketed_formula(match: re.Match[str]) -> bool:
    """Return whether brackets behind backslashes hold a formula; square brackets may hold text instead."""
    content = _ESCAPED_SIGN.sub("", match[3])
    if match[2] == "[" and len(match[1]) == 1:
        return _LATEX.search(content) is not None
    return is_formula(content)


def _is_space(character: str) -> bool:
    return character.isspace()


def _is_sign(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"
