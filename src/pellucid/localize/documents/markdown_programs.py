"""Finds what speaks to a program in Markdown: tags of templates, attributes, components of JSX, lines of dialects."""

import re
from collections.abc import Iterator

from pellucid.localize.documents.slots import LETTER

# Possessive quantifiers (*+, ++) throughout: no text makes a search go back.
_QUOTED = r"""(?:"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')"""
_PAIR = rf"""[A-Za-z_:@][\w:.@-]*+[ \t]*+=[ \t]*+(?:{_QUOTED}|[^\s{{}}"'=<>`]++)"""
_ATTRIBUTE = rf"(?:[#.][\w:.-]++|{_PAIR})"
ATTRIBUTE_LIST = re.compile(
    rf"\{{(?:::?(?:/?[A-Za-z][\w-]*+|/)?:?(?:[ \t]*+(?:{_ATTRIBUTE}|[A-Za-z][\w-]*+))*+[ \t]*+/?+"
    rf"|[ \t]*+(?:{_ATTRIBUTE}|-|=\w++)(?:[ \t]++(?:{_ATTRIBUTE}|-))*+[ \t]*+)\}}"
)
"""A list of attributes, as kramdown, Pandoc and Python-Markdown write them behind a text or below a block."""

# It may stand on several lines.
_TAG_OF_LINES = r"\{%(?:[^%]|%(?!\}))*+%\}|\{\{[<%](?:[^}]|\}(?!\}))*+\}\}"
_EXPRESSION = r"\{\{(?:[^{}\n]|\}(?!\})|\{(?!\{))*+\}\}|\{#[ \t](?:[^#\n]|#(?!\}))*+#\}"
TEMPLATE_TAG = re.compile(rf"{_TAG_OF_LINES}|{_EXPRESSION}")
"""A tag of Liquid, Jinja, Handlebars or Hugo."""

_BRACES = r"[^{}]"
for _ in range(5):  # braces in one another
    _BRACES = rf"(?:[^{{}}]|\{{{_BRACES}*+\}})"
BRACED = re.compile(rf"\{{{_BRACES}*+\}}")
"""An expression of JavaScript in braces, as MDX has them."""
_JSX_ATTRIBUTE = rf"""(?:\s++[A-Za-z_][\w:.-]*+(?:=(?:"[^"]*+"|'[^']*+'|\{{{_BRACES}*+\}}))?+|\s++\{{{_BRACES}*+\}})"""
JSX_TAG = re.compile(rf"<(/?)((?:[A-Za-z][\w.:-]*+)?+)(?:{_JSX_ATTRIBUTE})*+\s*+(/?)>")
"""A tag of JSX, whose attributes may be expressions; one without a name opens or closes a fragment."""
_COMPONENT_NAME = re.compile(r"[A-Z]\w*?[a-z]|[A-Za-z]\w*+\.")

# What encloses code, or what nobody reads, up to its end.
_CODE_NAMES = (
    "highlight codeblock code prism mermaid plantuml chart echarts math katex latex graphviz dot svg script style css "
    "javascript js schema stylesheet verbatim"
)
_CODE_NAME = "|".join(_CODE_NAMES.split())
_CODE_OPENING = re.compile(
    rf"\{{%-?[ \t]*+(?P<liquid>{_CODE_NAME}|comment)(?![\w-])(?:[^%\n]|%(?!\}}))*+%\}}"
    rf"|\{{\{{[<%][ \t]*+(?P<hugo>{_CODE_NAME}|comment)(?![\w-])(?:[^}}\n]|\}}(?!\}}))*+(?<=[>%])(?<!/>)\}}\}}"
    rf"|\{{::(?P<kramdown>comment|nomarkdown)[^{{}}\n]*+(?<!/)\}}"
    r"|\\begin\{(?P<latex>(?:equation|align|gather|multline|eqnarray|math|displaymath|flalign|alignat|tikzpicture"
    r"|tabular|verbatim|lstlisting|minted|algorithm|algorithmic|cases|[a-z]?matrix|split|array)\*?)\}"
)
_CODE_CLOSINGS = {
    "liquid": r"\{{%-?\s*end{}\s*-?%\}}",
    "hugo": r"\{{\{{[<%]\s*/\s*{}\s*[>%]\}}\}}",
    "kramdown": r"\{{:/(?:{})?\}}",
    "latex": r"\\end\{{{}\}}",
}

