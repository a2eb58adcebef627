"""Laws of batches: every pair once, within the budget, with little padding, in an order that numbers name."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pellucid.data.batching import EncodedPairs, PackedSentences, collate, epoch_batches
from pellucid.data.corpus import read_pairs
from pellucid.data.stream import encode_pairs
from pellucid.data.tokenizer import BOS, EOS, PAD, Tokenizer, TokenizerConfig

law = settings(derandomize=True, deadline=None, max_examples=100)
LENGTHS = st.lists(st.tuples(st.integers(1, 61), st.integers(1, 61)), min_size=1, max_size=97)


def length_columns(lengths: list[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    pairs = np.array(lengths, dtype=np.int64)
    return pairs[:, 0], pairs[:, 1]


def random_sentences(lengths: NDArray[np.int64], seed: int) -> PackedSentences:
    """Return random sentences of these lengths, each with EOS last."""
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.random.default_rng(seed).integers(4, 101, starts[-1], dtype=np.int32)
    ids[starts[1:] - 1] = EOS
    return PackedSentences(ids, starts)


@law
@given(LENGTHS, st.integers(1, 307), st.integers(0, 11))
def test_every_pair_is_in_one_batch_of_an_epoch(lengths: list[tuple[int, int]], budget: int, epoch: int):
    batches = epoch_batches(*length_columns(lengths), budget, 3, epoch)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))


@law
@given(LENGTHS, st.integers(1, 307), st.integers(0, 11))
def test_no_batch_is_over_the_budget_unless_it_is_one_pair(lengths: list[tuple[int, int]], budget: int, epoch: int):
    sources, targets = length_columns(lengths)
    for batch in epoch_batches(sources, targets, budget, 3, epoch):
        if len(batch) > 1:
            assert targets[batch].max() * len(batch) <= budget
            assert sources[batch].max() * len(batch) <= 2 * budget


@law
@given(LENGTHS, st.integers(1, 307), st.integers(0, 11), st.integers(0, 11))
def test_the_order_is_a_function_of_seed_and_epoch(lengths: list[tuple[int, int]], budget: int, seed: int, epoch: int):
    first, second = (epoch_batches(*length_columns(lengths), budget, seed, epoch) for _ in range(2))
    assert [list(batch) for batch in first] == [list(batch) for batch in second]


def test_another_seed_or_epoch_is_another_order():
    lengths = length_columns([(5 + i % 3, 7 + i % 2) for i in range(101)])
    orders = {
        tuple(np.concatenate(epoch_batches(*lengths, 53, seed, epoch))) for seed in range(3) for epoch in range(5)
    }
    assert len(orders) == 15


def test_pairs_of_like_length_meet_in_other_batches_in_another_epoch():
    lengths = length_columns([(5, 7)] * 101)
    first, second = ({frozenset(batch) for batch in epoch_batches(*lengths, 53, 1, epoch)} for epoch in range(2))
    assert not first & second


def original_order(
    source_lengths: NDArray[np.int64], target_lengths: NDArray[np.int64], seed: int, epoch: int
) -> list[int]:
    """Return the order before it is cut into batches, in 64 bits: the first checkpoints were made with it."""
    order = np.random.Generator(np.random.PCG64([seed, epoch])).permutation(len(target_lengths))
    sources, targets = source_lengths[order], target_lengths[order]
    band = (np.log(targets) / np.log(1.13)).astype(np.int64)
    span = sources.max() + 1
    keys = band * span + np.where(band % 2 == 0, sources, span - 1 - sources)
    return order[np.argsort(keys, kind="stable")].tolist()


@pytest.mark.parametrize("longest", [61, 1009, 70_001])
def test_lengths_in_32_bits_give_the_order_of_64_bits(longest: int):
    random = np.random.default_rng(3)
    sources, targets = random.integers(1, longest + 1, (2, 997))
    for seed, epoch in ((0, 0), (3, 5)):
        # a budget below any two pairs: batches of one, in the order of length once their own shuffle is undone
        batches = epoch_batches(sources.astype(np.int32), targets.astype(np.int32), 1, seed, epoch)
        random = np.random.Generator(np.random.PCG64([seed, epoch]))
        random.permutation(997)
        unshuffled = np.empty(997, dtype=np.int64)
        unshuffled[random.permutation(997)] = np.arange(997)
        assert [int(batches[i][0]) for i in unshuffled] == original_order(sources, targets, seed, epoch)


def test_an_epoch_that_is_sorted_in_parts_has_every_pair_once_and_within_the_budget(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pellucid.data.batching.SORTED_AT_ONCE", 101)
    sources, targets = np.random.default_rng(3).integers(1, 61, (2, 997))
    batches, again, other = (epoch_batches(sources, targets, 307, 3, epoch) for epoch in (0, 0, 1))
    assert sorted(np.concatenate(batches)) == list(range(997))
    assert all(len(batch) == 1 or targets[batch].max() * len(batch) <= 307 for batch in batches)
    assert [list(batch) for batch in batches] == [list(batch) for batch in again]
    assert not {frozenset(batch) for batch in batches if len(batch) > 2} & {frozenset(batch) for batch in other}
    # The parts of an epoch are drawn from the whole corpus, and so are ten batches on end.
    assert 300 < np.mean(np.concatenate(batches[:10])) < 700


def test_bands_computed_by_length_are_those_computed_by_pair():
    lengths = np.arange(1, 2**17)
    by_pair = (np.log(lengths[::-1].copy()) / np.log(1.13)).astype(np.int64)[::-1]
    assert (by_pair == (np.log(lengths) / np.log(1.13)).astype(np.int64)).all()


def padding_shares(encoded: EncodedPairs, budget: int, epoch: int) -> tuple[float, float]:
    """Return the shares of source and of target positions that hold no token."""
    sources, targets = encoded.sources.lengths, encoded.targets.lengths
    batches = epoch_batches(sources, targets, budget, 1, epoch)
    source_positions = sum(int(sources[batch].max()) * len(batch) for batch in batches)
    target_positions = sum(int(targets[batch].max()) * len(batch) for batch in batches)
    return 1 - sources.sum() / source_positions, 1 - targets.sum() / target_positions


def test_little_of_the_batches_is_padding():
    random = np.random.default_rng(5)
    targets = np.clip(random.lognormal(2.65, 0.4, 29_000), 2, 97).astype(np.int64)
    sources = np.clip(targets * random.lognormal(0, 0.17, 29_000), 2, 97).astype(np.int64)
    source, target = padding_shares(
        EncodedPairs(random_sentences(sources, 1), random_sentences(targets, 2)), 4096, epoch=0
    )
    assert source < 0.05
    assert target < 0.05


def test_little_of_a_real_corpus_is_padding(pellucid_data: Path):
    folder = pellucid_data / "multi30k"
    pairs = read_pairs(folder / "train.en.gz", folder / "train.de.gz", max_characters=5000)
    config = TokenizerConfig(vocabulary=10_000)
    tokenizer = Tokenizer.train(pairs.sources, pairs.targets, config, seed=1, max_sentences=100_000)
    encoded, _ = encode_pairs(pairs, tokenizer, limit=256)
    for epoch in range(3):
        assert max(padding_shares(encoded, 4096, epoch)) < 0.05


def test_a_budget_below_one_token_is_refused():
    with pytest.raises(ValueError, match="batch_tokens is 0, a batch needs at least 1"):
        epoch_batches(*length_columns([(2, 3)]), 0, 1, 0)


@law
@given(LENGTHS)
def test_a_batch_holds_each_sentence_and_then_padding(lengths: list[tuple[int, int]]):
    sources, targets = length_columns(lengths)
    encoded = EncodedPairs(random_sentences(sources, 1), random_sentences(targets, 2))
    indices = np.random.default_rng(3).permutation(len(encoded))[:13]
    batch = collate(encoded, indices)
    assert batch.source.shape == (len(indices), sources[indices].max())
    assert batch.target_in.shape == batch.target_out.shape == (len(indices), targets[indices].max())
    assert batch.target_tokens == targets[indices].sum()
    for row, i in enumerate(indices):
        source, target = encoded.sources[i].tolist(), encoded.targets[i].tolist()
        assert batch.source[row].tolist() == source + [PAD] * (batch.source.shape[1] - len(source))
        padding = [PAD] * (batch.target_out.shape[1] - len(target))
        assert batch.target_out[row].tolist() == target + padding
        assert batch.target_in[row].tolist() == [BOS, *target[:-1], *padding]


def test_a_batch_moves_to_a_device_whole():
    encoded = EncodedPairs(random_sentences(np.array([2, 3]), 1), random_sentences(np.array([5, 4]), 2))
    batch = collate(encoded, np.array([1, 0]))
    moved = batch.to("meta")
    assert moved.source.device.type == moved.target_in.device.type == moved.target_out.device.type == "meta"
    assert moved.target_tokens == batch.target_tokens == 9
