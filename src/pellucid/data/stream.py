"""The endless stream of training batches, whose position is three integers, or four where pairs are many."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pellucid.data.batching import (
    Batch,
    CorpusShare,
    EncodedPairs,
    PackedSentences,
    collate,
    cut_batches,
    id_type,
    pack_sentences,
    reverse_batch,
)
from pellucid.data.context import encode_with_context
from pellucid.data.corpus import SentencePairs, SkippedPairs
from pellucid.data.epoch_order import PAIRS_AS_A_WHOLE, EpochOrder, count_by_corpus
from pellucid.data.pair_noise import PairNoise
from pellucid.data.pair_similar import SimilarPairs
from pellucid.data.pair_terms import PairTerms
from pellucid.data.tokenizer import Tokenizer


def encode_pairs(
    pairs: SentencePairs, tokenizer: Tokenizer, limit: int
) -> tuple[EncodedPairs, SkippedPairs]:
    """Encode pairs, and skip, count and name those with more than `limit` tokens on a side.

    Raises ValueError when no pair is left.
    """
    encoded, skipped = encode_pairs_or_none(pairs, tokenizer, limit)
    if not len(encoded):
        raise ValueError(f"no pair is left of {len(pairs):,}: {skipped}")
    return encoded, skipped


def encode_pairs_or_none(
    pairs: SentencePairs, tokenizer: Tokenizer, limit: int
) -> tuple[EncodedPairs, SkippedPairs]:
    """Encode pairs as `encode_pairs` does, but return no pairs instead of raising ValueError if none is left."""
    skipped = SkippedPairs()
    rows = encode_with_context(tokenizer, pairs.sources), tokenizer.encode_target(pairs.targets)
    lengths = np.array([np.fromiter(map(len, side), dtype=np.int64) for side in rows])
    long = np.flatnonzero(lengths.max(axis=0) > limit).tolist()
    for i in long:
        side = "source" if lengths[0, i] > limit else "target"
        skipped.add(f"{side} of more than {limit:,} pieces", pairs.file_line(i, side))
    for i in reversed(long):  # from the end, so that the other indices stay right
        del rows[0][i], rows[1][i]
    dtypes = id_type(tokenizer.source_vocabulary), id_type(tokenizer.target_vocabulary)
    sources, targets = pack_sentences(rows[0], dtypes[0]), pack_sentences(rows[1], dtypes[1])
    return EncodedPairs(sources, targets), skipped


def concatenate_corpora(corpora: Sequence[EncodedPairs]) -> EncodedPairs:
    """Concatenate several corpora to one."""
    return EncodedPairs(
        _concatenate_sentences([corpus.sources for corpus in corpora]),
        _concatenate_sentences([corpus.targets for corpus in corpora]),
    )


def _concatenate_sentences(corpora: Sequence[PackedSentences]) -> PackedSentences:
    starts = np.concatenate([[0], *(corpus.lengths for corpus in corpora)]).cumsum()
    return PackedSentences(np.concatenate([corpus.ids for corpus in corpora]), starts)


# A batch with noise may take so many times its budget before it is cut into several.
_OVERFULL = 1.25


@dataclass(frozen=True)
class Stage:
    """Part of a run: which of its training pairs are shown, and how."""

    corpora: tuple[bool, ...] = ()  # whether each corpus is shown; empty: all are
    noisy: bool = False  # whether some pairs are shown with noise
    both_directions: bool = False  # whether half of the batches are translated backwards


@dataclass(frozen=True)
class BatchSpec:
    """The pairs that make a batch, before they are padded, and the seed that belongs to its position in the stream."""

    corpus: EncodedPairs
    pairs: NDArray[np.integer]
    seed: int
    batch_tokens: int
    noise: PairNoise | None = None
    noise_seed: int = 0
    backwards: bool = False  # whether the sources are to be predicted from their targets
    terms: PairTerms | None = None
    similar: SimilarPairs | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Two specs of one stream with the same key make the same batches."""
        return self.seed, self.backwards, self.noise is None

    def make_batches(self) -> list[Batch]:
        """Return the batch; with noise, which makes some pairs longer, perhaps several smaller ones."""
        corpus, batches, noise_seed = self.corpus, [self.pairs], self.noise_seed
        if self.noise is not None:
            corpus = self.noise.plant(corpus, self.pairs, noise_seed, self.backwards)
            batches = [np.arange(len(corpus))]

        if self.terms is not None:
            # After the noise, so that the terms of noisy sources are marked, too.
            corpus = self.terms.plant(corpus, batches[0], self.pairs, noise_seed, self.backwards)
            batches = [np.arange(len(corpus))]

        # What stands before a source would be a part of the target's text there.
        if self.similar is not None and not self.backwards:
            corpus = self.similar.plant(corpus, batches[0], self.pairs, noise_seed)
            batches = [np.arange(len(corpus))]

        # The batch was made by lengths that were only expected.
        is_planted = corpus is not self.corpus
        tokens = len(corpus) * int(corpus.targets.lengths.max()) if is_planted else 0
        if tokens > _OVERFULL * self.batch_tokens:
            batches = cut_batches(corpus.sources.lengths, corpus.targets.lengths, self.batch_tokens)
        made = []
        for number, rows in enumerate(batches):
            # Each has its own dropout; the seeds that follow directly belong to workers and threads.
            batch = collate(corpus, rows, self.seed + (number << 32))
            if is_planted:
                batch = replace(batch, indices=self.pairs[rows])
            made.append(reverse_batch(batch) if self.backwards else batch)
        return made


