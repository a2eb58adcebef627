import math
from fractions import Fraction

import numpy as np
import pytest

from pellucid.inspect.softmax import explain_impossible, softmax_shares

ARTICLE = [40.0, 51.0, 43.0, 38.0]
CLAIMED = [0.005, 0.973, 0.015, 0.007]


def probabilities(logits: list[float], temperature: float = 1.0) -> list[float]:
    return [share.probability for share in softmax_shares(logits, [str(n) for n in logits], temperature)]


def exponential(x: Fraction) -> Fraction:
    """e^x for x <= 0, as a fraction, by its series: exact to far more digits than a float has."""
    term, total = Fraction(1), Fraction(1)
    for n in range(1, 200):
        term = term * x / n
        total += term
    return total


@pytest.mark.article("A36", "X1")
def test_the_article_s_logits_have_these_probabilities():
    by_hand = [1 / (1 + math.exp(11) + math.exp(3) + math.exp(-2))]  # the first, divided through by e^40
    found = probabilities(ARTICLE)
    assert found[0] == pytest.approx(by_hand[0], rel=1e-15)
    assert found == pytest.approx([1.67e-5, 0.99965, 3.35e-4, 2.26e-6], rel=2e-3)
    assert math.fsum(found) == pytest.approx(1.0, abs=2e-16)


def test_every_digit_is_right():
    logits = [-3.7, 0.1, 0.30000000000000004, -20.25]
    parts = [exponential(Fraction(z) - Fraction(max(logits))) for z in logits]
    assert probabilities(logits) == [float(part / sum(parts)) for part in parts]


def test_a_constant_changes_nothing_and_large_numbers_do_not_overflow():
    assert probabilities([z + 1000.0 for z in ARTICLE]) == probabilities(ARTICLE)
    assert probabilities([1e308, -1e308]) == [1.0, 0.0]
    assert probabilities([5.0]) == [1.0]


def test_a_temperature_divides_the_logits():
    assert probabilities(ARTICLE, 4.0) == probabilities([z / 4 for z in ARTICLE])


@pytest.mark.article("X1")
def test_the_article_s_probabilities_are_those_of_no_temperature():
    assert explain_impossible(ARTICLE, CLAIMED) == "40 > 38, but 0.005 < 0.007; no temperature does that"


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5, 8.0])
def test_what_softmax_gives_is_never_refuted(temperature: float):
    draw = np.random.default_rng(1)
    for _ in range(50):
        logits = draw.normal(scale=3.0, size=5).round(2).tolist()
        assert explain_impossible(logits, [round(p, 3) for p in probabilities(logits, temperature)]) is None


def test_one_temperature_must_serve_all_pairs():
    logits = [3.0, 2.0, 0.0]
    [a, _, _] = probabilities(logits, 1.0)
    mixed = [a, 0.6 * (1 - a), 0.4 * (1 - a)]
    assert "one pair asks for a temperature of at least" in (
        explain_impossible(logits, [round(p, 3) for p in mixed]) or ""
    )
    assert "they add up to" in (explain_impossible(logits, [0.5, 0.3, 0.1]) or "")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: probabilities([]), "there is no logit"),
        (lambda: probabilities([math.nan]), "nan is no logit"),
        (lambda: probabilities([1.0], 0.0), "the temperature is 0.0, it must be above 0"),
        (lambda: explain_impossible([1.0], [0.5, 0.5]), "1 logits and 2 probabilities"),
        (lambda: explain_impossible([1.0], [1.5]), "1.5 is no probability"),
    ],
)
def test_what_has_no_softmax_is_refused(call, message: str):
    with pytest.raises(ValueError, match=message):
        call()