# A line that is an instruction. Its texts, if it has any, are found by `find_values`.
_COMMAND = r"\\(?:[A-Za-z]++\*?+(?:\[[^\]\n]*+\]|\{[^{}\n]*+\})*+|[\[\]])"
_LINE = re.compile(
    rf"(?:(?:{_TAG_OF_LINES}|{_EXPRESSION})[ \t]*+)++"
    rf"|(?:{ATTRIBUTE_LIST.pattern}[ \t]*+)++"
    rf"|(?:{_COMMAND}[ \t]*+)++"
    r"|\[\[?_?(?i:toc)_?\]\]?|@\[(?i:toc)\]|\{:toc\}"
    r"|\[!(?:VIDEO|INCLUDE|div|code[\w-]*+)\b[^\n]*\]"
    r"|-{1,2}8<-{1,2}(?:[ \t][^\n]*+)?|\{![^\n{}!]*+!\}|<<<[ \t]*+[@\w./][^\n]*+|@import[ \t]++[\"'][^\n]*+"
    r"|\{/\*(?:[^*\n]|\*(?!/))*+\*/\}|/{3,}|:{3,}|\\?\$\$|\^[\w-]++|\+\+\+"
)
_LATEX_TEXT = re.compile(r"\{[^{}\n]*[^\W\d_]{2}[^{}\n]* [^{}\n]*[^\W\d_]{2}[^{}\n]*\}")

# Values of attributes that people read or hear.
_READABLE_NAMES = "title|caption|alt|label|summary|description|subtitle|heading|placeholder|tooltip|aria-label|header"
_VALUE = re.compile(
    rf"""(?<![\w-])(?:{_READABLE_NAMES})[ \t]*+=[ \t]*+("(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')"""
)
_WORDS = re.compile(r"""(?<=[ \t])"[^"\n{}/]*[^\W\d_]{2} [^"\n{}/]*"(?=[ \t>%])""")

# Mathematics between dollars or in brackets is told from prices and asides by what stands in it.
_FUNCTIONS = re.compile(
    r"(?<![A-Za-z])(?:log|ln|lg|exp|sin|cos|tan|cot|sinh|cosh|tanh|max|min|lim|sup|inf|det|dim|ker|gcd|mod|arg)(?![A-Za-z])"
)
_WORD = re.compile(r"[^\W\d_]{2}")
_SIGN_OF_MATH = re.compile(r"[\\^_{}=]")


def is_component(name: str) -> bool:
    """Return whether the name of a tag is a component's name, and no name of HTML.

    >>> [is_component(name) for name in ("Tabs", "DIV", "p", "Tabs.Item", "A")]
    [True, False, False, True, False]
    """
    return _COMPONENT_NAME.match(name) is not None


def is_jsx_tag(tag: str, name: str) -> bool:
    """Return whether a tag is one of JSX, by its name or because an attribute of it is an expression.

    >>> is_jsx_tag("<Tab>", "Tab"), is_jsx_tag("<p a={b}>", "p"), is_jsx_tag("<p title='a={b}'>", "p")
    (True, True, False)
    """
    return is_component(name) or "={" in re.sub(r"\"[^\"]*+\"|'[^']*+'", "", tag)


def is_formula(text: str) -> bool:
    """Return whether what stands between the signs of a formula is one, and no text.

    >>> [is_formula(text) for text in ("x", "a + b", "O(n log n)", "x_{one}", "5 or ", "see below", "5")]
    [True, True, True, True, False, False, False]
    """
    if _SIGN_OF_MATH.search(text):
        return True
    return LETTER.search(text) is not None and _WORD.search(_FUNCTIONS.sub("", text)) is None


def is_program_line(line: str) -> bool:
    """Return whether a line is an instruction to a program.

    >>> [is_program_line(line) for line in ("{: .note }", "{% include a.html %}", "[TOC]", "{name}", "[a]", "\\\\*")]
    [True, True, True, False, False, False]
    """
    return _LINE.fullmatch(line) is not None


def find_code_closing(opening: str) -> tuple[int, str] | None:
    """Return where a tag ends that begins code here, and the pattern of the tag that ends the code.

    >>> find_code_closing("{% highlight ruby %} a"), find_code_closing("{% include a %}")
    ((20, '\\\\{%-?\\\\s*endhighlight\\\\s*-?%\\\\}'), None)
    """
    match = _CODE_OPENING.match(opening)
    if match is None:
        return None
    kind = match.lastgroup
    assert kind is not None
    return match.end(), _CODE_CLOSINGS[kind].format(re.escape(match[kind]))


def find_values(tag: str) -> Iterator[tuple[int, int, str]]:
    """Yield where the values of attributes stand that people read, each with the quotation mark around it.

    >>> tag = "{{< figure src='a.png' alt='A cat' >}}"
    >>> [tag[start:end] for start, end, _ in find_values(tag)]
    ['A cat']
    """
    for match in _VALUE.finditer(tag):
        value = match[1]
        if LETTER.search(value) and "{{" not in value and "{%" not in value:
            yield match.start(1) + 1, match.end(1) - 1, value[0]


def count_other_texts(tag: str) -> int:
    """Return how many texts of several words an instruction has without a name that says what they are.

    >>> count_other_texts('{{< button "Read the book" >}}'), count_other_texts("\\\\textbf{Read this} \\\\vspace{1cm}")
    (1, 1)
    """
    pattern = _LATEX_TEXT if tag.startswith("\\") else _WORDS
    return sum(1 for _ in pattern.finditer(tag))
