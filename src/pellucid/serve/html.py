"""HTML as texts to be translated and what stands between them: entities, comments and code survive as they are."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape
from itertools import count

ATTRIBUTES = r"""(?:"[^"]*+"|'[^']*+'|[^"'<>])*+"""
UNTOUCHED_ELEMENTS = "script|style|pre|code|kbd|samp|var|textarea|svg|math"
MARKUP = re.compile(
    rf"<!--.*?(?:-->|\Z)|<[!?][^>]*+(?:>|\Z)"
    rf"|<({UNTOUCHED_ELEMENTS})(?=[\s/>]){ATTRIBUTES}>.*?(?:</\1\s*+>|\Z)"
    rf"|<([a-z][\w:-]*+)\s(?=[^<>]*?\btranslate\s*=\s*[\"']?no\b){ATTRIBUTES}>.*?(?:</\2\s*+>|\Z)"
    rf"|<(/?)([a-z][\w:-]*+)(?=[\s/>]){ATTRIBUTES}>",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
"""What is not text; as browsers see it, what is never closed goes on to the end. The last two groups belong to a tag
that stands for itself: whether it closes, and its name."""

VOID_ELEMENTS = "area base embed img input link meta param source track wbr"
BLOCK_ELEMENTS = """
address article aside audio blockquote body br button caption center col colgroup dd details dialog div dl dt fieldset
figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe legend li main menu nav
noscript object ol optgroup option p picture section select summary table tbody td template tfoot th thead title tr ul
video
"""
"""Elements that part texts; any other stands inside one."""

SPACE = re.compile(r"[ ]*+[\t\r\n\f][ \t\r\n\f]*+")
NUMBERED = re.compile(r"</?(\d{1,6})/?>")


@dataclass(frozen=True)
class HtmlText:
    """One text to be translated; if it is HTML with a numbered tag for each of its own, and those by their numbers."""

    text: str
    tags: dict[str, str] | None = None

    def restore(self, translation: str) -> str:
        """The translation; if it is HTML with its own tags again, and everything else as text."""
        if self.tags is None:
            return translation
        done, out = 0, []
        for match in [*NUMBERED.finditer(translation), None]:
            out.append(escape(translation[done : match.start() if match else None], quote=False))
            if match:
                out.append(self.tags.get(match[0]) or escape(match[0], quote=False))
                done = match.end()
        return "".join(out)


def split_html(html: str) -> list[str | HtmlText]:
    """What stays as it is, and the texts, in their order.

    >>> split_html("<p>Tom &amp; <b>Ann</b></p>")
    ['<p>', Text(text='Tom & <0>Ann</0>', tags={'<0>': '<b>', '</0>': '</b>'}), '</p>']
    """
    found: list[str | HtmlText] = []
    run: list[re.Match[str] | str] = []
    done = 0
    for match in [*MARKUP.finditer(html), None]:
        run.append(html[done : match.start() if match else None])
        block = match is not None and match[4] is not None and match[4].lower() in BLOCK_ELEMENTS.split()
        if match is None or block:
            found += join_run(run)
            run = []
        elif match:
            run.append(match)
        if match and block:
            found.append(match[0])
        done = match.end() if match else done
    return found


def join_run(run: Sequence[re.Match[str] | str]) -> list[str | HtmlText]:
    """A run of texts and tags as one text; what has no words stays as it is."""
    verbatim = "".join(each if isinstance(each, str) else each[0] for each in run)
    words = [unescape(each) for each in run if isinstance(each, str)]
    if not any(each.strip() for each in words):
        return [verbatim] if verbatim else []
    numbers = free_numbers("".join(words))
    tags: dict[str, str] = {}
    opened: list[tuple[str, int]] = []
    out: list[str] = []
    for each in run:
        if isinstance(each, str):
            out.append(SPACE.sub(" ", unescape(each)))
            continue
        stand_in = number_tag(each, opened, numbers)
        tags[stand_in] = each[0]
        out.append(stand_in)
    return [HtmlText("".join(out), tags)]


def number_tag(match: re.Match[str], opened: list[tuple[str, int]], numbers: Iterator[int]) -> str:
    """The stand-in of a tag; one that closes has the number of what it closes."""
    closing, name = match[3], (match[4] or "").lower()
    if closing:
        same = [i for i, (each, _) in enumerate(opened) if each == name]
        number = opened.pop(same[-1])[1] if same else next(numbers)
        return f"</{number}>"
    number = next(numbers)
    if not name or name in VOID_ELEMENTS.split() or match[0].endswith("/>"):
        return f"<{number}/>"
    opened.append((name, number))
    return f"<{number}>"


def free_numbers(text: str) -> Iterator[int]:
    """Numbers from 0 on that no numbered tag of the text itself has."""
    taken = {int(number) for number in NUMBERED.findall(text)}
    return (number for number in count() if number not in taken)


def fill_translations(parts: Sequence[str | HtmlText], translations: Iterator[str]) -> str:
    """The HTML with a translation in place of each text."""
    return "".join(each if isinstance(each, str) else each.restore(next(translations)) for each in parts)
