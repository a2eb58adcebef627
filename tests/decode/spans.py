"""Terms tried at every span of a sequence of pieces: slow and plain, and what the search is compared with."""

from collections.abc import Sequence


def can_place_terms(
    text: Sequence[int], terms: Sequence[Sequence[Sequence[int]]], occupied: frozenset[int] = frozenset()
) -> bool:
    """Whether there are spans for all terms, none overlapping another."""
    if not terms:
        return True
    first, *other_terms = terms
    for spelling in first:
        for start in range(len(text) - len(spelling) + 1):
            span = frozenset(range(start, start + len(spelling)))
            matches = list(text[start : start + len(spelling)]) == list(spelling) and not span & occupied
            if matches and can_place_terms(text, other_terms, occupied | span):
                return True
    return False
