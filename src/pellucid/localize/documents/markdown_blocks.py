"""Reads the blocks of Markdown: blocks of CommonMark, and blocks of its dialects that hold texts or instructions."""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pellucid.localize.documents.html_tokens import split_names
from pellucid.localize.documents.markdown_programs import (
    BRACED,
    JSX_TAG,
    find_code_closing,
    is_formula,
    is_jsx_tag,
    is_program_line,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock

DEEPEST = 50
"""Levels of blocks in one another that are read: a list takes two, a quotation one."""

_FRONT_MATTER = re.compile(
    r"\A\ufeff?(?:(---|\+\+\+|;;;)(?:yaml|toml|json)?[ \t]*\r?\n(?:[^\n]*\n)*?\1[ \t]*(?:\r?\n|\Z)|(?=\{[ \t]*\r?\n))"
)
# Blocks that a block of a dialect ends.
_INTERRUPTED = ("paragraph", "reference", "blockquote", "list")
_NEXT_TAG = re.compile(rf"[ \t]*+{JSX_TAG.pattern}")
# Signs with which no dialect begins a block.
_PLAIN = frozenset("abcdfghjklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\"'(,;")
_REST_OF_LINE = re.compile(r"[ \t]*(?:\r?\n|\Z)")

_FOOTNOTE = re.compile(r"\[\^[^\]\s\[]{1,200}\]:[ \t]*")
_DEFINITION = re.compile(r"[:~][ \t]+(?=[^ \t])")
_ABBREVIATION = re.compile(r"\*\[[^\]\n\\]++\]:[ \t]*+(?=[^ \t])")
_ADMONITION = re.compile(
    r"(?:!!!|\?\?\?\+?)[ \t]*+(?:[A-Za-z][\w-]*+[ \t]*+)++(?:\"(?P<title>.*)\")?[ \t]*+"
)
_TAB = re.compile(r"===[!+]{0,2}[ \t]++\"(?P<title>.*)\"[ \t]*+")
_CONTAINER = re.compile(r":{3,}[ \t]*+([A-Za-z][\w.@/-]*+)?+[ \t]*+")
_LAST_ATTRIBUTES = re.compile(r"\{[^{}]*+\}\Z")
_LEAF = re.compile(r"::[A-Za-z][\w-]*+\[(?P<title>.*)\](?:\{[^{}]*+\})?")
_SLASHES = re.compile(r"/{3,}[ \t]++[A-Za-z][\w-]*+(?:[ \t]*+\|[ \t]*+(?P<title>.+))?")
_CALLOUT = re.compile(r"\[![A-Za-z][\w-]*+(?:\\?\|[^\]\n]*+)?\][+-]?(?:[ \t]++(?P<title>.+))?")
_FORMULA_OPENING = re.compile(r"(\$\$|\\\\?\[)")
_FORMULA_LABEL = re.compile(r"\([\w:.-]+\)|\{[^{}\n]*\}|[.,;]")
_MYST = re.compile(
    r"(?P<fence>`{3,}|:{3,}|~{3,})[ \t]*+\{(?P<name>[A-Za-z][\w:+.-]*+)\}[ \t]*+(?P<title>.*)"
)
_MYST_OPTION = re.compile(r":[A-Za-z][\w-]*+:(?=\s|\Z)")
# Directives of MyST whose content is text, and those whose argument is a title or the first words
# of that text.
_TITLED = split_names("""
    note tip hint warning important caution attention danger error seealso admonition dropdown card tab-item topic
    sidebar grid-item-card rubric epigraph button-link table list-table csv-table versionadded versionchanged deprecated
    todo
    """)
_CONTAINING = _TITLED | split_names(
    "tab-set grid grid-item margin figure div aside compound container card-carousel"
)
_IMPORT = re.compile(
    r"(?:import\s+(?:[\w*{}\s,$.]{1,1000}?\sfrom\s+)?[\"'][^\"'\n]+[\"'];?"
    r"|export\s+(?:const|let|var|function|class|default|async)\b[^\n]*|export\s+[{*][^\n]*)[ \t]*(?=\n|\Z)"
)
_MODULE_CODE = re.compile(
    r"import(?:[ \t]*[\"'{*]|[ \t]+[\w$]+[ \t]*(?:,|from\b|\Z))"
    r"|export[ \t]*(?:[{*]|(?:const|let|var|function|class|default|async)\b)"
)


def find_front_matter_end(text: str) -> int:
    """Return where the front matter of a document ends, in YAML, TOML or JSON; 0 where there is none.

    >>> [find_front_matter_end(text) for text in ("---\\na: b\\n---\\nA", '{\\n"a": {}}\\nA', "{\\na}\\nA", "+++\\nA")]
    [13, 11, 0, 0]
    """
    match = _FRONT_MATTER.match(text)
    if match is None:
        return 0

    if match[1]:
        return match.end()
    try:
        _, end = json.JSONDecoder().raw_decode(text, match.end())
    except (ValueError, RecursionError):
        return 0
    rest = _REST_OF_LINE.match(text, end)
    return rest.end() if rest else 0


def make_parser(go_on: Callable[[], None], *, is_mdx: bool = False) -> "MarkdownIt":
    """Return the parser of blocks; what is inside them is read by `MarkdownScanner`, which knows the places."""
    try:
        from markdown_it import MarkdownIt
        from markdown_it.rules_block import table
    except ImportError:
        install = "pip install 'pellucid[documents]'"
        raise ValueError(f"Markdown needs the package markdown-it-py: {install}") from None

    parser = MarkdownIt("commonmark", {"maxNesting": DEEPEST + 20}).enable("table")
    parser.disable(["inline", "text_join"])
    if is_mdx:
        parser.disable("html_block")

    reader = _DialectReader(go_on, is_mdx)
    parser.block.ruler.before("table", "deep", _read_deep)
    parser.block.ruler.before("table", "dialect", reader.read_block, {"alt": list(_INTERRUPTED)})
    _join_interruptions(parser, table, go_on)
    return parser


def _join_interruptions(parser: "MarkdownIt", table: Callable, go_on: Callable[[], None]) -> None:
    """Ask all rules that may end a block together whether they do, and none where a line begins with a letter.

    A line is asked about once for each block that it may go on, and most lines begin with a letter.
    """
    ruler = parser.block.ruler
    names = [name for name in ruler.get_active_rules() if name not in ("table", "deep")]
    chains = {}
    for chain in _INTERRUPTED:
        chains[chain] = [rule for rule in ruler.getRules(chain) if rule is not table]

    every = dict(zip(ruler.get_active_rules(), ruler.getRules(""), strict=True))
    for name in names:
        ruler.at(name, every[name], {"alt": []})
    for chain, rules in chains.items():
        ruler.push(f"end of {chain}", _Interruption(rules, go_on).is_here, {"alt": [chain]})


class _Interruption:
    """The rule of markdown-it for what may end a block; it begins none itself."""

    def __init__(
        self,
        rules: "Sequence[Callable[[StateBlock, int, int, bool], bool]]",
        go_on: Callable[[], None],
    ):
        self.rules = rules
        self.go_on = go_on
        self.asked = 0

    def is_here(self, state: "StateBlock", start_line: int, end_line: int, silent: bool) -> bool:
        """Return whether a line begins another block."""
        if not silent:
            return False
        self.asked += 1
        if self.asked % 1000 == 0:
            self.go_on()

        position = state.bMarks[start_line] + state.tShift[start_line]
        if state.src[position : position + 1].isalpha():
            return False
        return any(rule(state, start_line, end_line, True) for rule in self.rules)


def _read_deep(state: "StateBlock", start_line: int, end_line: int, silent: bool) -> bool:
    """Read what stands deeper than the parser goes as one block; a rule of markdown-it."""
    if state.level < DEEPEST:
        return False
    if not silent:
        line = start_line + 1
        while line < end_line and (state.isEmpty(line) or state.sCount[line] >= state.blkIndent):
            line += 1
        state.push("deep", "", 0).map = [start_line, line]
        state.line = line
    return True


@dataclass(frozen=True, slots=True)
class _Line:
    """A line in which a block may begin."""

    state: "StateBlock"
    text: str  # without the white space around it
    position: int  # of the text in the document
    number: int
    end: int  # number of the line behind the block around it

    def push(self, name: str, end: int = 0) -> bool:
        """Add the lines from this one on as a block that the reader of the document reads from its lines."""
        self.state.push(name, "", 0).map = [self.number, end or self.number + 1]
        self.state.line = end or self.number + 1
        return True

    def push_text(self, name: str, start: int, end: int) -> bool:
        """Add the text between two places in this line, which is markup otherwise; without a text, the line alone."""
        state = self.state
        content = self.text[start:end].strip()
        if not content:
            return self.push("program")

        state.push(f"{name}_open", "", 1)
        token = state.push("inline", "", 0)
        token.map = [self.number, self.number + 1]
        token.content = content
        token.children = []

        # Where the text ends, counted from the end of its line: that is the same in the document.
        last = self.position + start + len(self.text[start:end].rstrip())
        before = state.src[self.position : last - len(content)]
        after = state.src[last : self.position + len(self.text)]
        token.meta = {"tail": state.eMarks[self.number] - last, "frame": (before, after)}

        state.push(f"{name}_close", "", -1)
        state.line = self.number + 1
        return True


class _DialectReader:
    """The rule of markdown-it for blocks of dialects; its readers return whether such a block begins in a line."""

    def __init__(self, go_on: Callable[[], None], is_mdx: bool):
        self.go_on = go_on
        self.is_mdx = is_mdx
        self.readers: dict[str, Sequence[Callable[[_Line, bool], bool]]] = {
            "[": (self.read_footnote, self.read_callout),
            ":": (self.read_directive, self.read_container, self.read_definition),
            "~": (self.read_definition, self.read_directive),
            "`": (self.read_directive,),
            "*": (self.read_abbreviation,),
            "!": (self.read_admonition,),
            "?": (self.read_admonition,),
            "=": (self.read_admonition,),
            "/": (self.read_slashes,),
            "{": (self.read_code, self.read_expression),
            "$": (self.read_formula,),
            "\\": (self.read_formula, self.read_code),
            "%": (self.read_hidden,),
            "<": (self.read_component,),
            "i": (self.read_module_code,),
            "e": (self.read_module_code,),
        }

    def read_block(self, state: "StateBlock", start_line: int, end_line: int, silent: bool) -> bool:
        """Read a block of a dialect; a rule of markdown-it."""
        position = state.bMarks[start_line] + state.tShift[start_line]
        end = state.eMarks[start_line]

        if position >= end or state.src[position] in _PLAIN or state.is_code_block(start_line):
            return False
        line = _Line(state, state.src[position:end].rstrip(), position, start_line, end_line)

        # No generator, for blocks may stand deep in one another.
        for read in self.readers.get(line.text[:1], ()):
            if read(line, silent):
                return True
        return is_program_line(line.text) and (silent or line.push("program"))

    # Blocks that hold texts

    def read_footnote(self, line: _Line, silent: bool) -> bool:
        self.go_on()
        match = _FOOTNOTE.match(line.text)
        return match is not None and (silent or self.read_inside(line, "footnote", match.end(), 4))

    def read_definition(self, line: _Line, silent: bool) -> bool:
        """Read the definition of a term, whose other lines are indented as its first is, or by four columns."""
        match = _DEFINITION.match(line.text)
        is_first = line.number == 0 or line.state.isEmpty(line.number - 1)
        if match is None or (line.text[0] == "~" and is_first):
            return False

        indent = 4 if "\t" in match[0] else min(4, match.end())
        return silent or self.read_inside(line, "definition", match.end(), indent)

    def read_inside(self, line: _Line, name: str, start: int, indent: int) -> bool:
        """Read blocks behind the sign of another; the first of them begins in the line of that sign."""
        state, number = line.state, line.number
        saved = state.bMarks[number], state.tShift[number], state.sCount[number]
        saved_indent, saved_parent = state.blkIndent, state.parentType
        state.push(f"{name}_open", "", 1).map = [number, line.end]

        # The first line begins behind the sign; the others are indented.
        state.blkIndent += indent
        state.bMarks[number], state.tShift[number] = line.position + start, 0
        state.sCount[number] = state.blkIndent
        state.parentType = name

        state.md.block.tokenize(state, number, line.end)
        state.push(f"{name}_close", "", -1)

        state.bMarks[number], state.tShift[number], state.sCount[number] = saved
        state.blkIndent, state.parentType = saved_indent, saved_parent
        return True

    def read_lines(self, line: _Line, name: str, start: int, end: int, indent: int) -> bool:
        """Read the blocks in the lines from `start` to `end`, which stand in the block of this line."""
        state = line.state
        saved = state.blkIndent, state.parentType, state.lineMax
        state.push(f"{name}_open", "", 1).map = [line.number, end]
        state.blkIndent, state.parentType, state.lineMax = indent, name, end
        state.md.block.tokenize(state, start, end)
        state.push(f"{name}_close", "", -1)
        state.blkIndent, state.parentType, state.lineMax = saved
        state.line = end
        return True

    def read_admonition(self, line: _Line, silent: bool) -> bool:
        """Read a note or a tab of Python-Markdown, whose text is indented by four columns."""
        match = _ADMONITION.fullmatch(line.text) or _TAB.fullmatch(line.text)
        if match is None:
            return False

        state = line.state
        indent = state.sCount[line.number] + 4
        number = end = line.number + 1
        while number < line.end and (state.isEmpty(number) or state.sCount[number] >= indent):
            number += 1
            if not state.isEmpty(number - 1):
                end = number
                if silent:
                    break

        if match["title"] is None and end == line.number + 1:
            return False

        if not silent:
            line.push_text("title", *match.span("title"))
            self.read_lines(line, "admonition", line.number + 1, end, indent)
        return True

    def read_container(self, line: _Line, silent: bool) -> bool:
        """Read the line that opens or closes a container of Docusaurus, VuePress or Pandoc."""
        text = line.text
        if leaf := _LEAF.fullmatch(text):
            return silent or line.push_text("title", *leaf.span("title"))

        match = _CONTAINER.match(text)
        if match is None or silent:
            return match is not None

        end = len(text.rstrip(": \t"))
        brace = text.rfind("{", match.end(), end)
        if brace >= 0 and _LAST_ATTRIBUTES.match(text, brace, end):
            end = brace
        title = text[match.end() : end].rstrip()

        if match[1] is None or "." in match[1] or text.startswith("{", match.end()):
            return line.push("program")

        is_label = title.startswith("[") and title.endswith("]")
        start = match.end() + is_label
        return line.push_text("title", start, match.end() + len(title) - is_label)

    def read_slashes(self, line: _Line, silent: bool) -> bool:
        match = _SLASHES.fullmatch(line.text)
        return match is not None and (silent or line.push_text("title", *match.span("title")))

    def read_callout(self, line: _Line, silent: bool) -> bool:
        match = _CALLOUT.fullmatch(line.text)
        if match is None or is_program_line(line.text):
            return False
        return silent or line.push_text("title", *match.span("title"))

    def read_abbreviation(self, line: _Line, silent: bool) -> bool:
        match = _ABBREVIATION.match(line.text)
        if match is None or silent:
            return match is not None
        return line.push_text("abbreviation", match.end(), len(line.text))

    def read_directive(self, line: _Line, silent: bool) -> bool:
        """Read a directive of MyST with text inside: its options, then its text up to the closing fence."""
        match = _MYST.fullmatch(line.text)
        if match is None or match["name"] not in _CONTAINING:
            return False

        fence = match["fence"]
        closing = _find_line(line, rf"{fence[0]}{{{len(fence)},}}[ \t]*")
        if closing is None or silent:
            return closing is not None

        if match["name"] in _TITLED:
            line.push_text("title", *match.span("title"))
        else:
            line.push("program")

        state = line.state
        start = line.number + 1
        while start < closing:
            begin = state.bMarks[start] + state.tShift[start]
            if not _MYST_OPTION.match(state.src, begin):
                break
            start += 1

        self.read_lines(line, "directive", start, closing, state.blkIndent)
        state.line = closing + 1
        return True

    # Blocks without a text to translate

    def read_code(self, line: _Line, silent: bool) -> bool:
        """Read code between tags of a template, or a formula or a drawing of LaTeX."""
        opening = find_code_closing(line.text)
        if opening is None:
            return False

        end = _find_place(line.state, opening[1], line.position + opening[0])
        name = "hidden" if "comment" in line.text[: opening[0]] else "kept_code"
        return end is not None and _push_up_to(line, name, end, silent)

    def read_formula(self, line: _Line, silent: bool) -> bool:
        """Read a formula on lines of its own."""
        match = _FORMULA_OPENING.match(line.text)
        if match is None:
            return False

        ending = match[1].replace("[", "]")
        content = line.text[match.end() :].strip()
        if ending in content:
            formula, _, rest = content.rpartition(ending)
            has_label = not rest.strip() or _FORMULA_LABEL.fullmatch(rest.strip()) is not None
            is_alone = ending not in formula and has_label
            if not is_alone or not (match[1] == "$$" or is_formula(formula)):
                return False
            return silent or line.push("kept_code")

        if content and match[1] != "$$":
            return False

        # A formula that begins in the first line has no empty line in it.
        last_line = rf"[^\n]*{re.escape(ending)}[ \t]*(?:{_FORMULA_LABEL.pattern})?[ \t]*"
        last = _find_line(line, rf"(?:{last_line})?" if content else last_line)
        if last is None or line.state.isEmpty(last):
            return False
        return silent or line.push("kept_code", last + 1)

    def read_hidden(self, line: _Line, silent: bool) -> bool:
        """Read a comment of Obsidian, between two signs of percent."""
        text = line.text
        if text.count("%%") == 2 and text.startswith("%%") and text.endswith("%%"):
            return silent or line.push("hidden")
        last = _find_line(line, r"[^\n]*%%[ \t]*") if text == "%%" else None
        return last is not None and (silent or line.push("hidden", last + 1))

    def read_expression(self, line: _Line, silent: bool) -> bool:
        """Read an expression of MDX on lines of its own."""
        match = BRACED.match(line.state.src, line.position) if self.is_mdx else None
        if match is None:
            return False
        name = "hidden" if match[0].startswith("{/*") else "kept_code"
        return _push_up_to(line, name, match.end(), silent)

    def read_component(self, line: _Line, silent: bool) -> bool:
        """Read lines with nothing but tags of components."""

        source = line.state.src
        match = JSX_TAG.match(source, line.position)
        if match is None or not (self.is_mdx or is_jsx_tag(match[0], match[2])):
            return False
        end = match.end()
        while following := _NEXT_TAG.match(source, end):
            end = following.end()
        return _push_up_to(line, "component", end, silent)

    def read_module_code(self, line: _Line, silent: bool) -> bool:
        """Read what a page of MDX imports and exports; in any other file only where the page begins with it."""
        state = line.state
        if silent or state.level or _MODULE_CODE.match(line.text) is None:
            return False

        match = _IMPORT.match(state.src, line.position)
        is_behind_other = bool(state.tokens) and state.tokens[-1].type != "module_code"
        if not self.is_mdx and (match is None or is_behind_other):
            return False

        end = match.end() if match else line.position + len(line.text)
        brace = state.src.find("{", line.position, state.eMarks[line.number])
        if brace >= 0 and (braced := BRACED.match(state.src, brace)):
            end = max(end, braced.end())

        last = _find_next_line(state, end)
        while self.is_mdx and last < line.end and not state.isEmpty(last):
            last += 1
        return last <= line.end and line.push("module_code", last)


def _push_up_to(line: _Line, name: str, end: int, silent: bool) -> bool:
    """Add lines up to a place behind which nothing else stands, within the block around them."""
    state = line.state
    last = _find_next_line(state, end)
    if last > line.end or state.src[end : state.eMarks[last - 1]].strip():
        return False
    return silent or line.push(name, last)


def _find_next_line(state: "StateBlock", position: int) -> int:
    """Return the number of the line behind the one that ends at a place or has it inside."""
    return bisect_right(state.bMarks, position - 1, hi=state.lineMax)


def _find_place(state: "StateBlock", pattern: str, position: int) -> int | None:
    """Return where the next match of a pattern ends; what was found for one line is remembered for the next."""
    found = state.env.setdefault("places", {})
    since, start, end = found.get(pattern, (position + 1, 0, 0))

    if position < since or 0 <= start < position:
        match = re.compile(pattern).search(state.src, position)
        start, end = match.span() if match else (-1, -1)
        found[pattern] = position, start, end
    return end if start >= 0 else None


def _find_line(line: _Line, pattern: str) -> int | None:
    """Return the next line that a pattern fits as a whole, within the block around this one."""
    state = line.state
    end = _find_place(state, rf"\n[ \t>]*+{pattern}(?=\n|\Z)", state.eMarks[line.number])
    if end is None:
        return None

    found = bisect_right(state.eMarks, end - 1, hi=state.lineMax)
    return found if line.number < found < line.end else None
