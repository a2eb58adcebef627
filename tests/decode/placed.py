"""Whether terms stand in a sequence, tried place by place: what the search is compared with."""

from collections.abc import Sequence


def placed(text: Sequence[int], terms: Sequence[Sequence[Sequence[int]]], taken: frozenset[int] = frozenset()) -> bool:
    """Whether there are places for all terms, none overlapping another."""
    if not terms:
        return True
    first, *others = terms
    for spelling in first:
        for start in range(len(text) - len(spelling) + 1):
            place = frozenset(range(start, start + len(spelling)))
            here = list(text[start : start + len(spelling)]) == list(spelling) and not place & taken
            if here and placed(text, others, taken | place):
                return True
    return False
