"""What a head can be called, by fixed rules: R rare words, -1 or +1 positional, A aligns, S follows a relation."""

from collections.abc import Mapping
from dataclasses import dataclass

POSITIONAL = 0.90
"""A head is positional if so many of its queries read most what stands at one offset (Voita et al. 2019, 4.1)."""

FEWEST = 30
"""Queries, or instances of a relation, below which nothing is called anything."""

ABOVE = 0.10
"""A relation is followed if it is hit so much more often than the best fixed offset hits it; absolute, not relative."""

RARE, ABOVE_CHANCE = 0.5, 0.2
"""A head reads rare words if so many of its queries read one of the two rarest, and so many more than by chance."""

RULES = {
    "-1, +1, ...": f"its largest weight is at that offset for {POSITIONAL:.0%} of the queries or more, by pieces or by "
    "words",
    "R": f"its largest weight is on one of the two rarest pieces for {RARE:.0%} of the queries or more, at least "
    f"{100 * ABOVE_CHANCE:.0f} points and 3 standard errors above chance",
    "S": f"it hits a relation of syntax at least {100 * ABOVE:.0f} points more often than the best fixed offset does",
    "A": f"its largest weight is on an aligned word at least {100 * ABOVE:.0f} points more often than the best fixed "
    "offset",
}


@dataclass(frozen=True)
class Badge:
    """A name for a head, the share that earned it, and what that share is to be compared with."""

    mark: str
    says: str
    share: float
    beside: float


@dataclass(frozen=True)
class QueryShare:
    """Of so many queries, the share for which something holds; None of no query."""

    value: float | None
    queries: int


def positional_badges(by: Mapping[str, Mapping[int, QueryShare]]) -> list[Badge]:
    """By pieces and by words, the best offset of each that reaches the limit; the better one of the same offset."""
    found: dict[int, Badge] = {}
    for unit, offsets in by.items():
        known = {d: each.value for d, each in offsets.items() if each.value is not None and each.queries >= FEWEST}
        if not known:
            continue
        d = max(known, key=lambda d: (known[d], -abs(d)))
        if known[d] >= POSITIONAL and (d not in found or known[d] > found[d].share):
            says = f"{known[d]:.0%} of its largest weights are {describe_offset(d)}, {unit} by {unit}"
            found[d] = Badge(f"{d:+d}" if d else "0", says, known[d], POSITIONAL)
    return list(found.values())


def describe_offset(offset: int) -> str:
    """An offset in words.

    >>> describe_offset(-1), describe_offset(0), describe_offset(2)
    ('1 place before', 'at the same place', '2 places after')
    """
    if not offset:
        return "at the same place"
    places = f"{abs(offset)} place{'s' if abs(offset) > 1 else ''}"
    return f"{places} {'before' if offset < 0 else 'after'}"


def rare_word_badges(
    rarest: QueryShare, two_rarest: QueryShare, chance: float | None, error: float | None
) -> list[Badge]:
    """Whether the two rarest pieces are read so much."""
    if two_rarest.value is None or chance is None or error is None or two_rarest.queries < FEWEST:
        return []
    if two_rarest.value < RARE or two_rarest.value < chance + max(ABOVE_CHANCE, 3 * error):
        return []
    says = (
        f"{two_rarest.value:.0%} of its largest weights are on one of the two rarest pieces, "
        f"{rarest.value or 0:.0%} on the rarest; by chance {chance:.0%} would be on the two"
    )
    return [Badge("R", says, two_rarest.value, chance)]


def relation_badges(
    mark: str, relation: str, share: float, baseline: float, offset: int, instances: int
) -> list[Badge]:
    """Whether a relation is hit so much more often than by looking at a fixed place."""
    if instances < FEWEST or share < baseline + ABOVE:
        return []
    says = (
        f"{relation}: hit in {share:.0%} of {instances:,}; always reading {describe_offset(offset)} hits {baseline:.0%}"
    )
    return [Badge(mark, says, share, baseline)]
