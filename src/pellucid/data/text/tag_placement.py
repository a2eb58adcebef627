"""Places tags in a translation: links pieces of both texts, and puts each tag around what its content became."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Literal

from pellucid.data.text.protected import find_protected

Span = tuple[int, int]  # the start and end of a piece of text
# The index of a word or piece in the source, and of the one that belongs to it in the target.
Link = tuple[int, int]
# The spans of the pieces of a word: its punctuation before, the word itself, its punctuation after.
WordSpans = tuple[list[Span], list[Span], list[Span]]


def link_pieces(
    source: str, cuts: Collection[int], target: str, alignment: Sequence[Link]
) -> tuple[list[Span], list[Span], list[Link]]:
    """Return the pieces of both texts, and links between their indices, following `alignment`, which links words.

    The source is cut at `cuts` too; a word that is the same in the target is cut in the same
    way. Punctuation is linked to the aligned word's punctuation; otherwise to the same
    punctuation left over elsewhere; otherwise it goes with its word. Without any alignment,
    words are linked to those that are as far along.

    >>> link_pieces("the white house.", [], "la casa blanca.", [(0, 0), (1, 2), (2, 1)])[2]
    [(0, 0), (2, 1), (1, 2), (3, 3)]
    """
    source_words, target_words = split_words(source, cuts), split_words(target, ())
    aligned: dict[int, list[int]] = defaultdict(list)
    word_links = sorted(set(alignment))
    if not word_links:
        word_links = _proportional_alignment(len(source_words), len(target_words))
    for s, t in word_links:
        assert 0 <= s < len(source_words) and 0 <= t < len(target_words)
        aligned[t].append(s)
    numbers = {span: number for number, span in enumerate(_flatten_spans(source_words))}

    # k is 0, 1 or 2: the punctuation before a word, the word, the punctuation after it.
    aligned_parts: list[tuple[int, int, list[tuple[int, int]]]] = []
    linked_parts: set[tuple[int, int]] = set()
    for t in range(len(target_words)):
        for k in range(3):
            parts = [(s, k) for s in aligned[t] if source_words[s][k]]
            aligned_parts.append((t, k, parts))
            if target_words[t][k]:
                linked_parts.update(parts)

    free_punctuation: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for s, word in reversed([*enumerate(source_words)]):  # backwards, so that pop() takes the first
        for k in (0, 2):
            if word[k] and (s, k) not in linked_parts:
                free_punctuation[k, _segment_text(source, word[k])].append((s, k))

    pieces: list[Span] = []
    links: list[Link] = []
    for t, k, parts in aligned_parts:
        if not target_words[t][k]:
            continue
        text = _segment_text(target, target_words[t][k])
        if not parts and free_punctuation[k, text]:
            parts = [free_punctuation[k, text].pop()]
        # Punctuation without a counterpart goes with the nearest piece of
        # each aligned word: the last, or the first.
        segments = [source_words[s][j] for s, j in parts]
        if not segments:
            nearest = slice(-1, None) if k == 2 else slice(1)
            segments = [source_words[s][1][nearest] for s in aligned[t]]
        # A word that is the same in both texts is cut in the target as it is cut in the source.
        own_segment = target_words[t][k]
        equal = (segment for segment in segments if _segment_text(source, segment) == text)
        equal_segment = next(equal, own_segment)
        start = own_segment[0][0] - equal_segment[0][0]
        for i, (first, last) in enumerate(equal_segment):
            for segment in segments:
                spans = [equal_segment[i]] if segment is equal_segment else segment
                links += [(numbers[span], len(pieces)) for span in spans]
            pieces.append((start + first, start + last))

    return _flatten_spans(source_words), pieces, links


def split_words(text: str, cuts: Collection[int]) -> list[WordSpans]:
    """Split a text into words, and each word into pieces, cut at `cuts` too.

    >>> split_words("(H2O). ...", {2, 3})
    [([(0, 1)], [(1, 2), (2, 3), (3, 4)], [(4, 6)]), ([], [(7, 10)], [])]
    """
    words = []

    # The punctuation of protected text is no punctuation.
    protected = {i for match in find_protected(text) for i in range(*match.span())}
    for match in re.finditer(r"\S++", text):
        letters: list[int] = []
        for i in range(*match.span()):
            if i in protected or not unicodedata.category(text[i]).startswith("P"):
                letters.append(i)
        # A word of punctuation alone is a word.
        first, last = (letters[0], letters[-1] + 1) if letters else match.span()
        edges = (match.start(), first, last, match.end())
        before, itself, behind = (_cut_span(start, end, cuts) for start, end in pairwise(edges))
        words.append((before, itself, behind))

    return words


def _cut_span(start: int, end: int, cuts: Collection[int]) -> list[Span]:
    """Return the parts of a span between the cuts inside it; an empty span has none."""
    if start == end:
        return []
    inside = [i for i in range(start + 1, end) if i in cuts]
    return list(pairwise([start, *inside, end]))


def _flatten_spans(words: Sequence[WordSpans]) -> list[Span]:
    """Return the spans of all pieces of words, in order."""
    return [span for word in words for segment in word for span in segment]


def _segment_text(text: str, segment: Sequence[Span]) -> str:
    """Return the text of neighbouring pieces."""
    return text[segment[0][0] : segment[-1][1]]


def _proportional_alignment(source: int, target: int) -> list[Link]:
    """Make an alignment from the numbers of words alone: each word with the one that is as far along on the other side.

    >>> _proportional_alignment(2, 3), _proportional_alignment(3, 2)
    ([(0, 0), (1, 1), (1, 2)], [(0, 0), (1, 1), (2, 1)])
    """
    if not source or not target:
        return []

    # From both sides, so that no word of either is without a link; 2n
    # + 1 is the middle of word n in halves.
    links = {((2 * t + 1) * source // (2 * target), t) for t in range(target)}
    return sorted(links | {(s, (2 * s + 1) * target // (2 * source)) for s in range(source)})


@dataclass(frozen=True)
class Tag:
    """One tag, its position in the plain text, and the white space removed along with it."""

    text: str
    name: str
    kind: Literal["opening", "closing", "single"]
    position: int
    before: str = ""
    after: str = ""
    # Whether there is a space beside it in the plain text that is not in the source.
    shares_space: bool = False


@dataclass
class Element:
    """A pair of tags, or a single tag, with the source pieces and the target pieces that it contains.

    `opening` and `closing` are indices of tags; `first` to `last` are
    source pieces, `start` to `end` target pieces.
    """

    opening: int
    closing: int | None
    first: int
    last: int
    children: list["Element"] = field(default_factory=list)
    start: int = 0
    end: int = 0


def place_tags(
    tags: Sequence[Tag],
    text: str,
    sources: Sequence[Span],
    targets: Sequence[Span],
    links: Sequence[Link],
    uncut: Sequence[Span] = (),
) -> list[tuple[int, int]]:
    """Return the tags in the order in which they are written: the target piece that each precedes, and its index.

    No tag goes between the target pieces of a span of `uncut`.
    """
    root = _build_tag_tree(tags, sources)
    root.end = len(targets)

    # The edges of the span around each place inside one.
    edges = {gap: (start, end) for start, end in uncut for gap in range(start + 1, end)}
    _place_elements(root, tags, text, links, edges)
    return _order_tags(root)


def _build_tag_tree(tags: Sequence[Tag], sources: Sequence[Span]) -> Element:
    """Build a tree of nested pairs of tags, under a root that contains all source pieces."""
    closings = match_tags(tags)
    closed = set(closings.values())
    root = Element(-1, None, 0, len(sources))
    open_elements, gap = [root], 0
    for i, tag in enumerate(tags):
        while gap < len(sources) and sources[gap][1] <= tag.position:
            gap += 1
        if i in closed:
            # A closing tag with a partner always closes the innermost:
            # match_tags leaves crossing tags unmatched.
            open_elements.pop().last = gap
            continue

        element = Element(i, closings.get(i), gap, gap)
        open_elements[-1].children.append(element)
        open_elements += [element] if i in closings else []

    return root


def match_tags(tags: Sequence[Tag]) -> dict[int, int]:
    """Return the closing tag of each opening tag that has one; a tag left open between the two has none."""
    pairs: dict[int, int] = {}
    open_tags: list[int] = []
    open_names = Counter[str]()
    for i, tag in enumerate(tags):
        if tag.kind == "opening":
            open_tags.append(i)
            open_names[tag.name] += 1
        elif tag.kind == "closing" and open_names[tag.name]:
            # Tags opened after the partner stay single.
            last = None
            while last is None or tags[last].name != tag.name:
                last = open_tags.pop()
                open_names[tags[last].name] -= 1
            pairs[last] = i

    return pairs


def _place_elements(
    root: Element, tags: Sequence[Tag], text: str, links: Sequence[Link], edges: Mapping[int, Span]
) -> None:
    """Give every element its target pieces, from the outermost to the innermost."""
    targets_of: dict[int, list[int]] = defaultdict(list)
    sources_of: dict[int, list[int]] = defaultdict(list)
    for s, t in links:
        targets_of[s].append(t)
        sources_of[t].append(s)

    # The list grows while it is read: parents before their children, which must stay inside them.
    queue = [root]
    for outer in queue:
        queue += outer.children

        # Of each source piece: the child that holds it.
        holder: dict[int, int] = {}
        for i, child in enumerate(outer.children):
            holder |= dict.fromkeys(range(child.first, child.last), i)
        # For each target piece that is linked to children: the child with most of its links.
        owners = []
        for t in range(outer.start, outer.end):
            if votes := Counter(holder[s] for s in sources_of[t] if s in holder):
                owners.append((votes.most_common(1)[0][0], t))
        # A tag must surround one run of pieces; if another child's
        # pieces interrupt it, the longest run counts.
        longest: dict[int, list[int]] = {}
        for i, run in groupby(owners, key=itemgetter(0)):
            longest[i] = max(longest.get(i, []), [t for _, t in run], key=len)
        for i, child in enumerate(outer.children):
            if i in longest:
                child.start, child.end = longest[i][0], longest[i][-1] + 1
            else:
                child.start = child.end = _place_unaligned(
                    child, outer, leaning_side(tags[child.opening], text), targets_of
                )

            is_empty = child.start == child.end
            child.end = edges.get(child.end, (0, child.end))[1]
            child.start = child.end if is_empty else edges.get(child.start, (child.start, 0))[0]


def _place_unaligned(
    child: Element,
    outer: Element,
    side: Literal["left", "right"],
    targets_of: Mapping[int, list[int]],
) -> int:
    """Return the target piece before which an element without links goes: beside the neighbour of its source.

    Without a linked neighbour, it goes as far along as it was in the source.
    """
    for distance in range(3):
        before, behind = child.first - 1 - distance, child.last + distance
        for piece in (before, behind) if side == "left" else (behind, before):
            inside = [t for t in targets_of.get(piece, ()) if outer.start <= t < outer.end]
            if inside and outer.first <= piece < outer.last:
                return max(inside) + 1 if piece == before else min(inside)

    offset, length = child.first - outer.first, max(1, outer.last - outer.first)
    return outer.start + round(offset / length * (outer.end - outer.start))


def leaning_side(tag: Tag, text: str) -> Literal["left", "right"]:
    """Return the side on which a tag touches a word; if on both sides or neither, the side its kind leans to."""
    left = tag.position > 0 and not text[tag.position - 1].isspace()
    right = tag.position < len(text) and not text[tag.position].isspace()
    if left == right:
        return "left" if tag.kind == "closing" else "right"
    return "left" if left else "right"


def _order_tags(root: Element) -> list[tuple[int, int]]:
    """Return the tags in the order in which they are written, with their positions, so that pairs stay nested."""

    def children_reversed(element: Element) -> list[tuple[int, int, Element | None]]:
        """Return the children of an element, the last first."""
        # Empty elements before others at the same position. Reversed, because they go on a stack.
        order = sorted(element.children, key=lambda child: (child.start, child.end > child.start))
        return [(child.start, child.opening, child) for child in reversed(order)]

    ordered, stack, position = [], children_reversed(root), 0
    while stack:
        start, number, element = stack.pop()
        # Never backwards: a tag that would go before an earlier one is moved behind it.
        position = max(position, start)
        ordered.append((position, number))
        if element is not None and element.closing is not None:
            stack += [(element.end, element.closing, None), *children_reversed(element)]

    return ordered
