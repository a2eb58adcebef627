"""Stand-in for a corpus that is not at hand: phrasebook pairs, enough to check a run's settings, sizes and speed."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random

from pellucid.data.corpus import SentencePairs, fingerprint_pairs
from pellucid.phrasebook import generate_phrases
from pellucid.train.config import RunConfig, make_run, override_run, read_run_tables
from pellucid.train.initial_model import initial_tokenizer
from pellucid.train.pairs import TrainingData, encode_with_note, train_tokenizer

NEWS_LENGTH = 2.87, 0.65
"""Mean and standard deviation of the logarithm of an English line's words, newstest2008 to 2013: median 19, mean 21."""

DEV_PAIRS = 50
"""Pairs of a stand-in that are measured with."""


def stand_in_run(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a run file like `read_run`, but replace the files that it names, which need not exist."""
    tables = override_run(read_run_tables(path), overrides)
    # In [data], file names are strings or lists of tables; all that is left are numbers.
    numbers = {key: value for key, value in tables.get("data", {}).items() if not isinstance(value, str | list)}
    tables["data"] = {**numbers, "source": "stand-in.en", "target": "stand-in.es"}
    return make_run(tables, str(path), path.parent)


def stand_in_data(pairs: int, run: RunConfig) -> TrainingData:
    """Make English-Spanish pairs with lines as long as news, encoded by a vocabulary of their own text."""
    if pairs < 1:
        raise ValueError(f"a stand-in of {pairs} pairs is none; name 1 or more")
    # The first pairs are the dev set, the others are trained on.
    sources, targets = map(list, zip(*islice(long_pairs(run.seed), pairs + DEV_PAIRS), strict=True))
    train = SentencePairs.from_lists(sources[DEV_PAIRS:], targets[DEV_PAIRS:], "stand-in")
    tokenizer = initial_tokenizer(run) or train_tokenizer(train.sources, train.targets, run)
    encoded, notes = encode_with_note(train, tokenizer, run)
    dev = SentencePairs.from_lists(sources[:DEV_PAIRS], targets[:DEV_PAIRS], "stand-in")
    return TrainingData(tokenizer, encoded, dev, fingerprint_pairs(train), notes)


def long_pairs(seed: int) -> Iterator[tuple[str, str]]:
    """Yield lines without end, each of as many phrases as fill a length drawn like that of news."""
    random, source = Random(seed), generate_phrases(seed)
    while True:
        length, sides = random.lognormvariate(*NEWS_LENGTH), ([], [])
        words = 0
        while words < length:
            phrase = next(source)
            words += len(phrase.source.split())
            sides[0].append(phrase.source)
            sides[1].append(phrase.target)
        yield " ".join(sides[0]), " ".join(sides[1])
