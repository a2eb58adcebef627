"""The first reading of a run's text: its pairs counted, some held out, and the vocabulary learned from a sample."""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.atomic import atomic_file, read_json
from pellucid.data.corpus import SentencePairs, SkippedPairs, read_valid_pairs, side_files
from pellucid.data.tokenizer import Tokenizer, sample_lines
from pellucid.train import pairs
from pellucid.train.config import CorpusConfig, DataConfig, RunConfig
from pellucid.train.pairs import HeldOutSentences, draw_held_out, note_held_out, note_left_out
from pellucid.train.shard_reading import DEV_FILE

Say = Callable[[str], None]


@dataclass
class CorpusFacts:
    """What reading a corpus once tells of it."""

    pairs: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    skipped: SkippedPairs = field(default_factory=SkippedPairs)


def learn_from_text(
    run: RunConfig, folder: Path, say: Say, known: Tokenizer | None = None
) -> tuple[Tokenizer, dict[str, Any]]:
    """The tokenizer, `known` or learned, and the facts that the second reading and the manifest need."""
    if (folder / "facts.json").exists():
        return Tokenizer.load(folder, run.tokenizer), read_json(folder / "facts.json")
    say("reading the text")
    dev = draw_dev_pairs(run.data, run.seed)
    facts = [CorpusFacts() for _ in run.data.corpora]
    both = zip(run.data.corpora, facts, strict=True)
    rows = (row for each, fact in both for row in count_rows(each, run.data, dev, fact))
    if known is None:
        some = sample_lines(rows, pairs.TOKENIZER_SENTENCES, run.seed)
        say(f"learning the vocabulary from {len(some):,} of {sum(fact.pairs for fact in facts):,} pairs")
        sources, targets = [source for source, _ in some], [target for _, target in some]
        del some
        tokenizer = pairs.train_tokenizer(sources, targets, run)
    else:
        deque(rows, maxlen=0)  # only counted
        tokenizer = known
    tokenizer.save(folder)
    notes = [note_left_out(fact.skipped) for fact in facts if fact.skipped]
    if dev is not None:
        notes.append(note_held_out(len(dev)))
        both = zip(dev.sources, dev.targets, strict=True)
        lines = (json.dumps({"source": source, "target": target}) + "\n" for source, target in both)
        (folder / DEV_FILE).write_text("".join(lines), encoding="utf-8")
    write_json_file(
        folder / "facts.json",
        {
            "corpora": [
                {"pairs": fact.pairs, "fingerprint": fact.digest.hexdigest(), "left_out": dict(fact.skipped.counts)}
                for fact in facts
            ],
            "notes": [*notes, *tokenizer.notes],
            "dev": None if dev is None else {"files": dev.files, "lines": list(dev.lines)},
            "drawn": dev is not None
            or (known is None and sum(fact.pairs for fact in facts) > pairs.TOKENIZER_SENTENCES),
        },
    )
    return tokenizer, read_json(folder / "facts.json")


def draw_dev_pairs(data: DataConfig, seed: int) -> SentencePairs | None:
    """The pairs of the first corpus that are drawn to measure with, unless a dev set is named."""
    if data.dev_source is not None or data.dev is not None:
        return None
    first = data.corpora[0]
    total = sum(1 for _ in read_valid_pairs(*first.files, data.max_characters, SkippedPairs()))
    indices = draw_held_out(total, data.held_out, seed)
    wanted = set(indices)
    rows = enumerate(read_valid_pairs(*first.files, data.max_characters, SkippedPairs()))
    found = {i: row for i, row in rows if i in wanted}
    lines, sources, targets = (list(column) for column in zip(*(found[i] for i in indices), strict=True))
    return SentencePairs(sources, targets, lines, side_files(*first.files), SkippedPairs())


def training_pairs(
    corpus: CorpusConfig, data: DataConfig, dev: SentencePairs | None, skipped: SkippedPairs
) -> Iterable[tuple[int, str, str]]:
    """The pairs of a corpus that are trained on, each with its line; the others are counted in `skipped`.

    `dev` are those held out of the first corpus, if some were: they are not counted there.
    """
    rows = read_valid_pairs(*corpus.files, data.max_characters, skipped)
    if dev is None:
        return rows
    lines = frozenset(dev.lines) if corpus == data.corpora[0] else ()
    return HeldOutSentences.from_pairs(dev).filter_rows(rows, corpus.files[0], skipped, lines)


def count_rows(
    corpus: CorpusConfig, data: DataConfig, dev: SentencePairs | None, fact: CorpusFacts
) -> Iterator[tuple[str, str]]:
    """The same, without their lines; what is learned on the way goes into `fact`."""
    for _, source, target in training_pairs(corpus, data, dev, fact.skipped):
        fact.pairs += 1
        fact.digest.update(f"{source}\n{target}\n".encode())
        yield source, target


def count_training_pairs(data: DataConfig, seed: int) -> int:
    """How many pairs there are to train on, but for those that will have too many pieces; nothing is kept of them."""
    dev = draw_dev_pairs(data, seed)
    return sum(1 for each in data.corpora for _ in training_pairs(each, data, dev, SkippedPairs()))


def write_json_file(path: Path, value: dict[str, Any]) -> None:
    """A JSON file, whole or not at all."""
    with atomic_file(path) as write:
        write(f"{json.dumps(value)}\n".encode())
