"""Laws of the order of many pairs: windows of shuffled blocks, computed when their turn comes, and never stored."""

import itertools
import tracemalloc

import numpy as np
import pytest

from pellucid.data.batching import CorpusShare, EncodedPairs, PackedSentences
from pellucid.data.epoch_order import BLOCKS_PER_WINDOW, PAIRS_PER_BLOCK, EpochOrder
from pellucid.data.stream import Stream

SHARES = (CorpusShare("web", 977), CorpusShare("news", 101, 2.5))


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of at most 77 pairs."""
    monkeypatch.setattr("pellucid.data.stream.PAIRS_AS_A_WHOLE", 0)
    monkeypatch.setattr("pellucid.data.epoch_order.PAIRS_PER_BLOCK", 7)
    monkeypatch.setattr("pellucid.data.epoch_order.BLOCKS_PER_WINDOW", 11)


def make_pairs(count: int) -> EncodedPairs:
    """Return pairs whose lengths are drawn from 2 to 12."""
    random = np.random.default_rng(7)
    sides = []
    for _ in range(2):
        starts = np.concatenate([[0], random.integers(2, 13, count).cumsum()])
        sides.append(PackedSentences(np.full(starts[-1], 5, np.uint16), starts))
    return EncodedPairs(sides[0], sides[1], SHARES if count == 1078 else ())


@pytest.mark.usefixtures("small_windows")
def test_the_windows_of_an_epoch_have_each_pair_as_often_as_its_weight_says_and_differ_by_epoch():
    stream, epochs, seeds = Stream(make_pairs(1078), 83, seed=3), [], []
    for epoch in range(3):
        assert stream.epoch == epoch
        pairs = []
        while stream.epoch == epoch:
            spec = stream.advance()
            pairs += spec.pairs.tolist()
            seeds.append(spec.seed)
        assert sorted(pair for pair in pairs if pair < 977) == list(range(977))
        assert len(pairs) - 977 == SHARES[1].pairs_seen(epoch + 1) - SHARES[1].pairs_seen(epoch)
        epochs.append(pairs)
    assert len(set(map(tuple, epochs))) == 3
    assert len(set(seeds)) == len(seeds)


@pytest.mark.usefixtures("small_windows")
def test_a_window_is_drawn_from_the_whole_text():
    stream = Stream(make_pairs(10_007), 83, seed=3)
    window = np.concatenate(stream.order)
    assert len(window) <= 77
    # Eleven blocks: more than half of the tenths of the text have one, most likely.
    assert len(set((window // 1001).tolist())) >= 5


def test_a_position_without_a_window_goes_on_in_the_order_of_older_versions(monkeypatch: pytest.MonkeyPatch):
    encoded = make_pairs(1078)
    old = Stream(encoded, 83, seed=3)
    for _ in range(50):
        next(old)
    position = old.position
    assert len(position) == 3
    monkeypatch.setattr("pellucid.data.stream.PAIRS_AS_A_WHOLE", 100)
    resumed = Stream(encoded, 83, *position, whole=True)
    assert len(Stream(encoded, 83, seed=3).position) == 4
    for expected, batch in itertools.islice(zip(old, resumed, strict=False), 300):
        assert batch.indices.tolist() == expected.indices.tolist()
        assert batch.seed == expected.seed


@pytest.mark.usefixtures("small_windows")
def test_a_window_that_the_data_does_not_have_is_refused():
    encoded = make_pairs(1078)
    windows = Stream(encoded, 83, seed=3).epoch_order.windows
    with pytest.raises(ValueError, match=f"window {windows} of epoch 2 does not exist: .* has {windows} windows"):
        Stream(encoded, 83, 3, 2, 0, windows)
    with pytest.raises(ValueError, match="batch 1000 of epoch 2 does not exist: window 1 of this data has"):
        Stream(encoded, 83, 3, 2, 1000, 1)


def walk_memory(pairs: int, windows: int) -> int:
    """Return the most bytes that the order of this many pairs takes at a time, for some windows of it."""

    def lengths_of(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lengths = (numbers % 61 + 2).astype(np.int32)
        return lengths, lengths[::-1]

    tracemalloc.start()
    order = EpochOrder((CorpusShare("all", pairs),), 3, 5, (True,), whole=False)
    for window in range(windows):
        order.make_batches(window, lengths_of, 4096)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_the_order_of_many_pairs_takes_a_byte_for_dozens_of_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pellucid.data.epoch_order.BLOCKS_PER_WINDOW", 64)
    assert walk_memory(2**25, windows=1) < 2**25 / 6


@pytest.mark.slow
def test_the_order_of_500_million_pairs_takes_less_than_100_megabytes():
    assert PAIRS_PER_BLOCK * BLOCKS_PER_WINDOW == 2**21
    assert walk_memory(500_000_000, windows=2) < 100e6
