"""Chapters of a document: stretches of its texts, which begin at its headings."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pellucid.localize.documents.slots import NUMBERED_TAG

_TEXTS_TOGETHER = 10  # texts that are a chapter where there are no headings


@dataclass(frozen=True)
class Chapter:
    """A stretch of the texts of a document, whose places are counted from 0."""

    title: str
    places: range


def divide_chapters(texts: Sequence[str], levels: Sequence[int], start: int = 0) -> list[Chapter]:
    """Divide texts at the headings of the largest level that has several; without one, into ten texts each.

    `levels` has the level of each text that is a heading, 1 for the largest, and 0 for any
    other. A document often has one heading for all of it, its title, which divides
    nothing. `start` is the place of the first text.

    >>> divide_chapters(["Title", "One", "It is late.", "Two", "We go."], [1, 2, 0, 2, 0])[1:]
    [Chapter(title='One', places=range(1, 3)), Chapter(title='Two', places=range(3, 5))]
    """
    level = min((level for level in set(levels) if level and levels.count(level) > 1), default=None)
    end = len(texts)
    if level is None:
        beginnings = list(range(0, end, _TEXTS_TOGETHER))
    else:
        beginnings = [place for place in range(end) if place == 0 or 0 < levels[place] <= level]

    chapters: list[Chapter] = []
    for first, stop in pairwise([*beginnings, end]):
        places = range(start + first, start + stop)
        title = name_places(places)
        if level is not None and levels[first]:
            title = NUMBERED_TAG.sub("", texts[first])
        chapters.append(Chapter(title, places))
    return chapters


def name_places(places: range) -> str:
    """Name texts by their numbers, counted from 1.

    >>> name_places(range(10, 20)), name_places(range(20, 21))
    ('texts 11 to 20', 'text 21')
    """
    first, last = places[0] + 1, places[-1] + 1
    return f"text {first:,}" if first == last else f"texts {first:,} to {last:,}"
