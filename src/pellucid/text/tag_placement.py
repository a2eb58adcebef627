"""Places tags in a translation: pairs nested as in the source, each around the words aligned with its content."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Literal

from pellucid.text.piece_links import Link, Span


@dataclass(frozen=True)
class Tag:
    """One tag, its position in the plain text, and the white space removed along with it."""

    text: str
    name: str
    kind: Literal["opening", "closing", "single"]
    position: int
    before: str = ""
    after: str = ""
    shares_space: bool = False
    """Whether there is a space beside it in the plain text that is not in the source."""


@dataclass
class Element:
    """A pair of tags, or a single tag, with the source pieces and the target pieces that it contains.

    `opening` and `closing` are indices of tags; `first` to `last` are source pieces, `start` to `end` target pieces.
    """

    opening: int
    closing: int | None
    first: int
    last: int
    children: list["Element"] = field(default_factory=list)
    start: int = 0
    end: int = 0


def place_tags(
    tags: Sequence[Tag], text: str, sources: Sequence[Span], targets: Sequence[Span], links: Sequence[Link]
) -> list[tuple[int, int]]:
    """Return the tags in the order in which they are written: the target piece that each precedes, and its index."""
    root = build_tag_tree(tags, sources)
    root.end = len(targets)
    place_elements(root, tags, text, links)
    return order_tags(root)


def build_tag_tree(tags: Sequence[Tag], sources: Sequence[Span]) -> Element:
    """Build a tree of nested pairs of tags, under a root that contains all source pieces."""
    closings = match_tags(tags)
    closed = set(closings.values())
    root = Element(-1, None, 0, len(sources))
    open_elements, gap = [root], 0
    for i, tag in enumerate(tags):
        while gap < len(sources) and sources[gap][1] <= tag.position:
            gap += 1
        if i in closed:
            # A closing tag with a partner always closes the innermost: match_tags leaves crossing tags unmatched.
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


def place_elements(root: Element, tags: Sequence[Tag], text: str, links: Sequence[Link]) -> None:
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
        holder = {s: i for i, child in enumerate(outer.children) for s in range(child.first, child.last)}
        # For each target piece that is linked to children: the child with most of its links.
        owners = []
        for t in range(outer.start, outer.end):
            if votes := Counter(holder[s] for s in sources_of[t] if s in holder):
                owners.append((votes.most_common(1)[0][0], t))
        # A tag must surround one run of pieces; if another child's pieces interrupt it, the longest run counts.
        longest: dict[int, list[int]] = {}
        for i, run in groupby(owners, key=itemgetter(0)):
            longest[i] = max(longest.get(i, []), [t for _, t in run], key=len)
        for i, child in enumerate(outer.children):
            if i in longest:
                child.start, child.end = longest[i][0], longest[i][-1] + 1
            else:
                child.start = child.end = place_unaligned(
                    child, outer, leaning_side(tags[child.opening], text), targets_of
                )


def place_unaligned(
    child: Element, outer: Element, side: Literal["left", "right"], targets_of: Mapping[int, list[int]]
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


def order_tags(root: Element) -> list[tuple[int, int]]:
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
