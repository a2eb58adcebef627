"""Laws of the stream: it never ends, and where it stands is three integers."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data.batching import CorpusShare, EncodedPairs, id_type, pack_sentences
from pellucid.data.corpus import SentencePairs
from pellucid.data.stream import Stream, concatenate_corpora, encode_pairs
from pellucid.data.tokenizer import EOS, Tokenizer, TokenizerConfig

law = settings(derandomize=True, deadline=None, max_examples=50)

SOURCES = [f"{'go ' * (i % 5)}north {i}" for i in range(31)]
TARGETS = [f"{'ve ' * (i % 7)}al norte {i}" for i in range(31)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(SOURCES, TARGETS, TokenizerConfig(vocabulary=300), seed=1, max_sentences=100)


@pytest.fixture(scope="module")
def encoded(tokenizer: Tokenizer) -> EncodedPairs:
    encoded, _ = encode_pairs(SentencePairs.from_lists(SOURCES, TARGETS), tokenizer, limit=97)
    return encoded


def test_pairs_become_their_ids(tokenizer: Tokenizer, encoded: EncodedPairs):
    assert len(encoded) == len(encoded.targets) == 31
    for i in (0, 7, 30):
        assert encoded.sources[i].tolist() == tokenizer.encode_source([SOURCES[i]])[0]
        assert tokenizer.decode_target(encoded.targets[i]) == TARGETS[i]
        assert encoded.targets[i][-1] == EOS
    assert encoded.sources.lengths.sum() == len(encoded.sources.ids)


def test_pairs_with_too_many_pieces_are_counted_and_named(tokenizer: Tokenizer):
    pairs = SentencePairs.from_lists(["a", "b c d e f g h i j", "b", "c"], ["a", "b", "c", "b c d e f g h i j"])
    encoded, skipped = encode_pairs(pairs, tokenizer, limit=11)
    assert len(encoded) == 2
    assert skipped.examples == ["pair:2 source of more than 11 pieces", "pair:4 target of more than 11 pieces"]
    with pytest.raises(ValueError, match="no pair is left of 4: 4 pairs skipped"):
        encode_pairs(pairs, tokenizer, limit=1)


@law
@given(seed=st.integers(0, 5), budget=st.integers(1, 97), batches=st.integers(0, 79))
def test_a_stream_goes_on_where_another_stood(encoded: EncodedPairs, seed: int, budget: int, batches: int):
    stream = Stream(encoded, budget, seed)
    for _ in range(batches):
        next(stream)
    resumed = Stream(encoded, budget, *stream.position)
    for batch, resumed_batch in itertools.islice(zip(stream, resumed, strict=False), 41):
        assert batch.indices.tolist() == resumed_batch.indices.tolist()
        assert batch.source.equal(resumed_batch.source)
        assert batch.target_in.equal(resumed_batch.target_in)
        assert batch.target_out.equal(resumed_batch.target_out)
    assert stream.position == resumed.position


def test_every_epoch_has_every_pair_once(encoded: EncodedPairs):
    stream = Stream(encoded, 61, seed=2)
    for epoch in range(3):
        assert stream.position == (2, epoch, 0)
        indices = np.concatenate([next(stream).indices for _ in range(len(stream.order))])
        assert sorted(indices) == list(range(31))


def test_a_position_the_data_does_not_have_is_refused(encoded: EncodedPairs):
    count = len(Stream(encoded, 61, seed=1).order)
    with pytest.raises(ValueError, match=f"batch {count} of epoch 3 does not exist: an epoch of this data has {count}"):
        Stream(encoded, 61, 1, 3, count)


MIXTURES = [((23, 1.0), (8, 0.5)), ((23, 0.3), (8, 2.0)), ((31, 1.5),), ((11, 1.0), (13, 0.7), (7, 3.0))]


@pytest.fixture(params=MIXTURES, ids=str)
def mixed(request: pytest.FixtureRequest, encoded: EncodedPairs) -> EncodedPairs:
    return replace(
        encoded,
        corpora=tuple(CorpusShare(f"c{i}", *size_and_weight) for i, size_and_weight in enumerate(request.param)),
    )


@pytest.fixture(params=["a whole", "windows"])
def order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How an epoch is ordered; in windows of at most ten pairs, so that small streams have several."""
    if request.param == "windows":
        monkeypatch.setattr("pellucid.data.stream.PAIRS_AS_A_WHOLE", 0)
        monkeypatch.setattr("pellucid.data.epoch_order.PAIRS_PER_BLOCK", 2)
        monkeypatch.setattr("pellucid.data.epoch_order.BLOCKS_PER_WINDOW", 5)
    return request.param


@pytest.mark.parametrize("sorted_at_once", [5, 2**22])
def test_a_mixed_stream_goes_on_from_any_position(
    mixed: EncodedPairs, sorted_at_once: int, order: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pellucid.data.batching.SORTED_AT_ONCE", sorted_at_once)
    stream, positions, batches = Stream(mixed, 61, seed=3), [], []
    for _ in range(41):
        positions.append(stream.position)
        batches.append(next(stream))
    for i, position in enumerate(positions):
        resumed = Stream(mixed, 61, *position)
        for expected in batches[i : i + 7]:
            batch = next(resumed)
            assert batch.indices.tolist() == expected.indices.tolist()
            assert batch.target_out.equal(expected.target_out)


def test_the_ledger_of_a_stream_is_what_counting_gives(mixed: EncodedPairs, order: str):
    ends = np.cumsum([share.pairs for share in mixed.corpora])
    stream, counts = Stream(mixed, 61, seed=3), Counter({share.name: 0 for share in mixed.corpora})
    for _ in range(97):
        assert stream.ledger == dict(counts)
        assert Stream(mixed, 61, *stream.position).ledger == dict(counts)
        for i in next(stream).indices:
            counts[mixed.corpora[int((i >= ends).sum())].name] += 1
    assert stream.epoch >= 3


def test_the_ledger_reads_as_a_sentence(encoded: EncodedPairs):
    stream = Stream(replace(encoded, corpora=(CorpusShare("news", 21), CorpusShare("web", 10, 0.5))), 61, 1, 3)
    assert stream.describe_ledger == "the 21 pairs of news 3.0 times, and the 10 pairs of web 1.5 times"


def test_a_corpus_of_weight_one_is_streamed_as_if_it_had_none(encoded: EncodedPairs):
    plain, weighed = Stream(encoded, 61, 5), Stream(replace(encoded, corpora=(CorpusShare("all", 31, 1.0),)), 61, 5)
    for plain_batch, weighed_batch in itertools.islice(zip(plain, weighed, strict=False), 40):
        assert plain_batch.indices.tolist() == weighed_batch.indices.tolist()


def test_ids_take_two_bytes_where_the_vocabulary_allows(encoded: EncodedPairs):
    assert encoded.sources.ids.dtype == encoded.targets.ids.dtype == np.uint16
    assert (id_type(65_536), id_type(65_537)) == (np.uint16, np.int32)
    large = pack_sentences([[65_536, 3], [3]], id_type(65_537))
    assert large.pad_rows(np.array([0, 1])).tolist() == [[65_536, 3], [3, 0]]


def test_corpora_one_after_another_keep_their_pairs(encoded: EncodedPairs):
    doubled = concatenate_corpora([encoded, encoded])
    assert len(doubled) == 62
    for i in range(31):
        assert doubled.sources[i].tolist() == doubled.sources[i + 31].tolist() == encoded.sources[i].tolist()
        assert doubled.targets[i].tolist() == doubled.targets[i + 31].tolist() == encoded.targets[i].tolist()
