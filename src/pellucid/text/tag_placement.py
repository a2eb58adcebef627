"""Where tags go in a translation: pairs within pairs, each around what goes with what it held in the source."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Literal

from pellucid.text.piece_links import Link, Span


@dataclass(frozen=True)
class Tag:
    """One tag, where it stood in the plain text, and the white space it took along so that none stands there twice."""

    text: str
    name: str
    kind: Literal["opening", "closing", "single"]
    at: int
    before: str = ""
    after: str = ""
    shares_space: bool = False
    """There is a space beside it that stands in no source."""


@dataclass
class Element:
    """A pair of tags, or a tag alone, by their numbers; the pieces of the source it holds, and those of the target."""

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
    """The tags in the order they are written: the number of the piece each stands before, and its own."""
    root = build_tag_tree(tags, sources)
    root.end = len(targets)
    place_elements(root, tags, text, links)
    return order_tags(root)


def build_tag_tree(tags: Sequence[Tag], sources: Sequence[Span]) -> Element:
    """The tags as pairs within pairs, under a root that holds all pieces of the source."""
    closings = match_tags(tags)
    closed = set(closings.values())
    root = Element(-1, None, 0, len(sources))
    above, gap = [root], 0
    for i, tag in enumerate(tags):
        while gap < len(sources) and sources[gap][1] <= tag.at:
            gap += 1
        if i in closed:
            above.pop().last = gap
            continue
        element = Element(i, closings.get(i), gap, gap)
        above[-1].children.append(element)
        above += [element] if i in closings else []
    return root


def match_tags(tags: Sequence[Tag]) -> dict[int, int]:
    """The closing tag of each opening one that has one; what was opened between the two and not closed has none."""
    found: dict[int, int] = {}
    above: list[int] = []
    waiting = Counter[str]()
    for i, tag in enumerate(tags):
        if tag.kind == "opening":
            above.append(i)
            waiting[tag.name] += 1
        elif tag.kind == "closing" and waiting[tag.name]:
            last = None
            while last is None or tags[last].name != tag.name:
                last = above.pop()
                waiting[tags[last].name] -= 1
            found[last] = i
    return found


def place_elements(root: Element, tags: Sequence[Tag], text: str, links: Sequence[Link]) -> None:
    """Gives every element its pieces of the target, from the outermost to the innermost."""
    targets_of: dict[int, list[int]] = defaultdict(list)
    sources_of: dict[int, list[int]] = defaultdict(list)
    for s, t in links:
        targets_of[s].append(t)
        sources_of[t].append(s)
    queue = [root]
    for outer in queue:
        queue += outer.children
        holder = {s: i for i, child in enumerate(outer.children) for s in range(child.first, child.last)}
        owners = []  # the target's pieces that go with a child, and which: the one with most of its links
        for t in range(outer.start, outer.end):
            if votes := Counter(holder[s] for s in sources_of[t] if s in holder):
                owners.append((votes.most_common(1)[0][0], t))
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
    """The place of an element that goes with nothing: that of what it leaned on, else as far along as it was."""
    for away in range(3):
        before, behind = child.first - 1 - away, child.last + away
        for piece in (before, behind) if side == "left" else (behind, before):
            inside = [t for t in targets_of.get(piece, ()) if outer.start <= t < outer.end]
            if inside and outer.first <= piece < outer.last:
                return max(inside) + 1 if piece == before else min(inside)
    passed, held = child.first - outer.first, max(1, outer.last - outer.first)
    return outer.start + round(passed / held * (outer.end - outer.start))


def leaning_side(tag: Tag, text: str) -> Literal["left", "right"]:
    """The side on which a tag touches a word of the text, where there is none on the other; else that of its kind."""
    left = tag.at > 0 and not text[tag.at - 1].isspace()
    right = tag.at < len(text) and not text[tag.at].isspace()
    if left == right:
        return "left" if tag.kind == "closing" else "right"
    return "left" if left else "right"


def order_tags(root: Element) -> list[tuple[int, int]]:
    """The tags in the order they are written, each with its place; nothing moves into or out of a neighbour."""

    def inside(element: Element) -> list[tuple[int, int, Element | None]]:
        """Last first, as a stack wants them."""
        order = sorted(element.children, key=lambda child: (child.start, child.end > child.start))
        return [(child.start, child.opening, child) for child in reversed(order)]

    found, todo, at = [], inside(root), 0
    while todo:
        place, number, element = todo.pop()
        at = max(at, place)
        found.append((at, number))
        if element is not None and element.closing is not None:
            todo += [(element.end, element.closing, None), *inside(element)]
    return found
