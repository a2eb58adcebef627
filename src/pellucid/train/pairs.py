"""The pairs of a run: read or mapped, held out where no dev set is named, as ids."""

import hashlib
from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from random import Random
from typing import Any

from pellucid.data.batching import EncodedPairs
from pellucid.data.corpus import SentencePairs, SkippedPairs, fingerprint_pairs, read_pairs
from pellucid.data.mixture import CorpusShare
from pellucid.data.stream import concatenate_corpora, encode_pairs
from pellucid.data.tokenizer import Tokenizer
from pellucid.train.config import DataConfig, RunConfig

TOKENIZER_SENTENCES = 1_000_000
"""Lines of each side that the vocabulary is learned from, at most."""

SHARED_SENTENCE = "a sentence of a held-out pair"
"""Why a pair is left out that is not held out itself: to be tested on it would reward memory."""


@dataclass(frozen=True)
class CorpusAccount:
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
class TrainingData:
    """What a run trains on and measures with, ready for both."""

    tokenizer: Tokenizer
    encoded: EncodedPairs
    dev: SentencePairs
    fingerprint: str
    """SHA-256 of the training text: a run resumes only on the same."""
    notes: tuple[str, ...]
    accounts: tuple[CorpusAccount, ...] = ()
    """One for each corpus; a stand-in has none."""


@dataclass(frozen=True)
class TextCorpus:
    """Sentence pairs to train on, corpus by corpus, pairs to measure with, and what a user should know about both."""

    train: tuple[SentencePairs, ...]
    dev: SentencePairs
    notes: tuple[str, ...]
    held_out: int
    """How many of the dev pairs were taken from the first corpus."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the training text."""
        return combine_fingerprints([fingerprint_pairs(each) for each in self.train])


def read_corpus(data: DataConfig, seed: int) -> TextCorpus:
    """The training pairs and the dev pairs; without a dev set, some of the first corpus drawn by `seed` become one."""
    train = [read_pairs(*each.files, max_characters=data.max_characters) for each in data.corpora]
    named = read_dev_pairs(data)
    if named is None:
        train[0], dev = split_held_out(train[0], data.held_out, seed)
        held = HeldOutSentences.from_pairs(dev)
        train[1:] = [remove_shared_pairs(each, held) for each in train[1:]]
        notes = (note_held_out(len(dev)),)
    else:
        dev, notes = named
    notes = (*(note_left_out(each.skipped) for each in train if each.skipped), *notes)
    return TextCorpus(tuple(train), dev, notes, held_out=len(dev) if named is None else 0)


def read_dev_pairs(data: DataConfig) -> tuple[SentencePairs, tuple[str, ...]] | None:
    """The dev pairs, if a dev set is named, and a note on those that are left out."""
    source = data.dev_source or data.dev
    if source is None:
        return None
    dev = read_pairs(source, data.dev_target, max_characters=data.max_characters)
    return dev, (f"left out of the dev data: {dev.skipped}",) if dev.skipped else ()


def note_left_out(skipped: SkippedPairs) -> str:
    """The note on pairs that were not read."""
    return f"left out of the training data: {skipped}"


def note_held_out(drawn: int) -> str:
    """The note on pairs that were taken out of training."""
    return (
        f"no dev set named: {drawn:,} pairs are held out of training to measure progress, and pairs with a sentence of "
        "theirs are left out (dev_source and dev_target name others, data.held_out fewer)"
    )


def combine_fingerprints(fingerprints: Sequence[str]) -> str:
    """One number for all corpora; that of a single one is its own."""
    return fingerprints[0] if len(fingerprints) == 1 else hashlib.sha256(" ".join(fingerprints).encode()).hexdigest()


