"""Tags are taken out of a text before it is translated and put back where their words went; what must not change."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from pellucid.text.piece_links import Link, Span, link_pieces
from pellucid.text.tag_placement import Tag, leaning_side, match_tags, place_tags

VALUE = r"""(?:"[^"]*+"|'[^']*+'|(?:[^\s"'<>=`/]|/(?!>))++)"""
TAG = re.compile(rf"<(/?)([A-Za-z][\w:.-]*+|\d++)(?:\s++[\w:.@-]++\s*+=\s*+{VALUE})*+\s*+(/?)>", re.ASCII)
"""A tag as XML and HTML write it, or a numbered one; "a < b", "<3" and "<me@example.com>" are text."""

EMPTY = ("br", "hr", "img", "input", "wbr")
BLOCKS = re.compile(
    "|".join((*EMPTY, "blockquote|d[dlt]|div|figcaption|h[1-6]|li|[ou]l|option|p|pre|t[dhr]|table|title"))
)
"""Tags that part words; the first need no closing tag."""

IN_URL = r"[A-Za-z0-9_.~:/?#\[\]@!$&'*+,;=%-]"
GROUP = rf"\({IN_URL}*+\)|\{{{IN_URL}*+\}}"
PROTECTED = re.compile(
    rf"(?:(?:https?|ftp)://|(?<![A-Za-z0-9])www\.)(?:{IN_URL}|{GROUP})*(?:[A-Za-z0-9_/#=&~+%$@-]|{GROUP})"
    r"|(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)++"
    r"|\{\{[^{}]*+\}\}"  # {{ name }}
    r"|[$#]\{\w++\}"  # ${HOME}
    r"|\{(?:\w[\w.\[\]-]*+)?(?:![rsa])?(?::[^\s{}]*+)?\}"  # {}, {0}, {name}, {price:.2f}
    r"|(?<![\d%])%(?:\(\w++\)|\d++\$)[-+#0]?\d*+(?:\.\d++)?[a-zA-Z@]"  # %(name)s, %1$d
    r"|(?<![\d%])%[-+#0]?\d*+(?:\.\d++)?(?:hh?|ll?|[zjt])?[diouxXeEfFgGcrs@](?![A-Za-z]{3})"  # %s, %5.2f, no "%sale"
)

PROTECTED_SIGNS = ("{", "%", "@", "://", "www.")
"""One of them is in everything that is kept: most texts have none, and need not be looked through."""


@dataclass(frozen=True)
class TaggedText:
    """A text without its tags, and the tags in their order."""

    text: str
    tags: tuple[Tag, ...] = ()


def extract_tags(text: str) -> TaggedText:
    """The text to be translated, and its tags.

    A tag between two spaces takes one of them along. One that parts words, as a line break does, leaves a space.

    >>> marked = extract_tags("The <b>black cat</b> <br/> is here:<br/>1 < 2.")
    >>> marked.text, [(tag.text, tag.at) for tag in marked.tags]
    ('The black cat is here: 1 < 2.', [('<b>', 4), ('</b>', 13), ('<br/>', 14), ('<br/>', 22)])
    """
    if "<" not in text:
        return TaggedText(text)
    plain: list[str] = []
    tags: list[Tag] = []
    length = done = group = 0  # `group` is the number of the first tag behind the last of the text
    for match in [*TAG.finditer(text), None]:
        part = text[done : match.start() if match else len(text)]
        if part and tags:
            if not plain or plain[-1][-1].isspace():
                rest = part.lstrip()
                tags[-1] = replace(tags[-1], after=part[: len(part) - len(rest)])
                part = rest
            elif begins_word(part) and any(map(separates_words, tags[group:])):
                tags[group:] = move_shared_space(tags[group:])
                part = " " + part
        if part:
            plain.append(part)
            length, group = length + len(part), len(tags)
        if match:
            closing, name, single = match.groups()
            kind = "closing" if closing else "single" if single else "opening"
            tags.append(Tag(match[0], name.lower(), kind, length))
            done = match.end()
    return move_last_space(TaggedText("".join(plain), tuple(tags)))


def begins_word(part: str) -> bool:
    """Whether a text begins with something that a space may stand before."""
    closes = unicodedata.category(part[0]) in ("Po", "Pe", "Pf") and part[0] not in "¡¿\"'"
    return not (closes or part[0].isspace())


def separates_words(tag: Tag) -> bool:
    """Whether what stands before a tag and what stands behind it are different words, as in "one</li><li>two"."""
    return tag.kind == "single" or BLOCKS.fullmatch(tag.name) is not None


def move_shared_space(tags: Sequence[Tag]) -> list[Tag]:
    """Neighbouring tags with a space among them that is only there in the plain text: before the last that open."""
    closed = max((i for i, tag in enumerate(tags, start=1) if tag.kind != "opening" or tag.name in EMPTY), default=0)
    shifted = [*tags[:closed], *(replace(tag, at=tag.at + 1) for tag in tags[closed:])]
    owner = max(0, closed - 1)
    shifted[owner] = replace(shifted[owner], shares_space=True)
    return shifted