@dataclass(frozen=True)
class StageBeginning:
    """Where it last changed which pairs are shown, or whether with noise, which begins an epoch."""

    epoch: int
    pairs_seen: tuple[int, ...]  # of each corpus, before that epoch
    shown: tuple[bool, ...]  # whether each corpus is shown since then
    noisy: bool = False


class Stream(Iterator[Batch]):
    """Batches without end; `Stream(encoded, batch_tokens, *position)` continues where another stream was."""

    def __init__(
        self,
        encoded: EncodedPairs,
        batch_tokens: int,
        seed: int,
        epoch: int = 0,
        batch: int = 0,
        window: int = 0,
        *,
        began: StageBeginning | None = None,
        noise: PairNoise | None = None,
        terms: PairTerms | None = None,
        similar: SimilarPairs | None = None,
        whole: bool = False,
    ) -> None:
        """Go on in the stage that `began` at some epoch; `noise` is planted in the stages that are noisy, `terms` and
        `similar` pairs in all.

        An epoch of many pairs has several windows (`EpochOrder`), except if it is to be ordered as
        a `whole`: older versions did so, and a run keeps its order. Raises ValueError for no pairs,
        and for a position that this data does not have.
        """
        if not len(encoded):
            raise ValueError("there are no sentence pairs to make batches of")
        self.encoded, self.batch_tokens = encoded, batch_tokens
        self.seed, self.epoch, self.batch = seed, epoch, batch
        self.corpora = encoded.corpora or (CorpusShare("all", len(encoded)),)
        assert sum(share.pairs for share in self.corpora) == len(encoded)
        every = len(self.corpora)
        self.began = began or StageBeginning(0, (0,) * every, (True,) * every)
        self.noise, self.terms, self.similar = noise, terms, similar
        self.stage = Stage(self.began.shown, self.began.noisy)
        self.whole = whole or len(encoded) <= PAIRS_AS_A_WHOLE

        # Batches of the window as indices, a function of (seed, epoch, window), which is not saved.
        self.window = window
        self.epoch_order = self._order_epoch()
        where, windows = f"epoch {epoch}", self.epoch_order.windows
        if not 0 <= window < windows:
            raise ValueError(
                f"window {window} of {where} does not exist: an epoch of this data has {windows} windows; "
                "resume with the same corpus"
            )
        self.order = self._order_window()
        if not 0 <= batch < len(self.order):
            what = "an epoch" if windows == 1 else f"window {window}"
            raise ValueError(
                f"batch {batch} of {where} does not exist: {what} of this data has {len(self.order)} batches; "
                "resume with the same corpus, tokenizer and batch_tokens"
            )
        self._seen_this_epoch = sum(
            (count_by_corpus(self.corpora, pairs) for pairs in self.order[:batch]),
            self.epoch_order.count_before(window),
        )

    @property
    def position(self) -> tuple[int, ...]:
        """The (seed, epoch, batch) of the next batch, and its window where an epoch has several.

        Saved after an update, it lets a run resume without repeating.
        """
        position = self.seed, self.epoch, self.batch
        return position if self.whole else (*position, self.window)

    def enter(self, stage: Stage) -> None:
        """Go on as this stage of the run says; where its pairs are others than before, a new epoch begins."""
        self.stage = stage
        shown = stage.corpora or (True,) * len(self.corpora)
        if (shown, stage.noisy) == (self.began.shown, self.began.noisy):
            return
        seen = tuple(self.ledger.values())
        # Always another epoch, so that no seed comes twice; only a run begins with 0.
        self.epoch += any(seen)
        self.began = StageBeginning(self.epoch, seen, shown, stage.noisy)
        self._start_epoch()

    @property
    def epochs(self) -> float:
        """The number of epochs completed, with the current one as a fraction."""
        windows = self.window + self.batch / len(self.order)
        return self.epoch + windows / self.epoch_order.windows

    @property
    def ledger(self) -> dict[str, int]:
        """The number of pairs of each corpus seen since the first epoch, a function of the position."""
        # Whole epochs by formula, the current one by counting: a resumed stream counts the same.
        began, seen = self.began, {}
        for number, share in enumerate(self.corpora):
            seen[share.name] = began.pairs_seen[number] + int(self._seen_this_epoch[number])
            if began.shown[number]:
                seen[share.name] += share.pairs_seen(self.epoch) - share.pairs_seen(began.epoch)
        return seen

    @property
    def describe_ledger(self) -> str:
        """The ledger in words: the 500 pairs of news 3.0 times, and 300 of the 600 pairs of web, none twice."""
        parts = []
        for (name, seen), share in zip(self.ledger.items(), self.corpora, strict=True):
            if seen < share.pairs:
                parts.append(f"{seen:,} of the {share.pairs:,} pairs of {name}")
            else:
                parts.append(f"the {share.pairs:,} pairs of {name} {seen / share.pairs:.1f} times")
        return ", and ".join(parts)

    def __next__(self) -> Batch:
        spec = self.advance()
        return collate(spec.corpus, spec.pairs, spec.seed)

    def upcoming(self, batches: int) -> list[BatchSpec]:
        """Return the specs of the next batches without advancing, or an empty list if this window has fewer."""
        coming = self.order[self.batch : self.batch + batches]
        if len(coming) < batches:
            return []
        # A seed by position, not drawn one after the other: a resumed run gives a batch the same.
        specs, noise = [], self.noise if self.stage.noisy else None
        for number, pairs in enumerate(coming, start=self.batch):
            window = () if self.whole else (self.window,)
            seed = _hash_to_seed(self.seed, self.epoch, number, *window)
            # By the seed, which follows from the position: a resumed run, and every worker,
            # reverses the same ones.
            backwards = self.stage.both_directions and seed % 2 == 1
            planted = noise, self._epoch_seed, backwards, self.terms, self.similar
            specs.append(BatchSpec(self.encoded, pairs, seed, self.batch_tokens, *planted))
        return specs

    def advance(self) -> BatchSpec:
        """Return the spec of the next batch, and advance the stream behind it."""
        # There is always one: behind a window's last batch, the next window or epoch has begun.
        [spec] = self.upcoming(1)
        self.batch += 1
        self._seen_this_epoch += count_by_corpus(self.corpora, spec.pairs)
        if self.batch == len(self.order):
            self.batch, self.window = 0, self.window + 1
            self.order = []  # at millions of pairs, two orders at a time are too many
            if self.window == self.epoch_order.windows:
                self.epoch += 1
                self._start_epoch()
            else:
                self.order = self._order_window()
        return spec

    @property
    def _epoch_seed(self) -> int:
        return _hash_to_seed(self.seed, self.epoch)

    @cached_property
    def _noise_ratios(self) -> NDArray[np.float64]:
        assert self.noise is not None
        return self.noise.measure_ratios(self.encoded)

    def _start_epoch(self) -> None:
        """Go to the first batch of this epoch."""
        self.batch = self.window = 0
        self.epoch_order = self._order_epoch()
        self.order = self._order_window()
        self._seen_this_epoch[:] = 0

    def list_windows(self) -> Iterator[list[NDArray[np.integer]]]:
        """Yield the batches of each window of this epoch, for a look at them."""
        for window in range(self.epoch_order.windows):
            yield self.epoch_order.make_batches(window, self._expect_lengths, self.batch_tokens)

    def _order_epoch(self) -> EpochOrder:
        return EpochOrder(self.corpora, self.seed, self.epoch, self.began.shown, self.whole)

    def _order_window(self) -> list[NDArray[np.integer]]:
        return self.epoch_order.make_batches(self.window, self._expect_lengths, self.batch_tokens)

    def _expect_lengths(
        self, pairs: NDArray[np.integer]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return about how many tokens the sides of these pairs have when they are shown."""
        if self.noise is not None and self.stage.noisy:
            lengths = self.noise.expect_lengths(
                self.encoded, pairs, self._noise_ratios, self._epoch_seed
            )
        else:
            lengths = self.encoded.sources.lengths_of(pairs), self.encoded.targets.lengths_of(pairs)
        for planter in (self.terms, self.similar):
            if planter is not None:
                lengths = planter.expect_lengths(lengths[0], pairs, self._epoch_seed), lengths[1]
        return lengths


def _hash_to_seed(*numbers: int) -> int:
    """Hash integers to a seed of 63 bits, which differs for different integers except by chance."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
