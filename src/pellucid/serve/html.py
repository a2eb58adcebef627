"""HTML split into texts to translate and the markup between them: entities, comments and code survive unchanged."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape
from itertools import count

# Possessive quantifiers (*+) never backtrack: without them, a crafted page could take exponential time.
ATTRIBUTES = r"""(?:"[^"]*+"|'[^']*+'|[^"'<>])*+"""
UNTOUCHED_ELEMENTS = "script|style|pre|code|kbd|samp|var|textarea|svg|math"
MARKUP = re.compile(
    rf"<!--.*?(?:-->|\Z)|<[!?][^>]*+(?:>|\Z)"
    rf"|<({UNTOUCHED_ELEMENTS})(?=[\s/>]){ATTRIBUTES}>.*?(?:</\1\s*+>|\Z)"
    rf"|<([a-z][\w:-]*+)\s(?=[^<>]*?\btranslate\s*=\s*[\"']?no\b){ATTRIBUTES}>.*?(?:</\2\s*+>|\Z)"
    rf"|<(/?)([a-z][\w:-]*+)(?=[\s/>]){ATTRIBUTES}>",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
"""Markup, that is everything but text. As in browsers, an element that is never closed goes on to the end. The last two
groups are those of a single tag: whether it closes, and its name."""

VOID_ELEMENTS = "area base embed img input link meta param source track wbr"
BLOCK_ELEMENTS = """
address article aside audio blockquote body br button caption center col colgroup dd details dialog div dl dt fieldset
figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe legend li main menu nav
noscript object ol optgroup option p picture section select summary table tbody td template tfoot th thead title tr ul
video
"""
"""Elements that separate texts; any other is inline, and stands inside a text."""

SPACE = re.compile(r"[ ]*+[\t\r\n\f][ \t\r\n\f]*+")
NUMBERED = re.compile(r"</?(\d{1,6})/?>")


@dataclass(frozen=True)
class HtmlText:
    """One text to translate; if it comes from HTML, with its tags by the numbered tags that stand for them."""

    text: str
    tags: dict[str, str] | None = None

    def restore(self, translation: str) -> str:
        """Put the original tags back into a translation of HTML, and escape everything else."""
        if self.tags is None:
            return translation
        position, out = 0, []
        for match in [*NUMBERED.finditer(translation), None]:  # None: the text after the last tag
            out.append(escape(translation[position : match.start() if match else None], quote=False))
            if match:
                out.append(self.tags.get(match[0]) or escape(match[0], quote=False))
                position = match.end()
        return "".join(out)


def split_html(html: str) -> list[str | HtmlText]:
    """Split HTML into texts to translate and markup that stays as it is, in their order.

    >>> split_html("<p>Tom &amp; <b>Ann</b></p>")
    ['<p>', HtmlText(text='Tom & <0>Ann</0>', tags={'<0>': '<b>', '</0>': '</b>'}), '</p>']
    """
    parts: list[str | HtmlText] = []
    run: list[re.Match[str] | str] = []
    position = 0
    for match in [*MARKUP.finditer(html), None]:  # None: the text after the last markup
        run.append(html[position : match.start() if match else None])
        block = match is not None and match[4] is not None and match[4].lower() in BLOCK_ELEMENTS.split()
        if match is None or block:
            parts += join_run(run)
            run = []
        elif match:
            run.append(match)
        if match and block:
            parts.append(match[0])
        position = match.end() if match else position
    return parts


def join_run(run: Sequence[re.Match[str] | str]) -> list[str | HtmlText]:
    """Join a run of texts and inline tags to one text; a run without words stays as it is."""
    verbatim = "".join(item if isinstance(item, str) else item[0] for item in run)
    texts = [unescape(item) for item in run if isinstance(item, str)]
    if not any(text.strip() for text in texts):
        return [verbatim] if verbatim else []
    # A text may itself contain something like <0>, which must not be taken for a tag of ours.
    numbers = free_numbers("".join(texts))
    tags: dict[str, str] = {}
    open_tags: list[tuple[str, int]] = []
    out: list[str] = []
    for item in run:
        if isinstance(item, str):
            out.append(SPACE.sub(" ", unescape(item)))
            continue
        stand_in = number_tag(item, open_tags, numbers)
        tags[stand_in] = item[0]
        out.append(stand_in)
    return [HtmlText("".join(out), tags)]


def number_tag(match: re.Match[str], open_tags: list[tuple[str, int]], numbers: Iterator[int]) -> str:
    """Return the stand-in of a tag; a closing tag gets the number of the tag that it closes."""
    closing, name = match[3], (match[4] or "").lower()
    if closing:
        # HTML in the wild closes tags out of order, so look through all open ones, innermost last.
        matching = [i for i, (open_name, _) in enumerate(open_tags) if open_name == name]
        number = open_tags.pop(matching[-1])[1] if matching else next(numbers)
        return f"</{number}>"
    number = next(numbers)
    if not name or name in VOID_ELEMENTS.split() or match[0].endswith("/>"):
        return f"<{number}/>"
    open_tags.append((name, number))
    return f"<{number}>"


def free_numbers(text: str) -> Iterator[int]:
    """Yield the numbers from 0 on that no numbered tag of the text itself has."""
    used = {int(number) for number in NUMBERED.findall(text)}
    return (number for number in count() if number not in used)


def fill_translations(parts: Sequence[str | HtmlText], translations: Iterator[str]) -> str:
    """Join the parts of a page, with a translation in place of each text."""
    return "".join(part if isinstance(part, str) else part.restore(next(translations)) for part in parts)
