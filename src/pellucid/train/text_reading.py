"""The first reading of a run's text: its pairs counted, some held out, and the vocabulary learned from a sample."""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.atomic import read_json, written_file
from pellucid.data.corpus import Pairs, Skipped, files_of, sound_pairs
from pellucid.data.tokenizer import Tokenizer, sample
from pellucid.train import pairs
from pellucid.train.config import CorpusConfig, DataConfig, RunConfig
from pellucid.train.pairs import Sentences, drawn, left_out, taken_out
from pellucid.train.shard_reading import DEV

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
    dev = held_out(run.data, run.seed)
    facts = [Fact() for _ in run.data.corpora]
    both = zip(run.data.corpora, facts, strict=True)
    rows = (row for each, fact in both for row in counted(each, run.data, dev, fact))
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
        notes.append(taken_out(len(dev)))
        both = zip(dev.sources, dev.targets, strict=True)
        lines = (json.dumps({"source": source, "target": target}) + "\n" for source, target in both)
        (folder / DEV).write_text("".join(lines), encoding="utf-8")
    write_json(
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


def held_out(data: DataConfig, seed: int) -> Pairs | None:
    """The pairs of the first corpus that are drawn to measure with, unless a dev set is named."""
    if data.dev_source is not None or data.dev is not None:
        return None
    first = data.corpora[0]
    total = sum(1 for _ in sound_pairs(*first.files, data.max_characters, Skipped()))
    indices = drawn(total, data.held_out, seed)
    wanted = set(indices)
    rows = enumerate(sound_pairs(*first.files, data.max_characters, Skipped()))
    found = {i: row for i, row in rows if i in wanted}
    lines, sources, targets = (list(column) for column in zip(*(found[i] for i in indices), strict=True))
    return Pairs(sources, targets, lines, files_of(*first.files), Skipped())


def training_pairs(
    corpus: CorpusConfig, data: DataConfig, dev: Pairs | None, skipped: Skipped
) -> Iterable[tuple[int, str, str]]:
    """The pairs of a corpus that are trained on, each with its line; the others are counted in `skipped`.

    `dev` are those held out of the first corpus, if some were: they are not counted there.
    """
    rows = sound_pairs(*corpus.files, data.max_characters, skipped)
    if dev is None:
        return rows
    lines = frozenset(dev.lines) if corpus == data.corpora[0] else ()
    return Sentences.of(dev).leave(rows, corpus.files[0], skipped, lines)


def counted(corpus: CorpusConfig, data: DataConfig, dev: Pairs | None, fact: Fact) -> Iterator[tuple[str, str]]:
    """The same, without their lines; what is learned on the way goes into `fact`."""
    for _, source, target in training_pairs(corpus, data, dev, fact.skipped):
        fact.pairs += 1
        fact.digest.update(f"{source}\n{target}\n".encode())
        yield source, target


def pairs_left(data: DataConfig, seed: int) -> int:
    """How many pairs there are to train on, but for those that will have too many pieces; nothing is kept of them."""
    dev = held_out(data, seed)
    return sum(1 for each in data.corpora for _ in training_pairs(each, data, dev, Skipped()))


def write_json(path: Path, value: dict[str, Any]) -> None:
    """A JSON file, whole or not at all."""
    with written_file(path) as write:
        write(f"{json.dumps(value)}\n".encode())
