"""Reads a text without the codes in it, and leaves words apart that a code stood between."""

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any

from pellucid.data.text.protected import find_protected

CODES = frozenset(
    {"bpt", "ept", "ph", "it", "ut", "x", "bx", "ex", "sc", "ec", "sm", "em", "cp", "sub"}
)
"""Inline elements of TMX and XLIFF whose content is no text of the sentence; every other surrounds text."""

# Codes that stand for something between words; the others begin or end a formatting.
_STANDING = ("ph", "x")
# Text that was deleted while somebody recorded the changes.
_DELETED_MARKS = ("x-sdl-deleted", "x-sdl-feedback-deleted")


class Join(IntEnum):
    """How the texts on both sides of a code belong together; of several codes the largest counts."""

    CLOSE = 0
    """As if the code were not there: a formatting, which may change inside a word."""
    APART = 1
    """Not as one word: something stood between them, an image, or what is not known."""
    SPACED = 2
    """As two words at least: a line break, a tab, a new paragraph."""


_BREAK_NAMES = (
    "br|p|div|li|[ou]l|d[dlt]|t[dhr]|table|h[1-6]|hr|pre|blockquote|para|paragraph|section|tab|lb|nl|lf|cr|line-?break"
    "|softreturn|hardreturn|newline"
)
_TAG = re.compile(r"<(/?)(?:[\w.-]+:)?([A-Za-z][\w-]*?)(\d*)((?:\s[^<>]*?)?)(/?)>")
_BREAK_NAME = re.compile(_BREAK_NAMES, re.IGNORECASE)
_BREAK_KIND = re.compile(f"(?:x-html-|x-)(?:{_BREAK_NAMES})", re.IGNORECASE)
# A line end or a tab as programs spell it: \n, \t, and in RTF \line, \tab, \par.
_BREAK_SIGN = re.compile(
    r"(?:\s*(?:\\[nrtv]|\\(?:line|tab|par|page|cell|row)\b|&#(?:9|10|11|12|13|x0?[9a-d]);|[\t\n\v\f\r\u2028\u2029↵¶⏎→]))+\s*",
    re.IGNORECASE,
)
_BREAK_WORD = re.compile(
    r"(?:x-(?:html-)?|xlf:|fmt:|[\[{(<])?"
    r"(?:lb|pb|br|nl|tab|tabulator|line[-_ ]?break|page[-_ ]?break|soft[-_ ]?return|newline|crlf|lf)\d*[\]})>]?",
    re.IGNORECASE,
)
_FORMAT_WORD = re.compile(
    r"(?:x-(?:html-)?|xlf:)?(?:b|i|u|s|bold|italics?|underlined?|strong|em|color|font|size|span|sub|sup"
    r"|subscript|superscript|ulined|dulined|link|a|fmt|formatting|strike(?:through)?|highlight|cf)",
    re.IGNORECASE,
)
_FORMAT_ID = re.compile("(?:START|CLOSE)_")  # as Angular names the tags around words
_MEMOQ_CONTENT = re.compile(r"""<mq:\w[\w-]*\s[^<>]*?\bval=["']([^"']*)["']""")
_VOID_TAGS = ("img", "input", "wbr", "area", "embed", "source")
# A reference to one character.
_CHARACTER = re.compile(r"&(?:\w{2,31}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"

# Scripts without spaces between words, and their marks.
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]"
)
_BEFORE_NO_SPACE, _BEHIND_NO_SPACE = frozenset(".,;:!?)]}»”’…%"), frozenset("([{«“¿¡")


def read_inline_text(element: Any, data: Mapping[str, str] | None = None) -> str:
    """Return the text of an element without its codes; a placeholder such as {0} or %s that was a code stays.

    `data` has what the codes of a unit of XLIFF 2 stand for, by its id.
    """
    return join_pieces(_list_pieces(element, data or {}))


