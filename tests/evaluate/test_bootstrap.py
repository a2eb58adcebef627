"""The paired bootstrap: sacreBLEU's numbers from the same draws, and what must hold whatever is drawn."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from pellucid.evaluate.bootstrap import FEWEST_SENTENCES, PairedScore, compare_metric, resample_sums
from pellucid.evaluate.statistics import COMPARED_METRICS, sentence_counts
from tests.evaluate.sentences import references, translated

LINES = references(83, seed=1)
BAD, GOOD, LIKE_GOOD = (translated(LINES, wrong, seed=2) for wrong in (0.6, 0.2, 0.21))
SACREBLEUS = {"bleu": ("BLEU", BLEU()), "chrf": ("chrF2", CHRF()), "ter": ("TER", TER(case_sensitive=True))}


def found(metric: str, a: list[str], b: list[str], samples: int = 97, seed: int = 5, lines=LINES) -> PairedScore:
    return compare_metric(metric, sentence_counts(metric, a, lines), sentence_counts(metric, b, lines), samples, seed)


@pytest.mark.parametrize("others", [BAD, LIKE_GOOD], ids=["surely different", "hardly different"])
def test_scores_intervals_and_p_values_are_sacrebleus(monkeypatch: pytest.MonkeyPatch, others: list[str]):
    monkeypatch.setenv("SACREBLEU_SEED", "5")
    metrics = dict(SACREBLEUS.values())
    _, theirs = PairedTest([("a", others), ("b", GOOD)], metrics, [LINES], "bs", n_samples=97)()
    for metric, (name, _) in SACREBLEUS.items():
        ours = found(metric, others, GOOD)
        for side, result in zip((ours.a, ours.b), theirs[name], strict=True):
            assert side.score == pytest.approx(result.score, rel=1e-12)  # pyright: ignore[reportAttributeAccessIssue]
            # sacreBLEU sums in float32, and says the interval as half its width
            assert (side.high - side.low) / 2 == pytest.approx(result.ci, rel=1e-4)  # pyright: ignore[reportAttributeAccessIssue]
        assert ours.p_value == pytest.approx(theirs[name][1].p_value)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("metric", COMPARED_METRICS)
def test_the_better_one_is_named(metric: str):
    assert (found(metric, BAD, GOOD).better, found(metric, GOOD, BAD).better) == ("B", "A")
    assert found(metric, GOOD, BAD).verdict == "A is better, p = 0.010"  # 1 of 97 + 1


@pytest.mark.parametrize("metric", COMPARED_METRICS)
@pytest.mark.parametrize("others", [BAD, LIKE_GOOD])
def test_exchanged_sides_change_signs_and_nothing_else(metric: str, others: list[str]):
    one, other = found(metric, others, GOOD), found(metric, GOOD, others)
    assert (one.a, one.b, one.p_value) == (other.b, other.a, other.p_value)
    turned = other.difference
    assert (one.difference.score, one.difference.low, one.difference.high) == (-turned.score, -turned.high, -turned.low)
    assert one.better == {"A": "B", "B": "A", None: None}[other.better]


@pytest.mark.parametrize("metric", COMPARED_METRICS)
def test_nothing_differs_from_itself(metric: str):
    same = found(metric, GOOD, GOOD)
    assert (same.difference.score, same.difference.low, same.difference.high) == (0, 0, 0)
    assert (same.p_value, same.better, same.verdict) == (1, None, "no difference, p = 1.000")


def test_a_score_lies_in_its_interval_and_the_difference_between_both():
    for metric in COMPARED_METRICS:
        each = found(metric, BAD, GOOD)
        for side in (each.a, each.b, each.difference):
            assert side.low < side.score < side.high
        assert each.difference.score == each.b.score - each.a.score


def test_equals_are_told_apart_seldom():
    # Edits of 100 sentences, drawn for both from one distribution. One test in twenty may err; p alone would in ten.
    draw = np.random.default_rng(3)
    winners, small = 0, 0
    for seed in range(300):
        a, b = (np.stack([draw.poisson(3, 100), np.full(100, 10)], axis=1) for _ in range(2))
        each = compare_metric("wer", a, b, samples=200, seed=seed)
        winners += each.better is not None
        small += each.p_value < 0.05
    assert winners / 300 < 0.08 < small / 300


def test_what_differs_enough_is_told_apart_nearly_always():
    draw = np.random.default_rng(4)
    winners = []
    for seed in range(50):
        a, b = (np.stack([draw.poisson(mean, 100), np.full(100, 10)], axis=1) for mean in (4, 3))
        winners.append(compare_metric("wer", a, b, samples=200, seed=seed).better)
    assert winners.count("B") > 45


def test_a_close_call_is_said_to_be_one():
    draw, verdicts = np.random.default_rng(3), set()
    for seed in range(60):
        a, b = (np.stack([draw.poisson(3, 100), np.full(100, 10)], axis=1) for _ in range(2))
        each = compare_metric("wer", a, b, samples=200, seed=seed)
        verdicts.add(each.verdict.split(":")[0].split(",")[0])
        if each.verdict.startswith("too close"):
            assert each.p_value < 0.05
            assert each.difference.low <= 0 <= each.difference.high
    assert {"too close to call", "no difference that 200 samples can tell"} <= verdicts


def test_few_sentences_name_no_winner():
    few = FEWEST_SENTENCES - 1
    each = found("wer", ["x"] * few, ["a"] * few, lines=["a"] * few)
    assert each.better is None
    assert each.verdict == "29 sentences are too few to tell, p = 0.010"
    assert (
        found("wer", ["x"] * FEWEST_SENTENCES, ["a"] * FEWEST_SENTENCES, lines=["a"] * FEWEST_SENTENCES).better == "B"
    )


def test_the_seed_decides_what_is_drawn():
    assert found("chrf", BAD, GOOD, seed=1) == found("chrf", BAD, GOOD, seed=1)
    assert found("chrf", BAD, GOOD, seed=1) != found("chrf", BAD, GOOD, seed=2)


def test_every_drawn_test_set_has_as_many_sentences():
    drawn = resample_sums(np.ones((7, 1)), samples=11, seed=1)
    assert drawn.tolist() == [[7]] * 11


def test_sentences_are_drawn_alike_often():
    drawn = resample_sums(np.eye(5), samples=4000, seed=1)
    assert drawn.mean(axis=0) == pytest.approx(1, abs=0.06)  # 4 standard errors of sqrt(0.8 / 4000)
    assert drawn.var(axis=0) == pytest.approx(0.8, abs=0.1)  # 5 draws with probability 1/5
