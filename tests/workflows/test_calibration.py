"""Calibration: a confidence means what it says on sentences that nothing was fitted on; damaged files are refused."""

import itertools
import json
import random
from dataclasses import replace

import numpy as np
import pytest

from pellucid.decode.confidence import (
    CALIBRATION,
    ConfidenceCurve,
    confidence_features,
    read_calibration,
    word_log_probs,
)
from pellucid.decode.usability import quality_features
from pellucid.workflows.calibration import (
    calibration_lines,
    count_worst_found,
    find_kept_words,
    find_unchanged,
    fit_calibration,
    fit_quality,
    measure_calibration,
    pool_adjacent_violators,
)

RANDOM = np.random.default_rng(7)


def draw_sentences(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw features of translations, and whether each needs no change: as likely as its log-probability says."""
    pieces, sources = RANDOM.integers(3, 30, count), RANDOM.integers(3, 30, count)
    log_probs = -RANDOM.exponential(1.0, count)
    features = np.array([confidence_features(*row) for row in zip(log_probs, pieces, sources, strict=True)], float)
    return features, (RANDOM.random(count) < np.exp(log_probs)).astype(np.float64)


def test_of_those_marked_so_sure_so_many_need_no_change():
    features, unchanged = draw_sentences(4000)
    calibration = fit_calibration(features, unchanged, [], {})
    assert calibration.about["sentences"] == 2000
    assert calibration.about["error"] < 0.04
    above, right = calibration.about["above"]["0.8"]
    assert above > 300
    assert right / above > 0.8


def test_a_likelier_translation_of_equal_lengths_is_never_less_sure():
    calibration = fit_calibration(*draw_sentences(1000), [], {})
    sure = [calibration.confidence_of(log_prob, 8, 9) for log_prob in np.linspace(-9, -0.01, 97)]
    assert sure == sorted(sure)
    assert sure[-1] > sure[0] + 0.5


def test_pooled_values_rise_and_keep_their_mean():
    values, sizes = RANDOM.random(23).tolist(), RANDOM.integers(1, 9, 23).tolist()
    pooled = pool_adjacent_violators(values, sizes)
    assert pooled == sorted(pooled)
    assert np.dot(pooled, sizes) == pytest.approx(np.dot(values, sizes))
    # No other rising values are nearer: checked against those made by shifting any tail of them.
    distance = np.dot(sizes, (np.array(pooled) - values) ** 2)
    for start in range(23):
        for step in (-0.01, 0.01):
            other = np.array(pooled) + step * (np.arange(23) >= start)
            assert (np.diff(other) < -1e-12).any() or np.dot(sizes, (other - values) ** 2) >= distance


def test_the_calibration_error_is_that_of_the_definition():
    confidences, unchanged = np.array([0.1, 0.15, 0.9, 0.9, 1.0]), np.array([0.0, 1.0, 1.0, 1.0, 0.0])
    # Bin 1: |0.25 - 1|; bin 9: |2.8 - 2|; of five sentences.
    assert measure_calibration(confidences, unchanged)["error"] == pytest.approx((0.75 + 0.8) / 5)
    assert measure_calibration(confidences, unchanged)["above"]["0.9"] == [3, 2]


def test_no_change_is_needed_where_the_reference_is_met_or_nearly():
    texts = ["La bola es azul.", "La bola es azul", "Una pelota"]
    assert find_unchanged(texts, ["La bola es azul."] * 3, 80.0, lowercase=False).tolist() == [1, 1, 0]


def test_a_dev_set_that_is_too_small_says_so():
    with pytest.raises(ValueError, match="199 sentences are too few to calibrate on; 200 are needed"):
        fit_calibration(*draw_sentences(199), [], {})


def test_a_model_that_is_never_sure_says_so():
    about = {"good_chrf": 80.0, **measure_calibration(np.full(10, 0.2), np.zeros(10))}
    assert "confidence 0.9 or more: 0 sentences, none: the model is never so sure" in list(calibration_lines(about))


def test_a_damaged_calibration_is_refused_and_none_is_none(tmp_path):
    calibration = fit_calibration(*draw_sentences(400), draw_words(400), {"good_chrf": 80.0})
    listed = {"files": {CALIBRATION: {}}}
    assert read_calibration(tmp_path, {"files": {}}) is None
    (tmp_path / CALIBRATION).write_text(calibration.to_json(), encoding="utf-8")
    assert read_calibration(tmp_path, listed) == replace(calibration, about=json.loads(json.dumps(calibration.about)))
    table = json.loads(calibration.to_json())
    too_large = {**table["curve"], "confidences": [2.0] * len(table["curve"]["confidences"])}
    falling = {"scores": [1.0], "confidences": [0.9, 0.1]}
    for name, value in (
        ("weights", [1.0]), ("weights", ["a"] * 5), ("curve", too_large), ("curve", None), ("words", falling),
    ):  # fmt: skip
        (tmp_path / CALIBRATION).write_text(json.dumps({**table, name: value}), encoding="utf-8")
        with pytest.raises(ValueError, match=r"calibration\.json is no calibration .* make it again"):
            read_calibration(tmp_path, listed)
    with pytest.raises(ValueError, match="rising curve"):
        ConfidenceCurve((1.0, 1.0), (0.1, 0.2, 0.3))


def draw_words(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draw the words of so many sentences: log-probabilities, and whether each is kept, as likely as it says."""
    log_probs = [-RANDOM.exponential(0.7, RANDOM.integers(0, 12)) for _ in range(count)]
    return [(values, (RANDOM.random(len(values)) < np.exp(values)).astype(np.float64)) for values in log_probs]


def test_of_the_words_marked_so_sure_so_many_are_kept():
    calibration = fit_calibration(*draw_sentences(1000), draw_words(1000), {"good_chrf": 80.0})
    assert calibration.words
    assert calibration.about["words"]["error"] < 0.04
    assert calibration.words.confidence_at(-0.01) > 0.9
    assert calibration.words.confidence_at(-5.0) < 0.1
    assert any("words of theirs, the reference has" in line for line in calibration_lines(dict(calibration.about)))


def test_too_few_words_give_no_curve_of_words():
    calibration = fit_calibration(*draw_sentences(200), draw_words(20) + [(np.empty(0), np.empty(0))] * 180, {})
    assert calibration.words is None
    assert calibration.confidences_of_words("a", ["▁a"], [-0.1]) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_words_kept_are_the_longest_common_subsequence(seed):
    at = random.Random(seed)
    text, reference = ([at.choice("abc") for _ in range(at.randrange(7))] for _ in range(2))
    kept = find_kept_words(" ".join(text), " ".join(reference))
    chosen = [word for word, is_kept in zip(text, kept, strict=True) if is_kept]
    subsequences = {
        words
        for size in range(len(text) + 1)
        for words in itertools.combinations(text, size)
        if words in set(itertools.combinations(reference, size))
    }
    assert tuple(chosen) in subsequences
    assert len(chosen) == max(map(len, subsequences))


def test_a_word_is_as_likely_as_its_pieces_together():
    pieces = ["▁La", "▁bo", "la", "▁es", "▁azul", ".", "</s>"]
    log_probs = [-0.1, -0.2, -0.4, -0.8, -1.6, -3.2, -6.4]
    assert word_log_probs("La bola es azul.", pieces, log_probs) == pytest.approx([-0.1, -0.6, -0.8, -4.8])
    assert word_log_probs("La bola es azul.", pieces[:-1], log_probs[:-1]) == pytest.approx([-0.1, -0.6, -0.8, -4.8])
    assert word_log_probs("La <b>bola</b> es azul.", pieces, log_probs) is None
    assert word_log_probs("é a", ["▁", "<0xC3>", "<0xA9>", "▁a", "</s>"], [-0.1] * 5) == pytest.approx([-0.3, -0.1])
    assert word_log_probs("La bola es azul.", pieces, []) is None  # an engine that gives the sum alone


def draw_qualities(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw features of translations and their chrF: 95, less 45 for each nat of a piece, and noise."""
    pieces, sources = RANDOM.integers(3, 30, count), RANDOM.integers(3, 30, count)
    log_probs = -RANDOM.exponential(0.7, count) * pieces
    rows = [quality_features(*row) for row in zip(log_probs.tolist(), pieces.tolist(), sources.tolist(), strict=True)]
    features = np.array(rows)
    return features, np.clip(95 + 45 * features[:, 1] + RANDOM.normal(0, 5, count), 0, 100)


def test_the_expected_chrf_is_the_one_that_the_sentences_have():
    estimate, worth = fit_quality(*draw_qualities(2000))
    for log_prob in (-0.2, -0.8, -1.4):
        assert estimate.expect_chrf(9 * log_prob, 9, 9) == pytest.approx(95 + 45 * log_prob, abs=8)
    assert worth["worst"] == 200
    assert worth["found"] > 150


def test_a_likelier_translation_is_never_expected_to_be_worse_nor_an_odd_length_better():
    features, chrf = draw_qualities(500)
    for quality in (chrf, 100 - chrf, np.full(500, 40.0), RANDOM.random(500) * 100):
        estimate, _ = fit_quality(features, quality)
        expected = [estimate.expect_chrf(log_prob, 9, 9) for log_prob in np.linspace(-20, -0.01, 31)]
        assert expected == sorted(expected)
        for by_length in ([(9, 9), (9, 7), (9, 5), (9, 2)], [(9, 9), (9, 12), (9, 20), (9, 50)]):
            falling = [estimate.expect_chrf(-4.0, *lengths) for lengths in by_length]
            assert falling == sorted(falling, reverse=True)


def test_a_dev_set_without_a_fault_does_not_make_every_translation_usable():
    features, _ = draw_qualities(400)
    estimate, _ = fit_quality(features, np.full(400, 100.0))
    assert estimate.grade_chrf(estimate.expect_chrf(-9 * 0.1, 9, 9)) == "usable"
    assert estimate.grade_chrf(estimate.expect_chrf(-9 * 4.0, 9, 9)) == "redo"


def test_the_bounds_of_the_grades_are_those_of_the_worst_fifths_within_reason():
    features, _ = draw_qualities(1000)
    rising = np.linspace(35, 85, 1000)  # its worst fifth ends at 45, and the second at 55
    for chrf, bounds in (
        (rising, (45, 55)),
        (rising / 5, (30, 50)),  # a poor model has no usable translations for being the best of its own
        (np.full(1000, 100.0), (50, 80)),  # and one without a fault has nothing to redo
    ):
        estimate, _ = fit_quality(features, chrf)
        assert (estimate.redo_below, estimate.look_below) == pytest.approx(bounds, abs=0.2)


def test_the_worst_that_are_found_are_counted_in_both_fifths():
    quality = np.arange(20.0)
    assert count_worst_found(quality, quality) == 4
    assert count_worst_found(-quality, quality) == 0
    assert count_worst_found(np.where(quality == 3, 50, quality), quality) == 3


def test_a_calibration_of_an_older_version_has_no_quality_and_a_new_one_keeps_it(tmp_path):
    calibration = fit_calibration(*draw_sentences(400), [], {"good_chrf": 80.0})
    calibration = replace(calibration, quality=fit_quality(*draw_qualities(400))[0])
    listed = {"files": {CALIBRATION: {}}}
    (tmp_path / CALIBRATION).write_text(calibration.to_json(), encoding="utf-8")
    read = read_calibration(tmp_path, listed)
    assert read
    assert read.quality == calibration.quality
    table = json.loads(calibration.to_json())
    for damaged in ({**table["quality"], "weights": [1.0]}, {**table["quality"], "redo_below": "a"}, [1.0]):
        (tmp_path / CALIBRATION).write_text(json.dumps({**table, "quality": damaged}), encoding="utf-8")
        with pytest.raises(ValueError, match=r"calibration\.json is no calibration"):
            read_calibration(tmp_path, listed)
    del table["quality"]
    (tmp_path / CALIBRATION).write_text(json.dumps(table), encoding="utf-8")
    old = read_calibration(tmp_path, listed)
    assert old
    assert old.quality is None
