"""Paired bootstrap: sacreBLEU's numbers from the same draws, and what holds for any draws."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from pellucid.evaluate.comparison import FEWEST_SENTENCES, PairedScore, compare_metric, resample_sums, sentence_counts
from pellucid.evaluate.scores import METRICS
from tests.evaluate.sentences import make_references, mistranslate

LINES = make_references(83, seed=1)
BAD, GOOD, LIKE_GOOD = (mistranslate(LINES, wrong, seed=2) for wrong in (0.6, 0.2, 0.21))
SACREBLEUS = {"bleu": ("BLEU", BLEU()), "chrf": ("chrF2", CHRF()), "ter": ("TER", TER(case_sensitive=True))}


def compare_outputs(
    metric: str, a: list[str], b: list[str], samples: int = 97, seed: int = 5, lines=LINES
) -> PairedScore:
    return compare_metric(metric, sentence_counts(metric, a, lines), sentence_counts(metric, b, lines), samples, seed)


@pytest.mark.parametrize("outputs", [BAD, LIKE_GOOD], ids=["surely different", "hardly different"])
def test_scores_intervals_and_p_values_are_sacrebleus(monkeypatch: pytest.MonkeyPatch, outputs: list[str]):
    monkeypatch.setenv("SACREBLEU_SEED", "5")
    metrics = dict(SACREBLEUS.values())
    _, theirs = PairedTest([("a", outputs), ("b", GOOD)], metrics, [LINES], "bs", n_samples=97)()
    for metric, (name, _) in SACREBLEUS.items():
        ours = compare_outputs(metric, outputs, GOOD)
        for side, result in zip((ours.a, ours.b), theirs[name], strict=True):
            assert side.score == pytest.approx(result.score, rel=1e-12)  # pyright: ignore[reportAttributeAccessIssue]
            # sacreBLEU sums in float32, and says the interval as half its width
            assert (side.high - side.low) / 2 == pytest.approx(result.ci, rel=1e-4)  # pyright: ignore[reportAttributeAccessIssue]
        assert ours.p_value == pytest.approx(theirs[name][1].p_value)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("metric", METRICS)
def test_the_better_system_is_named(metric: str):
    assert (compare_outputs(metric, BAD, GOOD).better, compare_outputs(metric, GOOD, BAD).better) == ("B", "A")
    assert compare_outputs(metric, GOOD, BAD).verdict == "A is better, p = 0.010"  # 1 of 97 + 1


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("outputs", [BAD, LIKE_GOOD])
def test_exchanged_sides_change_signs_and_nothing_else(metric: str, outputs: list[str]):
    score, exchanged = compare_outputs(metric, outputs, GOOD), compare_outputs(metric, GOOD, outputs)
    assert (score.a, score.b, score.p_value) == (exchanged.b, exchanged.a, exchanged.p_value)
    difference = exchanged.difference
    assert (score.difference.score, score.difference.low, score.difference.high) == (
        -difference.score,
        -difference.high,
        -difference.low,
    )
    assert score.better == {"A": "B", "B": "A", None: None}[exchanged.better]


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_differs_from_itself(metric: str):
    score = compare_outputs(metric, GOOD, GOOD)
    assert (score.difference.score, score.difference.low, score.difference.high) == (0, 0, 0)
    assert (score.p_value, score.better, score.verdict) == (1, None, "no difference, p = 1.000")


def test_scores_and_their_difference_lie_in_their_intervals():
    for metric in METRICS:
        score = compare_outputs(metric, BAD, GOOD)
        for side in (score.a, score.b, score.difference):
            assert side.low < side.score < side.high
        assert score.difference.score == score.b.score - score.a.score


def test_equal_systems_are_seldom_told_apart():
    # Edits of 100 sentences, drawn for both from one distribution. One test in twenty may err; p alone would in ten.
    draw = np.random.default_rng(3)
    winners, small_p_values = 0, 0
    for seed in range(300):
        a, b = (np.stack([draw.poisson(3, 100), np.full(100, 10)], axis=1) for _ in range(2))
        score = compare_metric("wer", a, b, samples=200, seed=seed)
        winners += score.better is not None
        small_p_values += score.p_value < 0.05
    assert winners / 300 < 0.08 < small_p_values / 300


def test_different_systems_are_nearly_always_told_apart():
    draw = np.random.default_rng(4)
    winners = []
    for seed in range(50):
        a, b = (np.stack([draw.poisson(mean, 100), np.full(100, 10)], axis=1) for mean in (4, 3))
        winners.append(compare_metric("wer", a, b, samples=200, seed=seed).better)
    assert winners.count("B") > 45


def test_a_close_call_is_named_as_one():
    draw, verdicts = np.random.default_rng(3), set()
    for seed in range(60):
        a, b = (np.stack([draw.poisson(3, 100), np.full(100, 10)], axis=1) for _ in range(2))
        score = compare_metric("wer", a, b, samples=200, seed=seed)
        verdicts.add(score.verdict.split(":")[0].split(",")[0])
        if score.verdict.startswith("too close"):
            assert score.p_value < 0.05
            assert score.difference.low <= 0 <= score.difference.high
    assert {"too close to call", "no difference that 200 samples can tell"} <= verdicts


def test_few_sentences_name_no_winner():
    few = FEWEST_SENTENCES - 1
    score = compare_outputs("wer", ["x"] * few, ["a"] * few, lines=["a"] * few)
    assert score.better is None
    assert score.verdict == "29 sentences are too few to tell, p = 0.010"
    assert (
        compare_outputs(
            "wer", ["x"] * FEWEST_SENTENCES, ["a"] * FEWEST_SENTENCES, lines=["a"] * FEWEST_SENTENCES
        ).better
        == "B"
    )


def test_the_seed_decides_which_sentences_are_drawn():
    assert compare_outputs("chrf", BAD, GOOD, seed=1) == compare_outputs("chrf", BAD, GOOD, seed=1)
    assert compare_outputs("chrf", BAD, GOOD, seed=1) != compare_outputs("chrf", BAD, GOOD, seed=2)


def test_every_drawn_test_set_has_as_many_sentences():
    sums = resample_sums(np.ones((7, 1)), samples=11, seed=1)
    assert sums.tolist() == [[7]] * 11


def test_all_sentences_are_drawn_equally_often():
    sums = resample_sums(np.eye(5), samples=4000, seed=1)
    assert sums.mean(axis=0) == pytest.approx(1, abs=0.06)  # 4 standard errors of sqrt(0.8 / 4000)
    assert sums.var(axis=0) == pytest.approx(0.8, abs=0.1)  # 5 draws with probability 1/5
