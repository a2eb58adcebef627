"""Badges of heads, by fixed rules: R reads rare words, -1 or +1 is positional, A aligns, S follows a relation."""

from collections.abc import Mapping
from dataclasses import dataclass

POSITIONAL = 0.90
"""Share of a head's queries with the largest weight at one offset that makes it positional (Voita et al. 2019, 4.1)."""

FEWEST = 30
"""Fewest queries, or instances of a relation, from which a head gets a badge."""

ABOVE = 0.10
"""Absolute lead over the best fixed offset from which a head follows a relation."""

RARE, ABOVE_CHANCE = 0.5, 0.2
"""Share of queries on one of the two rarest pieces, and lead over chance, from which a head reads rare words."""

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
    """Name for a head, the share that earned it, and the share it is to be compared with."""

    mark: str
    says: str
    share: float
    beside: float


@dataclass(frozen=True)
class QueryShare:
    """Share of a number of queries for which something holds; None if there was no query."""

    value: float | None
    queries: int


def positional_badges(by_unit: Mapping[str, Mapping[int, QueryShare]]) -> list[Badge]:
    """Return a badge for the best offset by pieces and for the best by words, where it reaches the limit.

    If both have the same offset, only the better one is returned.
    """
    badges: dict[int, Badge] = {}
    for unit, offsets in by_unit.items():
        shares = {d: share.value for d, share in offsets.items() if share.value is not None and share.queries >= FEWEST}
        if not shares:
            continue
        # of equal shares the nearest offset
        d = max(shares, key=lambda d: (shares[d], -abs(d)))
        if shares[d] >= POSITIONAL and (d not in badges or shares[d] > badges[d].share):
            says = f"{shares[d]:.0%} of its largest weights are {describe_offset(d)}, {unit} by {unit}"
            badges[d] = Badge(f"{d:+d}" if d else "0", says, shares[d], POSITIONAL)
    return list(badges.values())


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
    """Return a badge if the two rarest pieces are read often enough."""
    if two_rarest.value is None or chance is None or error is None or two_rarest.queries < FEWEST:
        return []
    # where sentences are few, three standard errors ask for more than the fixed lead
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
    """Return a badge if a relation is hit clearly more often than by always reading one fixed place."""
    # a head that always reads one offset hits many relations; that alone earns no badge
    if instances < FEWEST or share < baseline + ABOVE:
        return []
    says = (
        f"{relation}: hit in {share:.0%} of {instances:,}; always reading {describe_offset(offset)} hits {baseline:.0%}"
    )
    return [Badge(mark, says, share, baseline)]
