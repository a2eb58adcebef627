"""First reading of a run's text: counts its pairs, holds some out, and learns the vocabulary from a sample."""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.data.corpus import SentencePairs, SkippedPairs, read_valid_pairs, side_files
from pellucid.data.tokenizer import Tokenizer, sample_lines
from pellucid.store.atomic import atomic_file, read_json
from pellucid.train import pairs
from pellucid.train.config import CorpusConfig, DataConfig, RunConfig
from pellucid.train.pairs import HeldOutSentences, draw_held_out, note_held_out, note_left_out
from pellucid.train.shard_reading import DEV_FILE

Say = Callable[[str], None]
"""Function that shows a message to the user."""


@dataclass
class CorpusFacts:
    """Number of pairs, checksum and skipped pairs of a corpus, collected while it is read."""

    pairs: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    skipped: SkippedPairs = field(default_factory=SkippedPairs)


def learn_from_text(
    run: RunConfig, folder: Path, say: Say, initial: Tokenizer | None = None
) -> tuple[Tokenizer, dict[str, Any]]:
    """Return the tokenizer, `initial` or learned, and the facts for the second reading and the manifest."""
    # Written last: with it, an earlier call has finished this reading.
    if (folder / "facts.json").exists():
        return Tokenizer.load(folder, run.tokenizer), read_json(folder / "facts.json")
    say("reading the text")
    dev = draw_dev_pairs(run.data, run.seed)
    facts = [CorpusFacts() for _ in run.data.corpora]
    corpora_and_facts = zip(run.data.corpora, facts, strict=True)
    rows = (
        row for corpus, corpus_facts in corpora_and_facts for row in count_rows(corpus, run.data, dev, corpus_facts)
    )
    if initial is None:
        sample = sample_lines(rows, pairs.TOKENIZER_SENTENCES, run.seed)
        say(f"learning the vocabulary from {len(sample):,} of {sum(counts.pairs for counts in facts):,} pairs")
        sources, targets = [source for source, _ in sample], [target for _, target in sample]
        # A million pairs should not stay in memory twice while the vocabulary is learned.
        del sample
        tokenizer = pairs.train_tokenizer(sources, targets, run)
    else:
        deque(rows, maxlen=0)  # reads all rows for their facts, and keeps none
        tokenizer = initial
    tokenizer.save(folder)
    notes = [note_left_out(corpus_facts.skipped) for corpus_facts in facts if corpus_facts.skipped]
    if dev is not None:
        notes.append(note_held_out(len(dev)))
        dev_pairs = zip(dev.sources, dev.targets, strict=True)
        lines = (json.dumps({"source": source, "target": target}) + "\n" for source, target in dev_pairs)
        (folder / DEV_FILE).write_text("".join(lines), encoding="utf-8")
    write_json_file(
        folder / "facts.json",
        {
            "corpora": [
                {
                    "pairs": corpus_facts.pairs,
                    "fingerprint": corpus_facts.digest.hexdigest(),
                    "left_out": dict(corpus_facts.skipped.counts),
                }
                for corpus_facts in facts
            ],
            "notes": [*notes, *tokenizer.notes],
            "dev": None if dev is None else {"files": dev.files, "lines": list(dev.lines)},
            "drawn": dev is not None
            or (initial is None and sum(corpus_facts.pairs for corpus_facts in facts) > pairs.TOKENIZER_SENTENCES),
        },
    )
    # From the file, so that a first call returns just what a resumed one does.
    return tokenizer, read_json(folder / "facts.json")


def draw_dev_pairs(data: DataConfig, seed: int) -> SentencePairs | None:
    """Draw the pairs of the first corpus to measure with, unless a dev set is named."""
    if data.dev_source is not None or data.dev is not None:
        return None
    first = data.corpora[0]
    # Two passes over the file instead of all of its pairs in memory.
    total = sum(1 for _ in read_valid_pairs(*first.files, data.max_characters, SkippedPairs()))
    indices = draw_held_out(total, data.held_out, seed)
    drawn_indices = set(indices)
    rows = enumerate(read_valid_pairs(*first.files, data.max_characters, SkippedPairs()))
    drawn = {i: row for i, row in rows if i in drawn_indices}
    # In the order in which they were drawn, as `split_held_out` has them.
    lines, sources, targets = (list(column) for column in zip(*(drawn[i] for i in indices), strict=True))
    return SentencePairs(sources, targets, lines, side_files(*first.files), SkippedPairs())


def training_pairs(
    corpus: CorpusConfig, data: DataConfig, dev: SentencePairs | None, skipped: SkippedPairs
) -> Iterable[tuple[int, str, str]]:
    """Yield the pairs of a corpus to train on, each with its line; other pairs are counted in `skipped`.

    Pairs of the first corpus that are themselves in `dev` are not counted there.
    """
    rows = read_valid_pairs(*corpus.files, data.max_characters, skipped)
    if dev is None:
        return rows
    lines = frozenset(dev.lines) if corpus == data.corpora[0] else ()
    return HeldOutSentences.from_pairs(dev).filter_rows(rows, corpus.files[0], skipped, lines)


def count_rows(
    corpus: CorpusConfig, data: DataConfig, dev: SentencePairs | None, corpus_facts: CorpusFacts
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a corpus to train on without their lines; number and checksum go into `corpus_facts`."""
    for _, source, target in training_pairs(corpus, data, dev, corpus_facts.skipped):
        corpus_facts.pairs += 1
        corpus_facts.digest.update(f"{source}\n{target}\n".encode())
        yield source, target


def count_training_pairs(data: DataConfig, seed: int) -> int:
    """Count the pairs to train on, those with too many pieces included, without keeping them in memory."""
    dev = draw_dev_pairs(data, seed)
    return sum(1 for corpus in data.corpora for _ in training_pairs(corpus, data, dev, SkippedPairs()))


def write_json_file(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON file atomically."""
    with atomic_file(path) as write:
        write(f"{json.dumps(value)}\n".encode())
