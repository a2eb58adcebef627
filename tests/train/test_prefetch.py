"""What is made ahead is what would have been made."""

import numpy as np
import pytest
import torch

from pellucid.data.batching import Batch, EncodedPairs
from pellucid.data.stream import Stream, pack_sentences
from pellucid.train import prefetch
from pellucid.train.distributed import ALONE, Workers, worker_batches
from pellucid.train.prefetch import Prefetcher


def stream() -> Stream:
    random = np.random.default_rng(1)
    rows = [random.integers(4, 50, size=n).tolist() for n in random.integers(1, 9, size=97)]
    return Stream(EncodedPairs(pack_sentences(rows, np.uint16), pack_sentences(rows[::-1], np.uint16)), 61, seed=5)


def same(one: list[Batch], other: list[Batch]) -> bool:
    return len(one) == len(other) and all(
        torch.equal(a.source, b.source) and torch.equal(a.target_out, b.target_out) and a.seed == b.seed
        for a, b in zip(one, other, strict=True)
    )


def test_the_following_places_are_those_that_come_and_the_stream_stays():
    one, other = stream(), stream()
    for _ in range(2 * one.batches_per_epoch):
        position = one.position
        for number in (1, 3):
            left = one.batches_per_epoch - one.batch
            assert len(one.upcoming(number)) == (number if number <= left else 0)
        [next_place] = one.upcoming(1)
        assert one.position == position == other.position
        place = other.advance()
        assert (next_place.seed, next_place.pairs.tolist()) == (place.seed, place.pairs.tolist())
        one.advance()


@pytest.mark.parametrize("workers", [ALONE, Workers(1, 2)])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_batches_made_ahead_are_those_made_when_asked_for(workers, accumulate):
    one, other, maker = stream(), stream(), Prefetcher()
    for _ in range(2 * one.batches_per_epoch // accumulate):
        places = [one.advance() for _ in range(accumulate)]
        parts = maker.batches(places, one.upcoming(accumulate), workers)
        assert same(parts, worker_batches([other.advance() for _ in range(accumulate)], workers))


def test_each_batch_is_made_once_and_a_stream_that_was_set_back_gets_its_own(monkeypatch):
    one, maker, made = stream(), Prefetcher(), []
    monkeypatch.setattr(
        prefetch,
        "worker_batches",
        lambda places, workers: made.append(places[0].seed) or worker_batches(places, workers),
    )
    for _ in range(5):
        maker.batches([one.advance()], one.upcoming(1), ALONE)
    expected = stream()
    assert sorted(made[:5]) == sorted(expected.advance().seed for _ in range(5))
    back = stream()
    assert same(maker.batches([back.advance()], back.upcoming(1), ALONE), [next(stream())])
