"""Erasing pieces hides them from the model and changes nothing else."""

import random

import numpy as np
import pytest
import torch

from pellucid.data.tokenizer import BOS, EOS, PAD
from pellucid.decode.torch_engine import score_targets
from pellucid.interpret.trace import attribution as erasure
from pellucid.interpret.trace.attribution import erase_prefix, erase_source
from tests.model.models import every_option, small_model
from tests.trace.copying import WORDS, copying_model, word_tokenizer

SOURCE, TARGET = [4, 9, 11, 5, 17, 8, EOS], [7, 21, 6, 9, 28, EOS]


def log_probs(model, source, target):
    with torch.no_grad():
        return np.array(score_targets(model, [source], [target])[0])


def assert_close(a, b):
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)


# ---------------------------------------------------------------- the source


@every_option
def test_a_hidden_source_piece_does_not_matter(options):
    model = small_model(**options)
    other_source = [4, 9, 25, 14, 17, 8, EOS]
    a, b = (
        log_probs(model, source, TARGET) + erase_source(model, source, TARGET, [[2, 3]])[0]
        for source in (SOURCE, other_source)
    )
    assert_close(a, b)
    assert np.abs(log_probs(model, SOURCE, TARGET) - log_probs(model, other_source, TARGET)).min() > 1e-6
    assert np.abs(erase_source(model, SOURCE, TARGET, [[2, 3]])).min() > 1e-6


@every_option
def test_hiding_the_last_pieces_equals_a_shorter_source(options):
    model = small_model(**options)
    changes = erase_source(model, SOURCE, TARGET, [[6], [5, 6]])
    for row, size in zip(changes, (6, 5), strict=True):
        assert_close(row, log_probs(model, SOURCE[:size], TARGET) - log_probs(model, SOURCE, TARGET))


@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
def test_without_positions_hiding_a_source_piece_equals_removing_it(norm):
    model = small_model(norm=norm, positions="none")
    changes = erase_source(model, SOURCE, TARGET, [[2], [0, 4]])
    assert_close(changes[0], log_probs(model, [4, 9, 5, 17, 8, EOS], TARGET) - log_probs(model, SOURCE, TARGET))
    assert_close(changes[1], log_probs(model, [9, 11, 5, 8, EOS], TARGET) - log_probs(model, SOURCE, TARGET))


@every_option
def test_hiding_padding_or_nothing_changes_nothing(options):
    model = small_model(**options)
    assert_close(erase_source(model, [*SOURCE, PAD, PAD], TARGET, [[7, 8], [], [8]]), 0)
    assert_close(erase_prefix(model, SOURCE, TARGET, [[], [5]]), 0)


def test_all_of_a_source_may_be_hidden():
    model = small_model()
    [change] = erase_source(model, SOURCE, TARGET, [range(7)])
    assert_close(
        change,
        erase_source(model, [5, 5, 5, 5, 5, 5, 5], TARGET, [range(7)])[0]
        + log_probs(model, [5] * 7, TARGET)
        - log_probs(model, SOURCE, TARGET),
    )


# ---------------------------------------------------------------- what was written


@every_option
def test_a_hidden_target_piece_does_not_matter_afterwards(options):
    """This holds from the next piece on, though that is written at the position that reads the hidden one."""
    model = small_model(**options)
    other_target = [7, 13, 24, 9, 28, EOS]
    a, b = (
        log_probs(model, SOURCE, target) + erase_prefix(model, SOURCE, target, [[1, 2]])[0]
        for target in (TARGET, other_target)
    )
    assert_close(a[3:], b[3:])
    assert np.abs(log_probs(model, SOURCE, TARGET)[3:] - log_probs(model, SOURCE, other_target)[3:]).min() > 1e-6


@every_option
def test_pieces_written_before_the_hidden_one_do_not_change(options):
    changes = erase_prefix(small_model(**options), SOURCE, TARGET, [[0], [2], [4], range(6)])
    for row, first in zip(changes, (0, 2, 4, 0), strict=True):
        assert_close(row[: first + 1], 0)
        assert np.abs(row[first + 1 :]).min() > 1e-6


@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
def test_without_positions_hiding_a_target_piece_equals_removing_it(norm):
    """This holds from the piece after the next on: the next is written at the position that reads the hidden piece."""
    model = small_model(norm=norm, positions="none")
    [change] = erase_prefix(model, SOURCE, TARGET, [[1]])
    shorter = [7, 6, 9, 28, EOS]
    assert_close(change[3:], log_probs(model, SOURCE, shorter)[2:] - log_probs(model, SOURCE, TARGET)[3:])


@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
def test_the_piece_after_a_hidden_one_is_written_from_a_zero_vector(norm):
    """Hiding equals a zero row in the table of embeddings for the piece that is read."""
    model = small_model(norm=norm, tie="none")
    [change] = erase_prefix(model, SOURCE, TARGET, [[4]])
    with torch.no_grad():
        before = log_probs(model, SOURCE, TARGET)[5]
        model.get_parameter("target_embedding.weight")[TARGET[4]] = 0.0
        logits = model(torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:5]]]))[0, 5]
    assert change[5] == pytest.approx(float(logits.log_softmax(0)[EOS]) - before, abs=1e-11)


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("hide", [erase_source, erase_prefix])
def test_groups_do_not_depend_on_their_batch(hide, monkeypatch):
    model, groups = small_model(), [[0], [3], [1, 2], [5], []]
    together = hide(model, SOURCE, TARGET, groups)
    assert together.shape == (5, 6)
    for group, row in zip(groups, together, strict=True):
        assert_close(row, hide(model, SOURCE, TARGET, [group])[0])
    monkeypatch.setattr(erasure, "NUMBERS_AT_ONCE", 1)
    assert erasure.rows_per_batch(model, 7, 6) == 2
    assert_close(hide(model, SOURCE, TARGET, groups), together)
    assert hide(model, SOURCE, TARGET, []).shape == (0, 6)


def test_erasure_runs_without_dropout_and_restores_training_mode():
    model = small_model()
    expected = erase_source(model, SOURCE, TARGET, [[1]])
    model.train()
    assert_close(erase_source(model, SOURCE, TARGET, [[1]]), expected)
    assert model.training


# ---------------------------------------------------------------- a model that copies


def test_a_copied_word_rests_on_the_word_it_copies():
    """The log-probability of a copied word falls most, and far, when the word that it copies is hidden."""
    model, tokenizer = copying_model(), word_tokenizer()
    rng = random.Random(1)
    for _ in range(20):
        words = rng.sample(WORDS, rng.randrange(3, 7))
        [ids] = tokenizer.encode_source([" ".join(words)])
        changes = erase_source(model, ids, ids, [[position] for position in range(len(words))])[:, : len(words)]
        assert changes.argmin(axis=0).tolist() == list(range(len(words)))
        assert changes.diagonal().max() < -0.5
        off_diagonal = changes[~np.eye(len(words), dtype=bool)]
        assert off_diagonal.min() > changes.diagonal().max()
