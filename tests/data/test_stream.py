"""Laws of the stream: it never ends, and where it stands is three integers."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.batching import Encoded
from pellucid.data.corpus import Pairs
from pellucid.data.stream import Stream, encode_pairs
from pellucid.data.tokenizer import EOS, Tokenizer, TokenizerConfig

law = settings(derandomize=True, deadline=None, max_examples=50)

SOURCES = [f"{'go ' * (i % 5)}north {i}" for i in range(31)]
TARGETS = [f"{'ve ' * (i % 7)}al norte {i}" for i in range(31)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(SOURCES, TARGETS, TokenizerConfig(vocabulary=300), seed=1, max_sentences=100)


@pytest.fixture(scope="module")
def encoded(tokenizer: Tokenizer) -> Encoded:
    encoded, _ = encode_pairs(Pairs.of(SOURCES, TARGETS), tokenizer, limit=97)
    return encoded


def test_pairs_become_their_ids(tokenizer: Tokenizer, encoded: Encoded):
    assert len(encoded) == len(encoded.targets) == 31
    for i in (0, 7, 30):
        assert encoded.sources[i].tolist() == tokenizer.encode_source([SOURCES[i]])[0]
        assert tokenizer.decode_target(encoded.targets[i]) == TARGETS[i]
        assert encoded.targets[i][-1] == EOS
    assert encoded.sources.lengths.sum() == len(encoded.sources.ids)


def test_pairs_with_too_many_pieces_are_counted_and_named(tokenizer: Tokenizer):
    pairs = Pairs.of(["a", "b c d e f g h i j", "b", "c"], ["a", "b", "c", "b c d e f g h i j"])
    encoded, skipped = encode_pairs(pairs, tokenizer, limit=11)
    assert len(encoded) == 2
    assert skipped.examples == ["pair:2 source of more than 11 pieces", "pair:4 target of more than 11 pieces"]
    with pytest.raises(ValueError, match="no pair is left of 4: 4 pairs skipped"):
        encode_pairs(pairs, tokenizer, limit=1)


@law
@given(seed=st.integers(0, 5), budget=st.integers(1, 97), batches=st.integers(0, 79))
def test_a_stream_goes_on_where_another_stood(encoded: Encoded, seed: int, budget: int, batches: int):
    stream = Stream(encoded, budget, seed)
    for _ in range(batches):
        next(stream)
    resumed = Stream(encoded, budget, *stream.position)
    for ahead, again in itertools.islice(zip(stream, resumed, strict=False), 41):
        assert ahead.indices.tolist() == again.indices.tolist()
        assert ahead.source.equal(again.source)
        assert ahead.target_in.equal(again.target_in)
        assert ahead.target_out.equal(again.target_out)
    assert stream.position == resumed.position


def test_every_epoch_has_every_pair_once(encoded: Encoded):
    stream = Stream(encoded, 61, seed=2)
    for epoch in range(3):
        assert stream.position == (2, epoch, 0)
        seen = np.concatenate([next(stream).indices for _ in range(stream.batches_per_epoch)])
        assert sorted(seen) == list(range(31))


def test_a_position_the_data_does_not_have_is_refused(encoded: Encoded):
    count = Stream(encoded, 61, seed=1).batches_per_epoch
    with pytest.raises(ValueError, match=f"batch {count} of epoch 3 does not exist: an epoch of this data has {count}"):
        Stream(encoded, 61, 1, 3, count)
