"""The pairs of a run: read or mapped, held out where no dev set is named, as ids."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from random import Random

from pellucid.data.batching import Encoded
from pellucid.data.corpus import Pairs, Skipped, fingerprint, read_pairs
from pellucid.data.mixture import Share
from pellucid.data.stream import encode_pairs, one_after_another
from pellucid.data.tokenizer import Tokenizer
from pellucid.train.config import DataConfig, RunConfig

TOKENIZER_SENTENCES = 1_000_000
"""Lines of each side that the vocabulary is learned from, at most."""


@dataclass(frozen=True)
class Data:
    """What a run trains on and measures with, ready for both."""

    tokenizer: Tokenizer
    encoded: Encoded
    dev: Pairs
    fingerprint: str
    """SHA-256 of the training text: a run resumes only on the same."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs to train on, corpus by corpus, pairs to measure with, and what a user should know about both."""

    train: tuple[Pairs, ...]
    dev: Pairs
    notes: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the training text."""
        return combined([fingerprint(each) for each in self.train])


def read_corpus(data: DataConfig, seed: int) -> Corpus:
    """The training pairs and the dev pairs; without a dev set, some of the first corpus drawn by `seed` become one."""
    train = [read_pairs(*each.files, max_characters=data.max_characters) for each in data.corpora]
    notes = [left_out(each.skipped) for each in train if each.skipped]
    named = read_dev(data)
    if named is None:
        train[0], dev = held_out(train[0], data.held_out, seed)
        train[1:] = [without(each, Sentences.of(dev), "the dev pairs") for each in train[1:]]
        notes.append(taken_out(dev))
    else:
        dev, more = named
        notes += more
    return Corpus(tuple(train), dev, tuple(notes))


def read_dev(data: DataConfig) -> tuple[Pairs, tuple[str, ...]] | None:
    """The dev pairs, if a dev set is named, and a note on those that are left out."""
    source = data.dev_source or data.dev
    if source is None:
        return None
    dev = read_pairs(source, data.dev_target, max_characters=data.max_characters)
    return dev, (f"left out of the dev data: {dev.skipped}",) if dev.skipped else ()


def left_out(skipped: Skipped) -> str:
    """The note on pairs that were not read."""
    return f"left out of the training data: {skipped}"


def taken_out(dev: Pairs) -> str:
    """The note on pairs that were taken out of training."""
    return f"no dev set named: {len(dev):,} pairs are held out of training to measure progress"


def combined(fingerprints: Sequence[str]) -> str:
    """One number for all corpora; that of a single one is its own."""
    return fingerprints[0] if len(fingerprints) == 1 else hashlib.sha256(" ".join(fingerprints).encode()).hexdigest()


@dataclass(frozen=True)
class Sentences:
    """The sentences of held-out pairs; training sees none of them."""

    sources: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pairs: Pairs) -> "Sentences":
        return cls(frozenset(pairs.sources), frozenset(pairs.targets))

    def shares(self, source: str, target: str) -> bool:
        """Whether a pair has one of them."""
        return source in self.sources or target in self.targets


def drawn(pairs: int, most: int, seed: int) -> list[int]:
    """Which of so many pairs are held out: a tenth of them, at most `most`."""
    if pairs < 20:
        raise ValueError(f"{pairs} pairs are too few to hold some out; name dev_source and dev_target")
    return Random(seed).sample(range(pairs), min(most, pairs // 10))


def held_out(pairs: Pairs, most: int, seed: int) -> tuple[Pairs, Pairs]:
    """The pairs without, and those with, a sentence of at most `most` drawn pairs: no sentence is on both sides."""
    dev = chosen(pairs, drawn(len(pairs), most, seed))
    return without(pairs, Sentences.of(dev), "another"), dev


def without(pairs: Pairs, held: Sentences, whom: str) -> Pairs:
    """The pairs that share no sentence with those held out; ValueError if all do."""
    both = zip(pairs.sources, pairs.targets, strict=True)
    rest = [i for i, (source, target) in enumerate(both) if not held.shares(source, target)]
    if not rest:
        raise ValueError(nothing_left(whom))
    return chosen(pairs, rest)


def nothing_left(whom: str) -> str:
    """Why a corpus that is all held out is refused."""
    return f"every pair shares a sentence with {whom}; name dev_source and dev_target"


def chosen(pairs: Pairs, indices: list[int]) -> Pairs:
    """Some of the pairs, which keep their line numbers."""
    return Pairs(
        [pairs.sources[i] for i in indices],
        [pairs.targets[i] for i in indices],
        [pairs.lines[i] for i in indices],
        pairs.files,
        Skipped(),
    )


def learn_tokenizer(corpus: Corpus, run: RunConfig) -> Tokenizer:
    """The vocabulary of the training text."""
    sources = chain.from_iterable(each.sources for each in corpus.train)
    targets = chain.from_iterable(each.targets for each in corpus.train)
    return learn(sources, targets, run)


def learn(sources: Iterable[str], targets: Iterable[str], run: RunConfig) -> Tokenizer:
    """The vocabulary of these sentences, or of some of them if they are many."""
    return Tokenizer.train(sources, targets, run.tokenizer, seed=run.seed, max_sentences=TOKENIZER_SENTENCES)


def encode(pairs: Pairs, tokenizer: Tokenizer, run: RunConfig) -> tuple[Encoded, tuple[str, ...]]:
    """The pairs as ids, and a note on those with too many pieces."""
    encoded, skipped = encode_pairs(pairs, tokenizer, run.data.max_pieces)
    return encoded, (too_long(skipped),) if skipped else ()


def too_long(skipped: Skipped) -> str:
    """The note on pairs with too many pieces."""
    return f"left out: {skipped}"


def encode_all(corpora: Sequence[Pairs], tokenizer: Tokenizer, run: RunConfig) -> tuple[Encoded, tuple[str, ...]]:
    """All corpora, one after the other."""
    encoded, notes = zip(*(encode(each, tokenizer, run) for each in corpora), strict=True)
    whole = encoded[0] if len(encoded) == 1 else one_after_another(encoded)
    return shared(whole, [len(each) for each in encoded], run.data), tuple(chain(*notes))


def shared(encoded: Encoded, counts: Sequence[int], data: DataConfig) -> Encoded:
    """The same pairs, with how many belong to each corpus and how much they count."""
    corpora = zip(data.corpora, counts, strict=True)
    return replace(encoded, shares=tuple(Share(each.called, count, each.weight) for each, count in corpora))
