"""What is hidden is not there for the model, and nothing else changes."""

import random

import numpy as np
import pytest
import torch

from pellucid.data.tokenizer import BOS, EOS, PAD
from pellucid.decode.step import score_targets
from pellucid.trace.causes import erasure
from pellucid.trace.causes.erasure import erase_prefix, erase_source
from tests.model.models import every_option, small_model
from tests.trace.copying import WORDS, copying_model, word_tokenizer

SOURCE, TARGET = [4, 9, 11, 5, 17, 8, EOS], [7, 21, 6, 9, 28, EOS]


def log_probs(model, source, target):
    with torch.no_grad():
        return np.array(score_targets(model, [source], [target])[0])


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)


# ---------------------------------------------------------------- the source


@every_option
def test_another_piece_in_the_place_of_a_hidden_one_gives_the_same_numbers(options):
    model = small_model(**options)
    other = [4, 9, 25, 14, 17, 8, EOS]
    a, b = (log_probs(model, each, TARGET) + erase_source(model, each, TARGET, [[2, 3]])[0] for each in (SOURCE, other))
    close(a, b)
    assert np.abs(log_probs(model, SOURCE, TARGET) - log_probs(model, other, TARGET)).min() > 1e-6
    assert np.abs(erase_source(model, SOURCE, TARGET, [[2, 3]])).min() > 1e-6


@every_option
def test_hiding_the_last_piece_is_a_shorter_source(options):
    model = small_model(**options)
    found = erase_source(model, SOURCE, TARGET, [[6], [5, 6]])
    for row, size in zip(found, (6, 5), strict=True):
        close(row, log_probs(model, SOURCE[:size], TARGET) - log_probs(model, SOURCE, TARGET))


@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
def test_without_positions_hiding_a_piece_is_taking_it_out(norm):
    model = small_model(norm=norm, positions="none")
    found = erase_source(model, SOURCE, TARGET, [[2], [0, 4]])
    close(found[0], log_probs(model, [4, 9, 5, 17, 8, EOS], TARGET) - log_probs(model, SOURCE, TARGET))
    close(found[1], log_probs(model, [9, 11, 5, 8, EOS], TARGET) - log_probs(model, SOURCE, TARGET))


@every_option
def test_hiding_padding_or_nothing_changes_nothing(options):
    model = small_model(**options)
    close(erase_source(model, [*SOURCE, PAD, PAD], TARGET, [[7, 8], [], [8]]), 0)
    close(erase_prefix(model, SOURCE, TARGET, [[], [5]]), 0)


def test_all_of_a_source_may_be_hidden():
    model = small_model()
    [found] = erase_source(model, SOURCE, TARGET, [range(7)])
    close(
        found,
        erase_source(model, [5, 5, 5, 5, 5, 5, 5], TARGET, [range(7)])[0]
        + log_probs(model, [5] * 7, TARGET)
        - log_probs(model, SOURCE, TARGET),
    )


# ---------------------------------------------------------------- what was written


@every_option
def test_another_piece_in_the_place_of_a_hidden_written_one_gives_the_same_numbers(options):
    """In every later log-probability, that of the next piece too, which is written where the hidden one is read."""
    model = small_model(**options)
    other = [7, 13, 24, 9, 28, EOS]
    a, b = (log_probs(model, SOURCE, each) + erase_prefix(model, SOURCE, each, [[1, 2]])[0] for each in (TARGET, other))
    close(a[3:], b[3:])
    assert np.abs(log_probs(model, SOURCE, TARGET)[3:] - log_probs(model, SOURCE, other)[3:]).min() > 1e-6


@every_option
def test_what_was_written_before_the_hidden_does_not_change(options):
    found = erase_prefix(small_model(**options), SOURCE, TARGET, [[0], [2], [4], range(6)])
    for row, first in zip(found, (0, 2, 4, 0), strict=True):
        close(row[: first + 1], 0)
        assert np.abs(row[first + 1 :]).min() > 1e-6


@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
def test_without_positions_hiding_a_written_piece_is_taking_it_out(norm):
    """For those after the next: that one is written where the hidden piece was read."""
    model = small_model(norm=norm, positions="none")
    [found] = erase_prefix(model, SOURCE, TARGET, [[1]])
    shorter = [7, 6, 9, 28, EOS]
    close(found[3:], log_probs(model, SOURCE, shorter)[2:] - log_probs(model, SOURCE, TARGET)[3:])


@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
def test_the_piece_after_a_hidden_one_is_written_from_an_empty_vector(norm):
    """The same model with a zero row in its table of embeddings, reading that."""
    model = small_model(norm=norm, tie="none")
    [found] = erase_prefix(model, SOURCE, TARGET, [[4]])
    with torch.no_grad():
        before = log_probs(model, SOURCE, TARGET)[5]
        model.get_parameter("target_embedding.weight")[TARGET[4]] = 0.0
        logits = model(torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:5]]]))[0, 5]
    assert found[5] == pytest.approx(float(logits.log_softmax(0)[EOS]) - before, abs=1e-11)


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("hide", [erase_source, erase_prefix])
def test_groups_in_one_batch_or_in_several_are_each_alone(hide, monkeypatch):
    model, groups = small_model(), [[0], [3], [1, 2], [5], []]
    together = hide(model, SOURCE, TARGET, groups)
    assert together.shape == (5, 6)
    for group, row in zip(groups, together, strict=True):
        close(row, hide(model, SOURCE, TARGET, [group])[0])
    monkeypatch.setattr(erasure, "NUMBERS_AT_ONCE", 1)
    assert erasure.rows_per_batch(model, 7, 6) == 2
    close(hide(model, SOURCE, TARGET, groups), together)
    assert hide(model, SOURCE, TARGET, []).shape == (0, 6)


def test_a_model_in_training_is_asked_without_dropout_and_goes_on_training():
    model = small_model()
    expected = erase_source(model, SOURCE, TARGET, [[1]])
    model.train()
    close(erase_source(model, SOURCE, TARGET, [[1]]), expected)
    assert model.training


# ---------------------------------------------------------------- a model that copies


def test_a_copied_word_rests_on_the_word_it_copies():
    """Of each copied word the log-probability falls most when the very word is hidden, and that is a large fall."""
    model, tokenizer = copying_model(), word_tokenizer()
    draw = random.Random(1)
    for _ in range(20):
        words = draw.sample(WORDS, draw.randrange(3, 7))
        [ids] = tokenizer.encode_source([" ".join(words)])
        found = erase_source(model, ids, ids, [[at] for at in range(len(words))])[:, : len(words)]
        assert found.argmin(axis=0).tolist() == list(range(len(words)))
        assert found.diagonal().max() < -0.5
        off = found[~np.eye(len(words), dtype=bool)]
        assert off.min() > found.diagonal().max()
