"""What is made ahead is what would have been made."""

import numpy as np
import pytest
import torch

from pellucid.data.batching import Batch, Encoded
from pellucid.data.stream import Stream, joined
from pellucid.train import prefetch
from pellucid.train.distributed import ALONE, Workers, shared
from pellucid.train.prefetch import Ahead


def stream() -> Stream:
    random = np.random.default_rng(1)
    rows = [random.integers(4, 50, size=n).tolist() for n in random.integers(1, 9, size=97)]
    return Stream(Encoded(joined(rows, np.uint16), joined(rows[::-1], np.uint16)), 61, seed=5)


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
            assert len(one.following(number)) == (number if number <= left else 0)
        [next_place] = one.following(1)
        assert one.position == position == other.position
        place = other.step()
        assert (next_place.seed, next_place.pairs.tolist()) == (place.seed, place.pairs.tolist())
        one.step()


@pytest.mark.parametrize("workers", [ALONE, Workers(1, 2)])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_batches_made_ahead_are_those_made_when_asked_for(workers, accumulate):
    one, other, maker = stream(), stream(), Ahead()
    for _ in range(2 * one.batches_per_epoch // accumulate):
        places = [one.step() for _ in range(accumulate)]
        parts = maker.parts(places, one.following(accumulate), workers)
        assert same(parts, shared([other.step() for _ in range(accumulate)], workers))


def test_each_batch_is_made_once_and_a_stream_that_was_set_back_gets_its_own(monkeypatch):
    one, maker, made = stream(), Ahead(), []
    monkeypatch.setattr(
        prefetch, "shared", lambda places, workers: made.append(places[0].seed) or shared(places, workers)
    )
    for _ in range(5):
        maker.parts([one.step()], one.following(1), ALONE)
    expected = stream()
    assert sorted(made[:5]) == sorted(expected.step().seed for _ in range(5))
    back = stream()
    assert same(maker.parts([back.step()], back.following(1), ALONE), [next(stream())])
