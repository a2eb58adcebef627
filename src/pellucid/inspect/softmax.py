"""Logits as probabilities, to every digit a float has, and whether given probabilities can be those of given logits."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from itertools import permutations
from math import isfinite

FIFTY_DIGITS = Context(prec=50)
"""Sums and exponentials are taken so exactly, and rounded to a float once."""


@dataclass(frozen=True)
class SoftmaxShare:
    """A logit and what softmax makes of it; `exponential` is exp(logit - the largest logit)."""

    name: str
    logit: float
    exponential: float
    probability: float


def softmax_shares(logits: Sequence[float], names: Sequence[str], temperature: float = 1.0) -> list[SoftmaxShare]:
    """exp(logit / temperature), divided by the sum of all: in the order given.

    >>> [f"{share.probability:.3g}" for share in softmax_shares([40, 51, 43, 38], ["azul", "cielo", "El", "es"])]
    ['1.67e-05', '1', '0.000335', '2.26e-06']

    ValueError for no logit, for one that is no number, and for a temperature that is not above 0.
    """
    if not logits:
        raise ValueError("there is no logit")
    if wrong := [logit for logit in logits if not isfinite(logit)]:
        raise ValueError(f"{wrong[0]} is no logit")
    if not 0.0 < temperature < float("inf"):
        raise ValueError(f"the temperature is {temperature}, it must be above 0")
    with localcontext(FIFTY_DIGITS):
        largest = max(map(Decimal, logits))
        # Below 10^-400 nothing reaches a float, and the exponential of a huge number would take forever.
        scaled = [max((Decimal(logit) - largest) / Decimal(temperature), Decimal(-1000)) for logit in logits]
        exponentials = [number.exp() for number in scaled]
        total = sum(exponentials)
        return [
            SoftmaxShare(name, float(logit), float(part), float(part / total))
            for name, logit, part in zip(names, logits, exponentials, strict=True)
        ]


def explain_impossible(logits: Sequence[float], probabilities: Sequence[float], digits: int = 3) -> str | None:
    """Explain why no temperature makes these probabilities of these logits; None if one does, but for rounding.

    ln p_i - ln p_j must be (z_i - z_j) / temperature for every pair: so no pair may stand the other way round, and
    the temperature must be the same for all. `digits` behind the point is what the probabilities were rounded to.
    """
    if len(logits) != len(probabilities):
        raise ValueError(f"{len(logits)} logits and {len(probabilities)} probabilities: each needs its own")
    if wrong := [p for p in probabilities if not 0.0 <= p <= 1.0]:
        raise ValueError(f"{wrong[0]} is no probability")
    half = 0.5 * 10.0**-digits
    if abs(sum(probabilities) - 1.0) > len(logits) * half:
        return f"they add up to {sum(probabilities):.{digits}f}, not to 1"
    pairs = list(permutations(zip(logits, probabilities, strict=True), 2))
    for (z, p), (other_z, other_p) in pairs:
        if z > other_z and p + half < other_p - half:
            return f"{z:g} > {other_z:g}, but {p:g} < {other_p:g}; no temperature does that"
    lowest, highest = temperature_range(pairs, half)
    if lowest > highest:
        return f"one pair asks for a temperature of at least {lowest:.3g}, another for one of at most {highest:.3g}"
    return None


def temperature_range(
    pairs: Sequence[tuple[tuple[float, float], tuple[float, float]]], half: float
) -> tuple[float, float]:
    """The least and the most temperature that every pair of (logit, rounded probability) allows."""
    lowest, highest = 0.0, float("inf")
    for (z, p), (other_z, other_p) in pairs:
        if z <= other_z:
            continue
        # (z - z') / temperature lies between the logarithms of the smallest and of the largest ratio.
        low, high = max(p - half, 0.0) / (other_p + half), (p + half) / max(other_p - half, 5e-324)
        with localcontext(FIFTY_DIGITS):
            gap = Decimal(z) - Decimal(other_z)
            if low > 1.0:
                highest = min(highest, float(gap / Decimal(low).ln()))
            if high > 1.0:
                lowest = max(lowest, float(gap / Decimal(high).ln()))
    return lowest, highest