def join_pieces(pieces: Iterable[str | Join]) -> str:
    """Join texts with what stands between them: words that a code held apart stay apart, and no double space is left.

    >>> join_pieces(["One", Join.SPACED, "two ", Join.APART, " thr", Join.CLOSE, "ee", Join.APART, "."])
    'One two three.'
    """
    out: list[str] = []
    pending: Join | None = None
    for piece in pieces:
        if isinstance(piece, Join):
            pending = piece if pending is None else max(pending, piece)
        elif piece:
            if pending is not None:
                piece = _join_behind(out, pending, piece)
            if piece:
                out.append(piece)
                pending = None

    if pending is not None and out:
        out[-1] = out[-1].rstrip(" ")
    return "".join(out)


def _join_behind(out: list[str], join: Join, text: str) -> str:
    """Return a text as it stands behind what is written already, with a code between them that is left out."""
    if not out:
        return text.lstrip(" ")

    before, first = out[-1][-1:], text[0]
    if before.isspace():
        if join is not Join.CLOSE and first in ".,)" and (len(text) == 1 or text[1].isspace()):
            out[-1] = out[-1].rstrip(" ") or " "
            return text
        return text.lstrip(" ")

    if first.isspace() or _UNSPACED.match(before) or _UNSPACED.match(first):
        return text

    if join is Join.SPACED:
        return text if first in _BEFORE_NO_SPACE or before in _BEHIND_NO_SPACE else f" {text}"
    return f" {text}" if join is Join.APART and before.isalnum() and first.isalnum() else text


def _list_pieces(element: Any, data: Mapping[str, str]) -> Iterator[str | Join]:
    """Yield the texts of an element of lxml, and how they belong together where a code stood."""
    from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

    yield element.text or ""
    for child in element:
        name = child.tag.rpartition("}")[2] if isinstance(child.tag, str) else ""
        if child.tag is etree.Entity:
            # Not declared in the file, so from a DTD that is not read: almost always one of HTML's.
            yield html.unescape(child.text)
        elif name in CODES:
            yield from _read_code(child, name, data)
        elif name and child.get("mtype") not in _DELETED_MARKS:
            contents = data.get(child.get("dataRefStart", ""), ""), child.get("dispStart", "")
            join = judge_code(False, tuple(filter(None, contents)), _list_kinds(child))
            yield join
            yield from _list_pieces(child, data)
            yield join
        yield child.tail or ""


def _read_code(code: Any, name: str, data: Mapping[str, str]) -> Iterator[str | Join]:
    """Yield what a code stands for."""
    if name == "cp":  # a character that XML cannot hold
        is_space = code.get("hex", "").upper().lstrip("0") in ("9", "A", "B", "C", "D")
        yield Join.SPACED if is_space else Join.CLOSE
        return

    contents = [(code.text or "") + "".join(child.tail or "" for child in code)]
    if name in ("ph", "sc", "ec"):
        contents.append(data.get(code.get("dataRef", ""), ""))
    contents += [code.get("disp", ""), code.get("equiv-text", ""), code.get("equiv", "")]

    told = tuple(filter(None, contents))
    yield judge_code(name in _STANDING, told, _list_kinds(code), code.get("id", ""))


def _list_kinds(element: Any) -> tuple[str, ...]:
    """Return what an element says about its kind."""
    return tuple(filter(None, (element.get(key) for key in ("ctype", "subType", "type"))))


@lru_cache(maxsize=1000)  # a file has few different codes
def judge_code(
    is_standing: bool, contents: tuple[str, ...], kinds: tuple[str, ...] = (), name: str = ""
) -> str | Join:
    """Return how a code joins the texts on both of its sides, or the text that it stands for.

    `contents` are what a code stands for and how it is shown, `kinds` what it is by its attributes.

    >>> judge_code(True, ("<br/>",)), judge_code(True, ("{0}",)), judge_code(False, ("<b>",)), judge_code(True, ())
    (<Join.SPACED: 2>, '{0}', <Join.CLOSE: 0>, <Join.APART: 1>)
    """
    by_kind = _join_of_kinds(kinds)

    if by_kind is Join.SPACED or _BREAK_WORD.fullmatch(name):
        return Join.SPACED

    for content in contents:
        found = _read_content(is_standing, content)
        if found is not None:
            return found

    if by_kind is not None:
        return by_kind
    return Join.APART if is_standing and not _FORMAT_ID.match(name) else Join.CLOSE


