"""Writes a translated text of Markdown so that it has the marks of its source, and no others."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product

from pellucid.localize.documents.markdown_marks import MarkdownMark

# Characters that no text has (Unicode keeps them for programs): they stand around a tag until it is
# written, so that its signs are told apart from signs of the text.
_BEGIN, _NAME_END, _END, _BAR = "\ufdd1", "\ufdd3", "\ufdd2", "\ufdd0"
_TAG = re.compile(f"{_BEGIN}([^{_NAME_END}]*){_NAME_END}([^{_END}]*){_END}")
_PRIVATE = re.compile("[\ufdd0-\ufdef]")
_WHITE_SPACE = re.compile(r"\s+")

# Signs with a meaning beyond CommonMark, where the author wrote them as text.
_ALWAYS = frozenset("$~=:{}@^\"'<&|")
_HARD = re.compile(r"[\\*_\[\]<>`~$&!^]|\{(?![{%#])|%(?=%)")
_TEMPLATE_BRACE = re.compile(r"\{(?=[{%#])")  # programs that fill in templates know no backslashes
_BACKSLASH = re.compile(r"\\(?=[!-/:-@\[-`{-~])|\\\Z")
_SIGN = re.compile(r"[!-/:-@\[-`{-~]")
# Any but a backslash, which escapes what follows it already.
_FIRST_SIGN = re.compile(r"[!-/:-@\[\]-`{-~]")
_LAST_SIGNS = re.compile(r"(?<!\\)(?:#+|[!-/:-@\[\]-`{-~])\Z")
_BACKSLASHED = re.compile(r"(?<!\\)(?:\\\\)*\\[!-/:-@\[-`{-~]\Z")
_HTML_NAMES = {"em": "em", "strong": "strong", "del": "del"}
# What a line must not begin with: a heading, an item, a quotation, a line across, a table, code,
# HTML, a definition.
_LINE_START = re.compile(
    r"(?P<whole>#{1,6}|[-+*]|:)\Z|(?P<first>[>|]|[=\-*_+]+\Z|:-|~~~|```|:::|<[A-Za-z/!?]|\$\$)|\d{1,9}(?P<number>[.)])\Z"
)


@dataclass(frozen=True)
class _Atom:
    """A piece of a text that is written together: words, a space where a line may end, or a tag."""

    text: str
    # Of a tag, with "+" for one that opens, "-" for one that
    # closes, and "=" for one that stands alone.
    name: str = ""
    is_space: bool = False


def protect_tag(
    text: str, name: str, sign: str = "=", *, is_first: bool = True, is_last: bool = True
) -> str:
    """Return the text of a tag with what tells it apart from the text of a translation."""
    before = f"{_BEGIN}{sign}{name}{_NAME_END}" if is_first else ""
    return f"{before}{text}{_END if is_last else ''}"


@dataclass(frozen=True)
class MarkdownWriter:
    """Writes the translation of one text."""

    prefix: str  # what stands before each line but the first
    line_end: str
    width: int  # of its longest line; 0 where it stood on one line
    escaped: Collection[str]  # signs that stand behind a backslash in the source
    is_cell: bool
    begins_line: bool  # whether its first word could be read as the sign of a block
    # Whether other texts stand in the same block, whose signs could fit this text's signs.
    is_part: bool
    scan: Callable[[str], Sequence[MarkdownMark]]
    is_alone: Callable[[str], bool]  # whether it is read as one text in its block

    def escape(self, text: str) -> str:
        """Return a text without line ends."""
        return _WHITE_SPACE.sub(_keep_no_break, _PRIVATE.sub("", text))

    def finish(self, written: str) -> str:
        """Return a translation with its tags as it stands in the document."""
        atoms = self._split(written)
        content = self._choose(atoms)
        return content.replace("\n", self.line_end + self.prefix)

    def _choose(self, atoms: Sequence[_Atom]) -> str:
        """Return the plainest way to write a translation that is read as it is meant."""

        content = ""
        ways = (
            lambda: atoms,
            lambda: _write_as_html(atoms, self._find_misread(atoms)),
            lambda: _write_as_html(atoms, range(len(atoms))),
        )
        plain = ((self._escape_little, _keep_edge), (self._escape_much, _keep_edge))
        guarded = (
            (self._escape_much, _escape_edge),
            (self._escape_much, _spell_edge),
            (_spell_signs, _spell_edge),
        )
        # Signs that are spelled out are worse to read; tags behind their words are worse than that.
        tags_last = product((plain, guarded), [lambda: _put_tags_last(atoms)])
        for escapes, make_way in chain(product((plain, guarded), ways), tags_last):
            way = make_way()
            for (escape, escape_edge), width in product(escapes, dict.fromkeys((self.width, 0))):
                content, spans = self._join(way, escape, width, escape_edge)
                if self._is_read_as_meant(content, spans, way):
                    return content
        return content

    def _split(self, written: str) -> list[_Atom]:
        """Return a translation as words, spaces and tags."""
        atoms: list[_Atom] = []

        def add_words(text: str) -> None:
            for piece in re.split("( )", text):
                if piece:
                    atoms.append(_Atom(piece, is_space=piece == " "))

        position = 0
        for match in _TAG.finditer(written):
            add_words(written[position : match.start()])
            text = match[2].replace(self.line_end + self.prefix, "\n")
            while match[1] == "=break" and atoms and atoms[-1].is_space:
                atoms.pop()
            if match[1] == "=code" and atoms and atoms[-1].text.endswith("`"):
                atoms.append(_Atom(" ", is_space=True))  # or both would be one
            atoms.append(_Atom(text, match[1]))
            position = match.end()
        add_words(written[position:])
        return atoms

    # Writing

    def _escape_little(self, text: str) -> str:
        if self.is_part:
            return self._escape_much(text)

        text = _BACKSLASH.sub(r"\\\\", text)
        always = _ALWAYS.intersection(self.escaped)
        return "".join(f"\\{sign}" if sign in always else sign for sign in text) if always else text

    def _escape_much(self, text: str) -> str:
        return _TEMPLATE_BRACE.sub("&#123;", _HARD.sub(r"\\\g<0>", text))

    def _join(
        self,
        atoms: Sequence[_Atom],
        escape: Callable[[str], str],
        width: int,
        escape_edge: Callable[[str, bool], str],
    ) -> tuple[str, set[tuple[int, int]]]:
        """Return a translation on lines of this width, all on one for 0, and where its tags stand in it."""
        chunks: list[list[_Atom]] = [[]]
        for atom in atoms:
            if atom.is_space:
                chunks.append([])
            else:
                chunks[-1].append(atom)

        out: list[str] = []
        spans: set[tuple[int, int]] = set()
        length = column = 0
        last = next((atom for atom in reversed(atoms) if not atom.is_space), None)
        for number, chunk in enumerate(filter(None, chunks)):
            pieces = []
            for atom in chunk:
                piece = atom.text if atom.name else escape(atom.text)
                pieces.append(_escape_bars(piece) if self.is_cell and not atom.name else piece)

            size = sum(map(len, pieces))
            is_too_long = width > 0 and column > 0 and column + 1 + size > width
            # A tag of HTML at the beginning of a line could begin a block.
            wraps = is_too_long and not chunk[0].name.endswith("html")

            if number > 0 and column > 0:
                out.append("\n" if wraps else " ")
                length += 1
                column = 0 if wraps else column + 1

            for index, (atom, piece) in enumerate(zip(chunk, pieces, strict=True)):
                if column == 0 and not atom.name and self.begins_line:
                    piece = _escape_line_start(piece, is_alone=index == len(chunk) - 1)
                if column == 0 and not atom.name:
                    piece = escape_edge(piece, True)
                if atom is last and not atom.name:
                    piece = escape_edge(piece, False)
                out.append(piece)
                if atom.name:
                    spans.add((length, length + len(piece)))
                length += len(piece)
                column += len(piece)
                if "\n" in piece:
                    column = len(piece) - piece.rfind("\n") - 1
        return "".join(out), spans

    # Reading again

    def _find_misread(self, atoms: Sequence[_Atom]) -> list[int]:
        """Return the tags of emphasis that would be read as text where they stand now."""
        content, _ = self._join(atoms, self._escape_much, 0, _keep_edge)

        read = {(mark.start, mark.end) for mark in self._scan(content)}
        misread: list[int] = []
        position = 0
        for number, atom in enumerate(atoms):
            text = atom.text
            if not atom.name:
                text = self._escape_much(text)
                text = _escape_bars(text) if self.is_cell else text
            place = content.find(text, position)
            if place < 0:
                continue
            position = place + len(text)
            if atom.name[1:] in _HTML_NAMES and (place, position) not in read:
                misread.append(number)
        return misread

    def _scan(self, content: str) -> Sequence[MarkdownMark]:
        return self.scan(content.replace("\\|", f"{_BAR}|") if self.is_cell else content)

    def _is_read_as_meant(
        self, content: str, spans: set[tuple[int, int]], atoms: Sequence[_Atom]
    ) -> bool:
        """Return whether a translation has the marks and the text that it should have, and is one block."""
        meant = "".join(atom.text if not atom.name else "" for atom in atoms)
        read: list[str] = []
        position = 0
        found: set[tuple[int, int]] = set()
        tags = sorted(spans)

        # Of the next tag; what stands inside a tag, as a key in an element <kbd>, is no text.
        number = 0
        for mark in self._scan(content):
            if mark.kind not in ("character", "space"):
                found.add((mark.start, mark.end))
            if mark.start < position:
                continue
            while number < len(tags) and tags[number][1] <= mark.start:
                number += 1
            start, end = mark.start, mark.end
            if number < len(tags) and tags[number][0] <= start:
                start, end = tags[number]
            read += [content[position:start], mark.character]
            position = end

        read.append(content[position:])
        text = "".join(read)
        if self.is_cell:
            text = text.replace("\\|", "|")

        if _squeeze(text) != _squeeze(meant) or not self._fit(found, spans, content):
            return False
        return not (self.is_cell and "\n" in content) and self.is_alone(content)

    def _fit(self, found: set[tuple[int, int]], spans: set[tuple[int, int]], content: str) -> bool:
        # A tag may hold several marks, as an element with code does.
        rest = found - spans
        if not spans <= found and any(
            not any(start <= first and last <= end for first, last in found)
            for start, end in spans - found
        ):
            return False

        return all(
            any(start <= first and last <= end for start, end in spans) for first, last in rest
        )


def _escape_bars(text: str) -> str:
    """Return a piece of a cell without a bar that would end the cell, and without one that a backslash would keep."""
    text = text.replace("|", "\\|")
    return f"{text[:-2]}&#92;" if text.endswith("\\\\") else text


def _spell_signs(text: str) -> str:
    """Return a text in which each sign is spelled as in HTML.

    >>> _spell_signs("[a|b]")
    '&#91;a&#124;b&#93;'
    """
    return _SIGN.sub(lambda match: f"&#{ord(match[0])};", text)


def _keep_edge(piece: str, is_first: bool) -> str:
    return piece


def _escape_edge(piece: str, is_first: bool) -> str:
    """Return the first or the last piece of a translation with a backslash before the sign at its end, if it is one.

    >>> _escape_edge("===", True), _escape_edge("a##", False), _escape_edge("a:", False), _escape_edge("a", True)
    ('\\\\===', 'a\\\\##', 'a\\\\:', 'a')
    """
    if piece.startswith("&#") and is_first:
        return piece  # it is spelled already

    match = _FIRST_SIGN.match(piece) if is_first else _LAST_SIGNS.search(piece)
    return f"{piece[: match.start()]}\\{piece[match.start() :]}" if match else piece


def _spell_edge(piece: str, is_first: bool) -> str:
    """Return the first or the last piece of a translation with the character at its end as HTML spells it.

    >>> _spell_edge("import", True), _spell_edge("a:", False), _spell_edge(r"\\#", True)
    ('&#105;mport', 'a&#58;', '&#35;')
    """
    if is_first:
        if piece.startswith("&#"):
            return piece
        sign = 1 if piece.startswith("\\") and piece[1:] else 0
        return f"&#{ord(piece[sign])};{piece[sign + 1 :]}"

    if piece.endswith(";"):  # it may end a character that is spelled already
        return piece
    start = -2 if _BACKSLASHED.search(piece) else -1
    return f"{piece[:start]}&#{ord(piece[-1])};"


def _escape_line_start(piece: str, is_alone: bool) -> str:
    """Return the first piece of a line without a meaning at that place.

    >>> [_escape_line_start(piece, True) for piece in ("1.", "-", "#", "#1", ">x", "1.5", "---")]
    ['1\\\\.', '\\\\-', '\\\\#', '#1', '\\\\>x', '1.5', '\\\\---']
    """
    match = _LINE_START.match(piece)
    if match is None or (match["first"] is None and not is_alone):
        return piece

    if match["number"]:
        return f"{piece[:-1]}\\{match['number']}"
    return f"\\{piece}"


def _write_as_html(atoms: Sequence[_Atom], numbers: Collection[int]) -> list[_Atom]:
    """Return a translation with some tags of emphasis written as HTML, or removed where they have no text inside.

    CommonMark reads ** as emphasis only beside certain
    characters, as the sides of a word have them.
    """
    partners: dict[int, int] = {}
    waiting: dict[str, list[int]] = {}
    for number, atom in enumerate(atoms):
        name = atom.name[1:]
        if name not in _HTML_NAMES:
            continue
        if atom.name[0] == "+":
            waiting.setdefault(name, []).append(number)
        elif waiting.get(name):
            opening = waiting[name].pop()
            partners[opening], partners[number] = number, opening

    chosen = {*numbers, *(partners[number] for number in numbers if number in partners)}
    out: list[_Atom] = []
    for number, atom in enumerate(atoms):
        name = atom.name[1:]
        if number not in chosen or name not in _HTML_NAMES:
            out.append(atom)
        elif number in partners:
            first, last = sorted((number, partners[number]))
            between = [other.text for other in atoms[first + 1 : last] if not other.is_space]
            if any(map(str.strip, between)):
                tag = f"<{'/' if atom.name[0] == '-' else ''}{_HTML_NAMES[name]}>"
                out.append(replace(atom, text=tag))
    return out


def _put_tags_last(atoms: Sequence[_Atom]) -> list[_Atom]:
    """Return a translation with its words first and its tags behind them, since links inside links do not work."""
    out = [atom for atom in atoms if not atom.name]
    waiting: list[_Atom] = []
    for atom in atoms:
        if not atom.name or atom.name[1:] in _HTML_NAMES:
            continue
        space = _Atom(" ", is_space=True)
        if atom.name == "+link":
            waiting.append(atom)
        elif atom.name == "-link" and waiting:
            out += [space, waiting.pop(), atom]
        else:
            out += [space, atom]
    return out


def _keep_no_break(match: re.Match[str]) -> str:
    return match[0] if match[0] == "\xa0" else " "


def _squeeze(text: str) -> str:
    return " ".join(text.replace("\xa0", " ").split())
