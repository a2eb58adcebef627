"""Prefetched batches are those that would be made without prefetching."""

import numpy as np
import pytest
import torch

from pellucid.data.batching import Batch, EncodedPairs, pack_sentences
from pellucid.data.stream import Stream
from pellucid.training import distributed
from pellucid.training.distributed import ALONE, Prefetcher, Replicated, worker_batches


def make_stream() -> Stream:
    random = np.random.default_rng(1)
    rows = [random.integers(4, 50, size=n).tolist() for n in random.integers(1, 9, size=97)]
    return Stream(EncodedPairs(pack_sentences(rows, np.uint16), pack_sentences(rows[::-1], np.uint16)), 61, seed=5)


def same_batches(first: list[Batch], second: list[Batch]) -> bool:
    return len(first) == len(second) and all(
        torch.equal(a.source, b.source) and torch.equal(a.target_out, b.target_out) and a.seed == b.seed
        for a, b in zip(first, second, strict=True)
    )


def test_upcoming_batches_are_those_that_come_and_the_stream_does_not_advance():
    peeked, plain = make_stream(), make_stream()
    for _ in range(2 * len(peeked.order)):
        position = peeked.position
        for number in (1, 3):
            remaining = len(peeked.order) - peeked.batch
            assert len(peeked.upcoming(number)) == (number if number <= remaining else 0)
        [next_spec] = peeked.upcoming(1)
        assert peeked.position == position == plain.position
        spec = plain.advance()
        assert (next_spec.seed, next_spec.pairs.tolist()) == (spec.seed, spec.pairs.tolist())
        peeked.advance()


@pytest.mark.parametrize("workers", [ALONE, Replicated(1, 2)])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_prefetched_batches_are_those_made_when_asked_for(workers, accumulate):
    stream, plain, prefetcher = make_stream(), make_stream(), Prefetcher()
    for _ in range(2 * len(stream.order) // accumulate):
        specs = [stream.advance() for _ in range(accumulate)]
        batches = prefetcher.batches(specs, stream.upcoming(accumulate), workers)
        assert same_batches(batches, worker_batches([plain.advance() for _ in range(accumulate)], workers))


def test_each_batch_is_made_once_and_a_stream_that_was_set_back_gets_its_own(monkeypatch):
    stream, prefetcher, made_seeds = make_stream(), Prefetcher(), []
    monkeypatch.setattr(
        distributed,
        "worker_batches",
        lambda specs, workers: made_seeds.append(specs[0].seed) or worker_batches(specs, workers),
    )
    for _ in range(5):
        prefetcher.batches([stream.advance()], stream.upcoming(1), ALONE)
    expected = make_stream()
    assert sorted(made_seeds[:5]) == sorted(expected.advance().seed for _ in range(5))
    reset_stream = make_stream()
    assert same_batches(
        prefetcher.batches([reset_stream.advance()], reset_stream.upcoming(1), ALONE), [next(make_stream())]
    )