def _join_of_kinds(kinds: Iterable[str]) -> Join | None:
    """Return how something of these kinds joins texts, if a kind tells."""
    found: Join | None = None
    for kind in kinds:
        if _BREAK_WORD.fullmatch(kind) or _BREAK_KIND.fullmatch(kind):
            return Join.SPACED
        if _FORMAT_WORD.fullmatch(kind):
            found = Join.CLOSE
    return found


def _read_content(is_standing: bool, content: str) -> str | Join | None:
    """Return what the content of a code tells, None for nothing."""
    if memoq := _MEMOQ_CONTENT.match(content):
        content = html.unescape(memoq[1])
    if content and content.isspace():
        return Join.SPACED

    content = content.strip()
    is_rtf_break = content.startswith(("\\line", "\\tab "))
    if is_rtf_break or _BREAK_SIGN.fullmatch(content) or _BREAK_WORD.fullmatch(content):
        return Join.SPACED

    tags = list(_TAG.finditer(content[:2000])) if content.startswith("<") else []
    if any(_is_break(tag) for tag in tags):
        return Join.SPACED

    if not is_standing:
        return None

    if _CHARACTER.fullmatch(content):
        character = html.unescape(content)
        if character in _INVISIBLE:
            return Join.CLOSE
        return Join.SPACED if character.isspace() else character if len(character) == 1 else None

    # A placeholder of a program is part of the sentence.
    if len(content) <= 200 and [match[0] for match in find_protected(content)] == [content]:
        return content

    if tags and tags[0].end() == len(content):
        is_single = tags[0][5] or tags[0][2].lower() in _VOID_TAGS
        return Join.APART if is_single else Join.CLOSE
    return None


def _is_break(tag: re.Match[str]) -> bool:
    if _BREAK_NAME.fullmatch(tag[2] + tag[3]) or _BREAK_NAME.fullmatch(tag[2]):
        return True
    # The space of OpenDocument; <s> is struck out text of HTML.
    return tag[2] == "s" and bool(tag[5])


# Tags as text in files of Phrase: {1} stands alone, {1> opens and <1}
# closes, {b> is bold, {j} joins segments.
PHRASE_TAG = re.compile(
    r"\{(?:(?P<opening>\d{1,3}|[biuBIU_^]+)>|(?P<single>\d{1,3}|j)\})|<(?P<closing>\d{1,3}|[biuBIU_^]+)\}"
)


def split_phrase_tags(text: str, marks: Mapping[str, str]) -> Iterator[str | Join]:
    """Yield a text of a file of Phrase without its tags; `marks` has what each stands for, by its number.

    Without such a list {1} is a tag only where it stands between two letters,
    and a placeholder of the text elsewhere.

    >>> join_pieces(split_phrase_tags("The spring{1}is {b>broken<b} by {2}.", {}))
    'The spring is broken by {2}.'
    """
    position = 0
    for tag in PHRASE_TAG.finditer(text):
        single = tag["single"]
        if single and single != "j" and single not in marks:
            between = text[max(0, tag.start() - 1) : tag.start()], text[tag.end() : tag.end() + 1]
            if marks or not all(side.isalpha() for side in between):
                continue
        yield text[position : tag.start()]
        position = tag.end()
        if single == "j":
            yield Join.SPACED
        else:
            content = marks.get(single or tag["opening"] or tag["closing"], "")
            yield judge_code(single is not None, (content,) if content else ())
    yield text[position:]
