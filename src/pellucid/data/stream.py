"""The endless row of training batches; where it stands is three integers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from pellucid.data.batching import Batch, EncodedPairs, PackedSentences, collate, epoch_batches
from pellucid.data.corpus import SentencePairs, SkippedPairs
from pellucid.data.mixture import CorpusShare, count_by_corpus, epoch_pairs
from pellucid.data.tokenizer import Tokenizer


def encode_pairs(pairs: SentencePairs, tokenizer: Tokenizer, limit: int) -> tuple[EncodedPairs, SkippedPairs]:
    """The pairs as ids, without those that have more than `limit` pieces on a side, which are counted and named.

    Raises ValueError when no pair is left.
    """
    encoded, skipped = encode_pairs_or_none(pairs, tokenizer, limit)
    if not len(encoded):
        raise ValueError(f"no pair is left of {len(pairs):,}: {skipped}")
    return encoded, skipped


def encode_pairs_or_none(pairs: SentencePairs, tokenizer: Tokenizer, limit: int) -> tuple[EncodedPairs, SkippedPairs]:
    """The same for pairs of which none may be left."""
    rows, skipped = (tokenizer.encode_source(pairs.sources), tokenizer.encode_target(pairs.targets)), SkippedPairs()
    lengths = np.array([np.fromiter(map(len, side), dtype=np.int64) for side in rows])
    long = np.flatnonzero(lengths.max(axis=0) > limit).tolist()
    for i in long:
        side = "source" if lengths[0, i] > limit else "target"
        skipped.add(f"{side} of more than {limit:,} pieces", pairs.where(i, side))
    for i in reversed(long):
        del rows[0][i], rows[1][i]
    kinds = id_type(tokenizer.source_vocabulary), id_type(tokenizer.target_vocabulary)
    return EncodedPairs(pack_sentences(rows[0], kinds[0]), pack_sentences(rows[1], kinds[1])), skipped


def id_type(vocabulary: int) -> type[np.integer]:
    """What an id is stored as: two bytes for up to 65,536 pieces."""
    return np.uint16 if vocabulary <= 2**16 else np.int32


def pack_sentences(rows: Sequence[Sequence[int]], kind: type[np.integer]) -> PackedSentences:
    """Sentences of ids as one row."""
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)), out=starts[1:])
    return PackedSentences(np.fromiter(chain.from_iterable(rows), dtype=kind, count=int(starts[-1])), starts)


def concatenate_corpora(corpora: Sequence[EncodedPairs]) -> EncodedPairs:
    """Several corpora as one."""
    return EncodedPairs(
        _concatenate_sentences([each.sources for each in corpora]),
        _concatenate_sentences([each.targets for each in corpora]),
    )


def _concatenate_sentences(parts: Sequence[PackedSentences]) -> PackedSentences:
    starts = np.concatenate([[0], *(part.lengths for part in parts)]).cumsum()
    return PackedSentences(np.concatenate([part.ids for part in parts]), starts)


@dataclass(frozen=True)
class BatchSpec:
    """Which pairs of an epoch make a batch, and a number that belongs to its place: what is drawn for it follows."""

    corpus: EncodedPairs
    pairs: NDArray[np.integer]
    seed: int


class Stream(Iterator[Batch]):
    """Batches without end; `Stream(encoded, batch_tokens, *position)` goes on where another stood."""

    def __init__(self, encoded: EncodedPairs, batch_tokens: int, seed: int, epoch: int = 0, batch: int = 0) -> None:
        """Raises ValueError for no pairs, and for a position that this data does not have."""
        if not len(encoded):
            raise ValueError("there are no sentence pairs to make batches of")
        self.encoded, self.batch_tokens, self.seed, self.epoch, self.batch = encoded, batch_tokens, seed, epoch, batch
        self.corpora = encoded.corpora or (CorpusShare("all", len(encoded)),)
        assert sum(share.pairs for share in self.corpora) == len(encoded)
        self._order = self._start_epoch()
        if not 0 <= batch < len(self._order):
            raise ValueError(
                f"batch {batch} of epoch {epoch} does not exist: an epoch of this data has {len(self._order)} batches; "
                "resume with the same corpus, tokenizer and batch_tokens"
            )
        self._seen_this_epoch = sum(
            (count_by_corpus(self.corpora, pairs) for pairs in self._order[:batch]),
            np.zeros(len(self.corpora), dtype=np.int64),
        )

    @property
    def position(self) -> tuple[int, int, int]:
        """(seed, epoch, batch) of the batch that comes next: save it after the update, and nothing is seen twice."""
        return self.seed, self.epoch, self.batch

    @property
    def batches_per_epoch(self) -> int:
        """Of this epoch: where corpora have weights, another may have some more or less."""
        return len(self._order)

    @property
    def epochs(self) -> float:
        """How many are behind, the begun one by its batches."""
        return self.epoch + self.batch / len(self._order)

    @property
    def ledger(self) -> dict[str, int]:
        """How many pairs of each corpus have been seen since the first epoch; a function of the position."""
        now = self._seen_this_epoch.tolist()
        return {share.name: share.pairs_seen(self.epoch) + n for share, n in zip(self.corpora, now, strict=True)}

    @property
    def describe_ledger(self) -> str:
        """The ledger in words: 1,500 pairs of news (3.00 times 500), 300 pairs of web (0.50 times 600)."""
        pairs = zip(self.ledger.items(), self.corpora, strict=True)
        return ", ".join(
            f"{n:,} pairs of {name} ({n / share.pairs:.2f} times {share.pairs:,})" for (name, n), share in pairs
        )

    def __next__(self) -> Batch:
        place = self.advance()
        return collate(place.corpus, place.pairs, place.seed)

    def upcoming(self, batches: int) -> list[BatchSpec]:
        """What makes the next batches, if this epoch has so many; the stream stays where it is."""
        coming = self._order[self.batch : self.batch + batches]
        if len(coming) < batches:
            return []
        numbered = enumerate(coming, start=self.batch)
        return [
            BatchSpec(self._encoded_this_epoch, pairs, hash_to_seed(self.seed, self.epoch, number))
            for number, pairs in numbered
        ]

    def advance(self) -> BatchSpec:
        """What makes the next batch; the stream goes on behind it."""
        [place] = self.upcoming(1)
        self.batch += 1
        self._seen_this_epoch += count_by_corpus(self.corpora, place.pairs)
        if self.batch == len(self._order):
            self.epoch, self.batch = self.epoch + 1, 0
            self._order = []  # at millions of pairs, two orders at a time are too many
            self._order = self._start_epoch()
            self._seen_this_epoch[:] = 0
        return place

    def _start_epoch(self) -> list[NDArray[np.integer]]:
        self._encoded_this_epoch = self.encoded.for_epoch(self.seed, self.epoch)
        lengths = self._encoded_this_epoch.sources.lengths, self._encoded_this_epoch.targets.lengths
        pairs = epoch_pairs(self.corpora, self.seed, self.epoch)
        return epoch_batches(*lengths, self.batch_tokens, self.seed, self.epoch, pairs)


def hash_to_seed(*numbers: int) -> int:
    """A number of 63 bits that no two rows of numbers share, but by chance."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