@dataclass(frozen=True)
class HeldOutSentences:
    """The sentences of held-out pairs; training sees none of them."""

    sources: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()

    @classmethod
    def from_pairs(cls, pairs: SentencePairs) -> "HeldOutSentences":
        return cls(frozenset(pairs.sources), frozenset(pairs.targets))

    def filter_rows(
        self, rows: Iterable[tuple[int, str, str]], file: str, skipped: SkippedPairs, held_out: Container[int] = ()
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
                skipped.add(SHARED_SENTENCE, f"{file}:{line}")
        if not left:
            whom = "another" if held_out else "the dev pairs"
            raise ValueError(f"every pair shares a sentence with {whom}; name dev_source and dev_target")


def draw_held_out(pairs: int, most: int, seed: int) -> list[int]:
    """Which of so many pairs are held out: a tenth of them, at most `most`."""
    if pairs < 20:
        raise ValueError(f"{pairs} pairs are too few to hold some out; name dev_source and dev_target")
    return Random(seed).sample(range(pairs), min(most, pairs // 10))


def split_held_out(pairs: SentencePairs, most: int, seed: int) -> tuple[SentencePairs, SentencePairs]:
    """The pairs without, and those with, a sentence of at most `most` drawn pairs: no sentence is on both sides."""
    indices = draw_held_out(len(pairs), most, seed)
    sources, targets = [pairs.sources[i] for i in indices], [pairs.targets[i] for i in indices]
    dev = SentencePairs(sources, targets, [pairs.lines[i] for i in indices], pairs.files, SkippedPairs())
    return remove_shared_pairs(pairs, HeldOutSentences.from_pairs(dev), frozenset(dev.lines)), dev


def remove_shared_pairs(pairs: SentencePairs, held: HeldOutSentences, held_out: Container[int] = ()) -> SentencePairs:
    """The pairs that share no sentence with those held out; the others are counted among those skipped."""
    skipped = SkippedPairs()
    skipped.add_later(pairs.skipped)
    sources, targets, lines = [], [], array("q")
    rows = zip(pairs.lines, pairs.sources, pairs.targets, strict=True)
    for line, source, target in held.filter_rows(rows, pairs.files[0], skipped, held_out):
        lines.append(line)
        sources.append(source)
        targets.append(target)
    return SentencePairs(sources, targets, lines, pairs.files, skipped)


def learn_tokenizer(corpus: TextCorpus, run: RunConfig) -> Tokenizer:
    """The vocabulary of the training text."""
    sources = chain.from_iterable(each.sources for each in corpus.train)
    targets = chain.from_iterable(each.targets for each in corpus.train)
    return train_tokenizer(sources, targets, run)


def train_tokenizer(sources: Iterable[str], targets: Iterable[str], run: RunConfig) -> Tokenizer:
    """The vocabulary of these sentences, or of some of them if they are many."""
    return Tokenizer.train(sources, targets, run.tokenizer, seed=run.seed, max_sentences=TOKENIZER_SENTENCES)


def encode_with_note(
    pairs: SentencePairs, tokenizer: Tokenizer, run: RunConfig
) -> tuple[EncodedPairs, tuple[str, ...]]:
    """The pairs as ids, and a note on those with too many pieces."""
    encoded, skipped = encode_pairs(pairs, tokenizer, run.data.max_pieces)
    return encoded, (note_too_long(skipped),) if skipped else ()


def note_too_long(skipped: SkippedPairs) -> str:
    """The note on pairs with too many pieces."""
    return f"left out: {skipped}"


def encode_corpora(
    corpus: TextCorpus, tokenizer: Tokenizer, run: RunConfig
) -> tuple[EncodedPairs, tuple[str, ...], tuple[CorpusAccount, ...]]:
    """All training pairs, one corpus after the other, the notes on those with too many pieces, and the accounts."""
    encoded, notes, accounts = [], [], []
    for settings, pairs in zip(run.data.corpora, corpus.train, strict=True):
        some, skipped = encode_pairs(pairs, tokenizer, run.data.max_pieces)
        encoded.append(some)
        notes += [note_too_long(skipped)] if skipped else []
        held_out = 0 if accounts else corpus.held_out
        accounts.append(
            CorpusAccount(settings.display_name, len(some), held_out, dict(pairs.skipped.counts + skipped.counts))
        )
    whole = encoded[0] if len(encoded) == 1 else concatenate_corpora(encoded)
    return with_corpus_shares(whole, [len(each) for each in encoded], run.data), tuple(notes), tuple(accounts)


def with_corpus_shares(encoded: EncodedPairs, counts: Sequence[int], data: DataConfig) -> EncodedPairs:
    """The same pairs, with how many belong to each corpus and how much they count."""
    corpora = zip(data.corpora, counts, strict=True)
    return replace(
        encoded, corpora=tuple(CorpusShare(each.display_name, count, each.weight) for each, count in corpora)
    )
