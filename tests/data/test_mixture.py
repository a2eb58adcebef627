"""Laws of mixing: each pair as often as its weight says, whatever the epoch."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pellucid.data.batching import CorpusShare, index_type
from pellucid.data.epoch_order import count_by_corpus, epoch_blocks

law = settings(derandomize=True, deadline=None, max_examples=100)
WEIGHTS = st.sampled_from([0.1, 0.3, 0.5, 1.0, 1.1, 2.0, 2.5, 3.0])
SHARES = st.lists(st.tuples(st.integers(11, 37), WEIGHTS), min_size=1, max_size=3).map(
    lambda pairs: tuple(CorpusShare(f"corpus {i}", *size_and_weight) for i, size_and_weight in enumerate(pairs))
)


def epoch_pairs(shares: Sequence[CorpusShare], seed: int, epoch: int, size: int = 1) -> NDArray[np.integer]:
    """Return the pairs that an epoch shows, which come from blocks of this size."""
    blocks = epoch_blocks(shares, seed, epoch, None, size)
    assert 1 <= blocks.pairs.min() <= blocks.pairs.max() <= size
    assert blocks.count_by_corpus(shares).sum() == blocks.pairs.sum()
    return blocks.list_pairs()


@law
@given(SHARES, st.integers(0, 3), st.integers(1, 12), st.integers(1, 9))
def test_over_any_epochs_each_pair_is_seen_as_its_weight_says_to_within_one(shares, seed: int, epochs: int, size: int):
    counts = Counter(i for epoch in range(epochs) for i in epoch_pairs(shares, seed, epoch, size).tolist())
    first = 0
    for share in shares:
        for i in range(first, first + share.pairs):
            assert abs(counts[i] - epochs * share.weight) <= 1 - 1e-9
        first += share.pairs
    assert max(counts) < first


@law
@given(SHARES, st.integers(0, 3), st.integers(1, 12), st.integers(1, 9))
def test_how_many_of_each_corpus_were_seen_follows_from_the_epoch(shares, seed: int, epochs: int, size: int):
    expected = sum(count_by_corpus(shares, epoch_pairs(shares, seed, epoch, size)) for epoch in range(epochs))
    assert [share.pairs_seen(epochs) for share in shares] == np.asarray(expected).tolist()


def test_half_a_weight_shows_the_other_half_in_the_next_epoch():
    shares = (CorpusShare("a", 12, 0.5), CorpusShare("b", 5, 2.0))
    first, second = (epoch_pairs(shares, 7, epoch).tolist() for epoch in range(2))
    assert sorted(i for i in first + second if i < 12) == list(range(12))
    assert sorted(first) != list(range(6)) + sorted([*range(12, 17)] * 2)  # drawn, not the first half of the file
    assert sorted(i for i in first if i >= 12) == sorted([*range(12, 17)] * 2)


def test_which_half_depends_on_the_seed():
    halves = {tuple(sorted(epoch_pairs((CorpusShare("a", 40, 0.5),), seed, 0).tolist())) for seed in range(5)}
    assert len(halves) == 5


def test_a_weight_of_tenths_is_taken_as_it_is_written():
    assert (
        CorpusShare("a", 10, 0.1).pairs_seen(3) == 3
    )  # 3 * 10 * 0.1 is 3.0000000000000004 in floating point, and 0.7 less
    assert CorpusShare("a", 10, 0.7).pairs_seen(1) == 7


def test_a_corpus_that_an_epoch_never_shows_is_refused():
    with pytest.raises(ValueError, match=r"of web, 9 pairs, a weight of 0\.1 shows less than one an epoch"):
        CorpusShare("web", 9, 0.1)


def test_pairs_are_counted_by_corpus():
    shares = (CorpusShare("a", 3), CorpusShare("b", 2), CorpusShare("c", 4))
    assert count_by_corpus(shares, np.array([0, 2, 3, 8, 8, 5])).tolist() == [2, 1, 3]
    assert count_by_corpus(shares, np.array([], dtype=np.int64)).tolist() == [0, 0, 0]


def test_indices_take_four_bytes_as_long_as_they_can():
    assert index_type(2**31) is np.int32
    assert index_type(2**31 + 1) is np.int64
