"""The pairs of a run: read or mapped, held out where no dev set is named, as ids."""

import hashlib
from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from random import Random
from typing import Any

from pellucid.data.batching import Encoded
from pellucid.data.corpus import Pairs, Skipped, fingerprint, read_pairs
from pellucid.data.mixture import Share
from pellucid.data.stream import encode_pairs, one_after_another
from pellucid.data.tokenizer import Tokenizer
from pellucid.train.config import DataConfig, RunConfig

TOKENIZER_SENTENCES = 1_000_000
"""Lines of each side that the vocabulary is learned from, at most."""

SHARED = "a sentence of a held-out pair"
"""Why a pair is left out that is not held out itself: to be tested on it would reward memory."""


@dataclass(frozen=True)
class Account:
    """What became of every pair of a corpus that was read: it is trained on, held out, or left out for a reason."""

    corpus: str
    trained_on: int
    held_out: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def read(self) -> int:
        return self.trained_on + self.held_out + sum(self.left_out.values())

    def row(self) -> dict[str, Any]:
        return {"read": self.read, **asdict(self)}


@dataclass(frozen=True)
class Data:
    """What a run trains on and measures with, ready for both."""

    tokenizer: Tokenizer
    encoded: Encoded
    dev: Pairs
    fingerprint: str
    """SHA-256 of the training text: a run resumes only on the same."""
    notes: tuple[str, ...]
    accounts: tuple[Account, ...] = ()
    """One for each corpus; a stand-in has none."""


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs to train on, corpus by corpus, pairs to measure with, and what a user should know about both."""

    train: tuple[Pairs, ...]
    dev: Pairs
    notes: tuple[str, ...]
    held_out: int
    """How many of the dev pairs were taken from the first corpus."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the training text."""
        return combined([fingerprint(each) for each in self.train])


def read_corpus(data: DataConfig, seed: int) -> Corpus:
    """The training pairs and the dev pairs; without a dev set, some of the first corpus drawn by `seed` become one."""
    train = [read_pairs(*each.files, max_characters=data.max_characters) for each in data.corpora]
    named = read_dev(data)
    if named is None:
        train[0], dev = held_out(train[0], data.held_out, seed)
        held = Sentences.of(dev)
        train[1:] = [without(each, held) for each in train[1:]]
        notes = (taken_out(len(dev)),)
    else:
        dev, notes = named
    notes = (*(left_out(each.skipped) for each in train if each.skipped), *notes)
    return Corpus(tuple(train), dev, notes, held_out=len(dev) if named is None else 0)


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


def taken_out(drawn: int) -> str:
    """The note on pairs that were taken out of training."""
    return (
        f"no dev set named: {drawn:,} pairs are held out of training to measure progress, and pairs with a sentence of "
        "theirs are left out (dev_source and dev_target name others, data.held_out fewer)"
    )


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

    def leave(
        self, rows: Iterable[tuple[int, str, str]], file: str, skipped: Skipped, held_out: Container[int] = ()
    ) -> Iterator[tuple[int, str, str]]:
        """The rows (line, source, target) of a file that have none of them.

        The others are counted in `skipped`, but for the lines that are `held_out` themselves. Raises ValueError, at
        the end, if no row is left.
        """
        left = 0
        for line, source, target in rows:
            if source not in self.sources and target not in self.targets:
                left += 1
                yield line, source, target
            elif line not in held_out:
                skipped.add(SHARED, f"{file}:{line}")
        if not left:
            whom = "another" if held_out else "the dev pairs"
            raise ValueError(f"every pair shares a sentence with {whom}; name dev_source and dev_target")


def drawn(pairs: int, most: int, seed: int) -> list[int]:
    """Which of so many pairs are held out: a tenth of them, at most `most`."""
    if pairs < 20:
        raise ValueError(f"{pairs} pairs are too few to hold some out; name dev_source and dev_target")
    return Random(seed).sample(range(pairs), min(most, pairs // 10))


def held_out(pairs: Pairs, most: int, seed: int) -> tuple[Pairs, Pairs]:
    """The pairs without, and those with, a sentence of at most `most` drawn pairs: no sentence is on both sides."""
    indices = drawn(len(pairs), most, seed)
    sources, targets = [pairs.sources[i] for i in indices], [pairs.targets[i] for i in indices]
    dev = Pairs(sources, targets, [pairs.lines[i] for i in indices], pairs.files, Skipped())
    return without(pairs, Sentences.of(dev), frozenset(dev.lines)), dev


def without(pairs: Pairs, held: Sentences, held_out: Container[int] = ()) -> Pairs:
    """The pairs that share no sentence with those held out; the others are counted among those skipped."""
    skipped = Skipped()
    skipped.merge(pairs.skipped)
    sources, targets, lines = [], [], array("q")
    rows = zip(pairs.lines, pairs.sources, pairs.targets, strict=True)
    for line, source, target in held.leave(rows, pairs.files[0], skipped, held_out):
        lines.append(line)
        sources.append(source)
        targets.append(target)
    return Pairs(sources, targets, lines, pairs.files, skipped)


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


def encode_all(
    corpus: Corpus, tokenizer: Tokenizer, run: RunConfig
) -> tuple[Encoded, tuple[str, ...], tuple[Account, ...]]:
    """All training pairs, one corpus after the other, the notes on those with too many pieces, and the accounts."""
    encoded, notes, accounts = [], [], []
    for settings, pairs in zip(run.data.corpora, corpus.train, strict=True):
        some, skipped = encode_pairs(pairs, tokenizer, run.data.max_pieces)
        encoded.append(some)
        notes += [too_long(skipped)] if skipped else []
        held_out = 0 if accounts else corpus.held_out
        accounts.append(Account(settings.called, len(some), held_out, dict(pairs.skipped.counts + skipped.counts)))
    whole = encoded[0] if len(encoded) == 1 else one_after_another(encoded)
    return shared(whole, [len(each) for each in encoded], run.data), tuple(notes), tuple(accounts)


def shared(encoded: Encoded, counts: Sequence[int], data: DataConfig) -> Encoded:
    """The same pairs, with how many belong to each corpus and how much they count."""
    corpora = zip(data.corpora, counts, strict=True)
    return replace(encoded, shares=tuple(Share(each.called, count, each.weight) for each, count in corpora))
