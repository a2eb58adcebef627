"""The pairs of a run: read, held out where no dev set is named, turned into ids."""

from dataclasses import dataclass
from random import Random

from pellucid.data.batching import Encoded
from pellucid.data.corpus import Pairs, Skipped, fingerprint, read_pairs
from pellucid.data.stream import encode_pairs
from pellucid.data.tokenizer import Tokenizer
from pellucid.train.config import DataConfig, RunConfig

TOKENIZER_SENTENCES = 1_000_000
"""Lines of each side that the vocabulary is learned from, at most."""


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs to train on, pairs to measure with, and what a user should know about both."""

    train: Pairs
    dev: Pairs
    notes: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the training text: a run resumes only on the same."""
        return fingerprint(self.train)


def read_corpus(data: DataConfig, seed: int) -> Corpus:
    """The training pairs and the dev pairs; without a dev set, some training pairs drawn by `seed` become one."""
    source = data.source or data.train
    assert source is not None
    train = read_pairs(source, data.target, max_characters=data.max_characters)
    notes = [f"left out of the training data: {train.skipped}"] if train.skipped else []
    dev_source = data.dev_source or data.dev
    if dev_source is None:
        train, dev = held_out(train, data.held_out, seed)
        notes.append(f"no dev set named: {len(dev):,} pairs are held out of training to measure progress")
    else:
        dev = read_pairs(dev_source, data.dev_target, max_characters=data.max_characters)
        if dev.skipped:
            notes.append(f"left out of the dev data: {dev.skipped}")
    return Corpus(train, dev, tuple(notes))


def held_out(pairs: Pairs, most: int, seed: int) -> tuple[Pairs, Pairs]:
    """The pairs without, and those with, a sentence of at most `most` drawn pairs: no sentence is on both sides."""
    if len(pairs) < 20:
        raise ValueError(f"{len(pairs)} pairs are too few to hold some out; name dev_source and dev_target")
    drawn = Random(seed).sample(range(len(pairs)), min(most, len(pairs) // 10))
    sources, targets = {pairs.sources[i] for i in drawn}, {pairs.targets[i] for i in drawn}
    rest = [
        i
        for i, (s, t) in enumerate(zip(pairs.sources, pairs.targets, strict=True))
        if s not in sources and t not in targets
    ]
    if not rest:
        raise ValueError("every pair shares a sentence with another; name dev_source and dev_target")
    return chosen(pairs, rest), chosen(pairs, drawn)


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
    return Tokenizer.train(
        corpus.train.sources, corpus.train.targets, run.tokenizer, seed=run.seed, max_sentences=TOKENIZER_SENTENCES
    )


def encode(pairs: Pairs, tokenizer: Tokenizer, run: RunConfig) -> tuple[Encoded, tuple[str, ...]]:
    """The pairs as ids, and a note on those with too many pieces."""
    encoded, skipped = encode_pairs(pairs, tokenizer, run.data.max_pieces)
    return encoded, (f"left out: {skipped}",) if skipped else ()
