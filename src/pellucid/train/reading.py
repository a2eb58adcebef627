"""The first reading of a run's text: its pairs counted, some held out, and the vocabulary learned from a sample."""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.data.corpus import Pairs, Skipped, files_of, sound_pairs
from pellucid.data.tokenizer import Tokenizer, sample
from pellucid.sealed import force_to_disk, read_json
from pellucid.train import pairs
from pellucid.train.config import CorpusConfig, RunConfig
from pellucid.train.pairs import Sentences, drawn, left_out, nothing_left, taken_out
from pellucid.train.sharded import DEV

Say = Callable[[str], None]


@dataclass
class Fact:
    """What reading a corpus once tells of it."""

    pairs: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    skipped: Skipped = field(default_factory=Skipped)


def learned(run: RunConfig, folder: Path, say: Say, known: Tokenizer | None = None) -> tuple[Tokenizer, dict[str, Any]]:
    """The tokenizer, `known` or learned, and the facts that the second reading and the manifest need."""
    if (folder / "facts.json").exists():
        return Tokenizer.load(folder, run.tokenizer), read_json(folder / "facts.json")
    say("reading the text")
    dev, held = held_out(run)
    facts = [Fact() for _ in run.data.corpora]
    rows = (row for each, fact in zip(run.data.corpora, facts, strict=True) for row in counted(each, run, held, fact))
    if known is None:
        some = sample(rows, pairs.TOKENIZER_SENTENCES, run.seed)
        say(f"learning the vocabulary from {len(some):,} of {sum(fact.pairs for fact in facts):,} pairs")
        sources, targets = [source for source, _ in some], [target for _, target in some]
        del some
        tokenizer = pairs.learn(sources, targets, run)
    else:
        deque(rows, maxlen=0)  # only counted
        tokenizer = known
    tokenizer.save(folder)
    notes = [left_out(fact.skipped) for fact in facts if fact.skipped]
    if dev is not None:
        notes.append(taken_out(dev))
        both = zip(dev.sources, dev.targets, strict=True)
        lines = (json.dumps({"source": source, "target": target}) + "\n" for source, target in both)
        (folder / DEV).write_text("".join(lines), encoding="utf-8")
    write_json(
        folder / "facts.json",
        {
            "corpora": [{"pairs": fact.pairs, "fingerprint": fact.digest.hexdigest()} for fact in facts],
            "notes": [*notes, *tokenizer.notes],
            "dev": None if dev is None else {"files": dev.files, "lines": list(dev.lines)},
            "drawn": dev is not None
            or (known is None and sum(fact.pairs for fact in facts) > pairs.TOKENIZER_SENTENCES),
        },
    )
    return tokenizer, read_json(folder / "facts.json")


def held_out(run: RunConfig) -> tuple[Pairs | None, Sentences]:
    """The pairs of the first corpus that are drawn to measure with, unless a dev set is named, and their sentences."""
    if run.data.dev_source is not None or run.data.dev is not None:
        return None, Sentences()
    first = run.data.corpora[0]
    total = sum(1 for _ in sound_pairs(*first.files, run.data.max_characters, Skipped()))
    indices = drawn(total, run.data.held_out, run.seed)
    wanted = set(indices)
    rows = enumerate(sound_pairs(*first.files, run.data.max_characters, Skipped()))
    found = {i: row for i, row in rows if i in wanted}
    lines, sources, targets = (list(column) for column in zip(*(found[i] for i in indices), strict=True))
    dev = Pairs(sources, targets, lines, files_of(*first.files), Skipped())
    return dev, Sentences.of(dev)


def training_pairs(
    corpus: CorpusConfig, run: RunConfig, held: Sentences, skipped: Skipped
) -> Iterable[tuple[int, str, str]]:
    """The pairs of a corpus that are trained on, each with its line."""
    rows = sound_pairs(*corpus.files, run.data.max_characters, skipped)
    return (row for row in rows if not held.shares(row[1], row[2])) if held.sources else rows


def counted(corpus: CorpusConfig, run: RunConfig, held: Sentences, fact: Fact) -> Iterator[tuple[str, str]]:
    """The same, without their lines; what is learned on the way goes into `fact`."""
    for _, source, target in training_pairs(corpus, run, held, fact.skipped):
        fact.pairs += 1
        fact.digest.update(f"{source}\n{target}\n".encode())
        yield source, target
    if not fact.pairs:
        raise ValueError(nothing_left("another" if corpus is run.data.corpora[0] else "the dev pairs"))


def write_json(path: Path, value: dict[str, Any]) -> None:
    """A JSON file, whole or not at all."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(value) + "\n", encoding="utf-8")
    force_to_disk(beside)
    beside.replace(path)
