"""Copying: lines of random pieces, to be written again; in a line of n, n pieces lie between each and its copy."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.recurrent_model import Recurrent, Sizes
from benchmarks.recurrent_race import Contender, Runner, greedy, race, runner, try_rates
from pellucid.data.batching import EncodedPairs
from pellucid.data.stream import pack_sentences
from pellucid.data.tokenizer import EOS
from pellucid.model import ModelConfig, Transformer
from pellucid.train.config import OptimConfig

SPECIAL, SYMBOLS, LONGEST = 4, 64, 30
"""Ids that are no pieces, pieces, and the longest line in training."""

LENGTHS = (5, 10, 20, 30, 35, 40, 60)
"""Lines that are tested; the last three are longer than any in training."""

LINES, TESTED, BATCH = 50_000, 100, 1024

PEAKS = (2e-3, 5e-3, 1e-2)

VOCABULARY = SPECIAL + SYMBOLS

CONTENDERS = (
    Contender(
        "Transformer",
        lambda: Transformer(
            ModelConfig(VOCABULARY, VOCABULARY, 64, 128, 4, encoder_layers=2, decoder_layers=2, dropout=0.0)
        ),
        PEAKS,
    ),
    Contender("GRU with attention", lambda: Recurrent(Sizes(VOCABULARY, 64, 64, 72, encoder_layers=1)), PEAKS),
    Contender(
        "GRU without attention",
        lambda: Recurrent(Sizes(VOCABULARY, 64, 64, 80, encoder_layers=1, attention=False)),
        PEAKS,
    ),
)


@dataclass(frozen=True)
class CopyRow:
    """One model: what it is, and in per cent the pieces in their right place and the lines without a mistake."""

    name: str
    parameters: int
    peak: float
    speed: float
    updates: int
    pieces: dict[int, float]
    lines: dict[int, float]


def copying(seconds: float, tuning: float, report: Callable[[Runner], object]) -> list[CopyRow]:
    """Train all on the same lines for so many seconds each, then let them copy."""
    optim = OptimConfig(warmup=200, schedule="linear", label_smoothing=0.0)
    encoded, dev = make_lines(LINES, seed=1), make_lines(500, seed=2)
    short = try_rates(CONTENDERS, optim, encoded, dev, BATCH, tuning)
    peaks = {name: tries[0].runner.optim.peak for name, tries in short.items()}
    runners = [runner(contender, peaks[contender.name], optim, encoded, BATCH) for contender in CONTENDERS]
    race(runners, seconds, report)
    rows = []
    for trained in runners:
        shares = {length: measure_copies(trained.model, length) for length in LENGTHS}
        pieces, lines = ({n: pair[kind] for n, pair in shares.items()} for kind in (0, 1))
        rows.append(
            CopyRow(
                trained.name, trained.parameters, peaks[trained.name], trained.speed, trained.updates, pieces, lines
            )
        )
    return rows


def make_lines(lines: int, seed: int) -> EncodedPairs:
    """Lines of 1 to `LONGEST` random pieces, each its own translation."""
    random = np.random.default_rng(seed)
    rows = [line(random, int(random.integers(1, LONGEST + 1))) for _ in range(lines)]
    return EncodedPairs(pack_sentences(rows, np.uint16), pack_sentences(rows, np.uint16))


def line(random: np.random.Generator, length: int) -> list[int]:
    return [*random.integers(SPECIAL, VOCABULARY, length).tolist(), EOS]


def measure_copies(model: Transformer | Recurrent, length: int) -> tuple[float, float]:
    """Return the share of pieces in their place, and of lines without a mistake, over lines of one length."""
    random = np.random.default_rng(1000 + length)
    sources = [line(random, length) for _ in range(TESTED)]
    outputs = greedy(model, sources, [length + 1] * TESTED)
    hits = [
        sum(a == b for a, b in zip(source, copy, strict=False)) for source, copy in zip(sources, outputs, strict=True)
    ]
    whole = [source[:-1] == copy for source, copy in zip(sources, outputs, strict=True)]
    return 100 * sum(hits) / (length * TESTED), 100 * sum(whole) / TESTED
