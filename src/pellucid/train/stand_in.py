"""Phrasebook pairs in the place of a corpus that is not at hand: enough to check a run's settings, sizes and speed."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random

from pellucid.config import read_toml
from pellucid.data.corpus import Pairs, fingerprint
from pellucid.data.phrasebook import phrases
from pellucid.train.config import RunConfig, changed, make_run
from pellucid.train.initial_model import tokenizer_of
from pellucid.train.pairs import Data, encode, learn

NEWS_LENGTH = 2.87, 0.65
"""Mean and standard deviation of the logarithm of an English line's words, newstest2008 to 2013: median 19, mean 21."""

DEV_PAIRS = 50


def stand_in_run(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """A run file as `read_run` reads it, but for the files it names, which need not be there."""
    tables = changed(read_toml(path), overrides)
    # What names files is text, or a list of tables; what else [data] says are numbers.
    numbers = {key: value for key, value in tables.get("data", {}).items() if not isinstance(value, str | list)}
    tables["data"] = {**numbers, "source": "stand-in.en", "target": "stand-in.es"}
    return make_run(tables, str(path), path.parent)


def stand_in_data(pairs: int, run: RunConfig) -> Data:
    """So many English-Spanish pairs as long as lines of news, in the pieces that this text has."""
    if pairs < 1:
        raise ValueError(f"a stand-in of {pairs} pairs is none; name 1 or more")
    sources, targets = map(list, zip(*islice(long_pairs(run.seed), pairs + DEV_PAIRS), strict=True))
    train = Pairs.of(sources[DEV_PAIRS:], targets[DEV_PAIRS:], "stand-in")
    tokenizer = tokenizer_of(run) or learn(train.sources, train.targets, run)
    encoded, notes = encode(train, tokenizer, run)
    dev = Pairs.of(sources[:DEV_PAIRS], targets[:DEV_PAIRS], "stand-in")
    return Data(tokenizer, encoded, dev, fingerprint(train), notes)


def long_pairs(seed: int) -> Iterator[tuple[str, str]]:
    """Endless lines of as many phrases as make a length drawn from that of news."""
    random, source = Random(seed), phrases(seed)
    while True:
        wanted, sides = random.lognormvariate(*NEWS_LENGTH), ([], [])
        words = 0
        while words < wanted:
            phrase = next(source)
            words += len(phrase.source.split())
            sides[0].append(phrase.source)
            sides[1].append(phrase.target)
        yield " ".join(sides[0]), " ".join(sides[1])
