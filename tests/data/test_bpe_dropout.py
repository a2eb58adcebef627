"""BPE dropout: other pieces of the same text, a function of the seed and the epoch."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from pellucid.data.batching import EncodedPairs, PackedSentences
from pellucid.data.bpe_dropout import with_bpe_dropout
from pellucid.data.corpus import SentencePairs
from pellucid.data.stream import Stream, encode_pairs
from pellucid.data.tokenizer import EOS, Tokenizer, TokenizerConfig

WORDS = ("north", "northern", "wind", "windmill", "turning", "returning", "Straße", "10", "▁", "日")
SOURCES = [" ".join(WORDS[(i * j) % 10] for j in range(1, 2 + i % 7)) for i in range(83)]
TARGETS = [" ".join(reversed(line.split())) for line in SOURCES]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(SOURCES, TARGETS, TokenizerConfig(vocabulary=340), seed=1, max_sentences=100)


@pytest.fixture(scope="module")
def encoded(tokenizer: Tokenizer) -> EncodedPairs:
    return encode_pairs(SentencePairs.from_lists(SOURCES, TARGETS), tokenizer, limit=97)[0]


def rows(side: PackedSentences) -> list[list[int]]:
    return [side[i].tolist() for i in range(len(side))]


def test_pieces_change_and_the_text_stays(tokenizer: Tokenizer, encoded: EncodedPairs):
    resampled = with_bpe_dropout(encoded, tokenizer, 0.3, limit=97).for_epoch(seed=1, epoch=0)
    assert [tokenizer.decode_source(row) for row in rows(resampled.sources)] == SOURCES
    assert [tokenizer.decode_target(row) for row in rows(resampled.targets)] == TARGETS
    assert all(row[-1] == EOS for row in rows(resampled.sources) + rows(resampled.targets))
    assert len(resampled.sources.ids) > 1.2 * len(encoded.sources.ids)


def test_an_epoch_is_a_function_of_the_seed_and_its_number(tokenizer: Tokenizer, encoded: EncodedPairs):
    def encode_epoch(seed: int, number: int) -> Sequence[list[int]]:
        return rows(with_bpe_dropout(encoded, tokenizer, 0.2, limit=97).for_epoch(seed, number).sources)

    first = encode_epoch(1, 0)
    assert encode_epoch(1, 1) != first != encode_epoch(2, 0)
    assert encode_epoch(1, 0) == first, "whatever was drawn in between"


def test_each_merge_is_left_out_at_the_rate_asked_for(tokenizer: Tokenizer):
    """ "th" takes one merge: its two letters stay apart as often as the rate says."""
    text, ids = "th", tokenizer.encode_source(["th"])[0]
    assert len(ids) <= 3, "a piece of its own, with or without the mark before it"
    undropped = tokenizer.encode_source([text] * 20_000, dropout=0.0, seed=1)
    assert all(row == ids for row in undropped)
    cut_shares = [
        np.mean([row != ids for row in tokenizer.encode_source([text] * 20_000, dropout=rate, seed=1)])
        for rate in (0.1, 0.5)
    ]
    merges = {2: 2, 3: 1}[len(ids)]
    assert cut_shares == pytest.approx([1 - 0.9**merges, 1 - 0.5**merges], abs=0.02)


def test_a_sentence_that_would_grow_too_long_stays_as_it_is(tokenizer: Tokenizer, encoded: EncodedPairs):
    limit = int(encoded.sources.lengths.max())
    resampled = with_bpe_dropout(encoded, tokenizer, 0.5, limit).for_epoch(seed=1, epoch=0)
    pairs = list(zip(rows(encoded.sources), rows(resampled.sources), strict=True))
    assert max(len(new) for _, new in pairs) <= limit
    assert {old == new for old, new in pairs} == {True, False}


def test_a_stream_encodes_each_epoch_anew_and_goes_on_from_any_position(tokenizer: Tokenizer, encoded: EncodedPairs):
    dropped = with_bpe_dropout(encoded, tokenizer, 0.2, limit=97)
    stream, batches = Stream(dropped, 257, seed=3), []
    for _ in range(3 * stream.batches_per_epoch):
        position = stream.position
        batch = next(stream)
        batches.append((position, batch.source.tolist(), batch.target_out.tolist(), batch.indices.tolist()))
    for position, source, target, indices in batches:
        resumed = next(Stream(dropped, 257, *position))
        assert (resumed.source.tolist(), resumed.target_out.tolist(), resumed.indices.tolist()) == (
            source,
            target,
            indices,
        )
    epochs = [list(group) for _, group in itertools.groupby(batches, key=lambda row: row[0][1])]
    for epoch in epochs[:2]:
        assert sorted(i for *_, indices in epoch for i in indices) == list(range(83))
    assert [row[1] for row in epochs[0]] != [row[1] for row in epochs[1]]