def move_last_space(marked: TaggedText) -> TaggedText:
    """The same, where the white space before tags that end the text is theirs."""
    words = marked.text.rstrip()
    last = [i for i, tag in enumerate(marked.tags) if tag.at == len(marked.text)]
    if not last or len(words) == len(marked.text):
        return marked
    tags = [replace(tag, at=min(tag.at, len(words))) for tag in marked.tags]
    tags[last[0]] = replace(tags[last[0]], before=marked.text[len(words) :])
    return TaggedText(words, tuple(tags))


def restore_tags(marked: TaggedText, translation: str, alignment: Sequence[Link]) -> str:
    """The translation with each tag where its words went; `alignment` pairs words of both, counted from 0.

    A pair goes around all that is aligned with what it held. Where something of a neighbour stands between, it goes
    around the longer piece; where nothing is aligned, it stays together beside what it stood beside. So what was
    nested is nested as it was. Without any alignment, the n-th word of the one goes with that of the other.

    >>> marked = extract_tags("The <i>white</i> <b>house</b>, <br/>here.")
    >>> restore_tags(marked, "La casa blanca, aquí.", [(0, 0), (1, 2), (2, 1), (3, 3)])
    'La <b>casa</b> <i>blanca</i>, <br/>aquí.'
    """
    if not marked.tags:
        return translation
    within = tags_in_protected(marked)
    others = TaggedText(marked.text, tuple(tag for i, tag in enumerate(marked.tags) if i not in within))
    around = restore_beside_words(others, translation, alignment)
    whole = restore_in_protected(around, marked.tags, within)
    return restore_beside_words(marked, translation, alignment) if whole is None else whole


def tags_in_protected(marked: TaggedText) -> dict[int, tuple[str, int, int]]:
    """The tags that stand, with their partners, inside of what must not change.

    For each, that text, how often the same stood before it, and how far inside the tag is.
    """
    seen, inside = Counter[str](), dict[int, tuple[str, int, int]]()
    for match in find_protected(marked.text):
        for i, tag in enumerate(marked.tags):
            if match.start() < tag.at < match.end():
                inside[i] = match[0], seen[match[0]], tag.at - match.start()
        seen[match[0]] += 1
    pairs = match_tags(marked.tags)
    other = pairs | {closing: opening for opening, closing in pairs.items()}
    return {i: place for i, place in inside.items() if i not in other or inside.get(other[i], ())[:2] == place[:2]}


def restore_in_protected(text: str, tags: Sequence[Tag], within: Mapping[int, tuple[str, int, int]]) -> str | None:
    """The text with these tags where they stood in what is kept; None where that does not stand there whole."""
    cuts: list[tuple[int, int]] = []
    for number, (kept_text, before, offset) in within.items():
        places = [match.start() for match in re.finditer(re.escape(kept_text), text)]
        if len(places) <= before:
            return None
        cuts.append((places[before] + offset, number))
    out, done = [], 0
    for at, number in sorted(cuts):
        tag = tags[number]
        out += [text[done:at], tag.before, tag.text, tag.after]
        done = at
    return "".join([*out, text[done:]])


def restore_beside_words(marked: TaggedText, translation: str, alignment: Sequence[Link]) -> str:
    """The translation with each tag before or behind a word, or in a word that is the same in both texts."""
    if not marked.tags:
        return translation
    cuts = {tag.at for tag in marked.tags}
    sources, targets, links = link_pieces(marked.text, cuts, translation, alignment)
    order = place_tags(marked.tags, marked.text, sources, targets, links)
    return write_with_tags(order, marked, translation, targets)


def find_protected(text: str) -> Iterator[re.Match[str]]:
    """The matches of `PROTECTED`."""
    return PROTECTED.finditer(text) if any(sign in text for sign in PROTECTED_SIGNS) else iter(())


def list_protected(text: str) -> list[str]:
    """What must stand in a translation as it stands here: placeholders, addresses of pages and people, in their order.

    >>> list_protected("Hi {name}, %d of {0:.1f} at https://example.com/a_(b). 50% done, ${HOME}")
    ['{name}', '%d', '{0:.1f}', 'https://example.com/a_(b)', '${HOME}']
    """
    return [match[0] for match in find_protected(text)]


def write_with_tags(
    order: Sequence[tuple[int, int]], marked: TaggedText, translation: str, targets: Sequence[Span]
) -> str:
    """The pieces of the target and the tags between them."""
    tags_at: dict[int, list[int]] = defaultdict(list)
    for gap, number in order:
        tags_at[gap].append(number)
    out, done = [], 0
    for gap, (start, end) in enumerate([*targets, (len(translation), len(translation))]):
        space, numbers = translation[done:start], tags_at[gap]
        if space == " " and any(marked.tags[number].shares_space for number in numbers):
            space = ""
        early = len([*takewhile(lambda number: leaning_side(marked.tags[number], marked.text) == "left", numbers)])
        shown = [tag_with_spaces(marked, number, gap, len(targets), space) for number in numbers]
        out += [*shown[:early], space, *shown[early:], translation[start:end]]
        done = end
    return "".join(out)


def tag_with_spaces(marked: TaggedText, number: int, gap: int, last: int, space: str) -> str:
    """A tag with the white space it took along, none of which may stand at an end where there was none."""
    tag = marked.tags[number]
    if 0 < gap < last and not space:
        return tag.text
    if gap == 0 < last:
        return tag.text + tag.before + tag.after
    if gap == last > 0 and tag.at < len(marked.text):
        return tag.before + tag.after + tag.text
    return tag.before + tag.text + tag.after
