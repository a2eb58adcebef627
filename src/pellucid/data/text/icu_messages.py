"""Finds the texts inside messages of ICU, whose words depend on a number or a choice: {n, plural, one {# file} ...}."""

import re

from pellucid.data.text.tag_placement import Span

# The beginning of an argument that holds texts, of one of its texts, and its end.
_ARGUMENT = re.compile(
    r"\{\s*+[^\s{},'\"#|]++\s*+,\s*+(plural|select|selectordinal)\s*+,(?:\s*+offset\s*+:\s*+-?\d++)?"
)
_CASE = re.compile(r"\s*+(?:=\s*+-?\d++|[^\s{},'\"#|=]++)\s*+\{")
_END = re.compile(r"\s*+\}")
# A placeholder without texts, which is part of the text around it.
_PLACEHOLDER = re.compile(r"\{\{[^{}]*+\}\}|\{[^{}]*+\}")
# Text in apostrophes, where braces are no braces. An apostrophe before any other character is
# only that, and one after a letter, as in "l'{name}", stands for a letter: ICU would read it
# otherwise, but nobody writes a quoted text so.
_QUOTED = re.compile(r"(?<![^\W\d_])'(?=[{}#])(?:[^']|'')*+(?:'|\Z)")
# `find_protected` keeps these.
_QUOTED_BRACE = re.compile(r"'(?:[{}]|\{[\w.]*+\}|\{\{[^{}]*+\}\})'")
_FRAME = re.compile(r"['{}#]++")  # what must not be translated of other quoted texts
_NUMBER = re.compile(r"(?<=\w)#|#(?!(?:st|nd|rd|th)\b)(?=\w)")  # a number sign that touches a word

_TOKEN = re.compile(r"['{}#]")


def find_message_texts(line: str) -> list[Span]:
    """Return the spans of a line that are to be translated, in order: the whole line where it is no message of ICU.

    A message has arguments with texts for the cases of a number or a choice. What is around the
    arguments is text too. A line with braces that do not fit together is no message.

    >>> line = "See {n, plural, =0 {no files} other {{who, select, me {my # files} other {# files}}}}."
    >>> [line[start:end] for start, end in find_message_texts(line)]
    ['See ', 'no files', 'my # files', '# files', '.']
    """
    if not _ARGUMENT.search(line):
        return [(0, len(line))]

    # Some programs, such as Angular, know no quoting: there an apostrophe is only that.
    spans = (
        _parse_message(line, quoting=True)
        or _parse_message(line, quoting=False)
        or [(0, len(line))]
    )
    return [(first, last) for first, last in spans if first < last]


def is_damaged_message(text: str) -> bool:
    """Whether a text has an argument of ICU with texts, but braces that do not fit together.

    >>> [is_damaged_message(text) for text in ("{n, plural, one {a} other {b}}", "{n, plural, one {a}", "a {b}")]
    [False, True, False]
    """
    if not _ARGUMENT.search(text):
        return False
    return all(_parse_message(text, quoting=quoting) is None for quoting in (True, False))


def _parse_message(line: str, quoting: bool) -> list[Span] | None:
    """Return the spans of the texts of a message, some of them empty; None where its braces do not fit together."""
    spans: list[Span] = []
    kinds: list[str] = []  # of the arguments that are open, the innermost last
    between_cases = False
    start = position = 0
    while True:
        if between_cases:
            if match := _CASE.match(line, position):
                between_cases = False
            elif match := _END.match(line, position):
                kinds.pop()
                between_cases = False
            else:
                return None
            start = position = match.end()
            continue

        token = _TOKEN.search(line, position)
        if token is None:
            spans.append((start, len(line)))
            break
        position, end = token.span()
        if token[0] == "{":
            if argument := _ARGUMENT.match(line, position):
                spans.append((start, position))
                kinds.append(argument[1])
                # An argument has at least one case.
                if not (case := _CASE.match(line, argument.end())):
                    return None
                start = position = case.end()
            else:
                placeholder = _PLACEHOLDER.match(line, position)
                if placeholder is None and kinds:
                    return None
                position = placeholder.end() if placeholder else end
        elif token[0] == "}":
            if kinds:
                spans.append((start, position))
                between_cases = True
            position = end
        elif token[0] == "'":
            quoted = _QUOTED.match(line, position) if quoting else None
            # Two apostrophes stand for one.
            position = quoted.end() if quoted else end + line.startswith("'", end)
            if quoted and not _QUOTED_BRACE.fullmatch(quoted[0]):
                for frame in _FRAME.finditer(line, *quoted.span()):
                    spans.append((start, frame.start()))
                    start = frame.end()
        else:
            if kinds and kinds[-1] != "select" and _NUMBER.match(line, position):
                spans.append((start, position))
                start = end
            position = end

    return None if kinds else spans
