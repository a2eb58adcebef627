"""A finished run is called what its scores say, and is to be longer only where that would help."""

import pytest

from pellucid.training.config import TrainConfig
from pellucid.training.summary import summarize_run


def make_log(losses: list[float]) -> list[dict[str, float]]:
    """Return the reports of a run that was measured every ten updates."""
    return [{"step": 10 * number, "dev_loss": loss} for number, loss in enumerate(losses, start=1)]


FALLING, RISING, LEVEL = make_log([4, 3, 2, 1.5, 1.2, 1]), make_log([4, 2, 1, 1.5, 2, 3]), make_log([4, 2, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("bleu", "words"),
    [
        (0.0, "not usable yet"),
        (9.99, "not usable yet"),
        (10.0, "the meaning is seldom clear"),
        (25.0, "the meaning is clear, with many errors"),
        (39.0, "understandable, to be corrected by hand"),
        (98.8, "very good"),
    ],
)
def test_a_score_is_put_into_words(bleu, words):
    summary = summarize_run(TrainConfig(steps=60), bleu, 100, [])
    assert summary.sentence.startswith(f"BLEU {bleu:.1f} on 100 sentences kept apart: {words}.")
    assert summary.longer == (("--steps", "240") if bleu < 10 else ())


@pytest.mark.parametrize(
    ("train", "longer"),
    [
        (TrainConfig(minutes=1), ("--minutes", "20")),
        (TrainConfig(minutes=30), ("--minutes", "120")),
        (TrainConfig(steps=60), ("--steps", "240")),
    ],
)
def test_a_poor_model_whose_loss_still_fell_is_to_be_trained_longer(train, longer):
    summary = summarize_run(train, 1.9, 100, FALLING)
    assert "The loss was still falling" in summary.sentence
    assert summary.longer == longer


def test_a_model_that_is_good_is_not_to_be_trained_on_without_end():
    assert summarize_run(TrainConfig(minutes=30), 45.0, 500, FALLING).longer == ()


@pytest.mark.parametrize(("log", "says"), [(RISING, "begun to rise"), (LEVEL, "hardly fell at the end")])
def test_where_the_loss_fell_no_more_text_helps_and_time_does_not(log, says):
    summary = summarize_run(TrainConfig(minutes=1), 1.9, 100, log)
    assert says in summary.sentence
    assert "more text will help" in summary.sentence
    assert summary.longer == ()


def test_a_run_too_short_to_learn_anything_is_to_be_longer():
    summary = summarize_run(TrainConfig(steps=9), 0.0, 3, make_log([5.7, 5.69, 5.68, 5.68]))
    assert "hardly begun to learn" in summary.sentence
    assert summary.longer == ("--steps", "36")


def test_two_evaluations_and_those_of_an_average_say_nothing_of_a_trend():
    log = [*FALLING[:2], *({**row, "model": "average"} for row in FALLING[2:])]
    assert summarize_run(TrainConfig(minutes=1), 19.0, 100, log).longer == ()
