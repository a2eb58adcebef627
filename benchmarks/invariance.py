"""Measure whether a translation depends on its neighbours: one set of sentences in batches of many sizes and orders.

    python -m benchmarks.invariance                     # runs/multi30k/best, 10,000 sentences of Multi30k: hours
    python -m benchmarks.invariance --sentences 200     # minutes

In float32 it must not; in the other precisions the share that does is measured, on a tenth of the sentences. Writes
benchmarks/results/invariance.md.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pellucid
from benchmarks.quality import RESULTS, machine
from pellucid.data.corpus import read_lines
from pellucid.decode.request import Engine, SearchConfig, SearchRequest

SIZES = (1, 2, 7, 32, 128)
ORDERS = ("by length", "shuffled", "shuffled again")
SEARCHES = {"greedy": SearchConfig(method="greedy"), "beam 4": SearchConfig(beam=4)}
PROMISED = (("torch", "float32"), ("ctranslate2", "float32"))
MEASURED = (("torch", "bfloat16"), ("ctranslate2", "bfloat16"), ("ctranslate2", "int8"))

Texts = list[tuple[int, ...]]
"""Pieces of each translation, in the order of the lines."""


def main() -> None:
    """Search in every way and write the page; exit code 1 where a promise is broken."""
    options = parse_options(sys.argv[1:])
    lines = [line for line in islice(read_lines(options.source), options.sentences) if line.strip()]
    # Only measured, not promised: a tenth suffices, and takes a tenth of the time.
    tenth = lines[: max(1, len(lines) // 10)]
    shares, first = {}, {}
    for engine, precision in (*PROMISED, *MEASURED):
        sentences = lines if (engine, precision) in PROMISED else tenth
        model = pellucid.load(options.model, precision, engine)
        sources = model.bundle.tokenizer.encode_source(sentences)
        for search, config in SEARCHES.items():
            key = engine, precision, search
            first[key], shares[key] = measure_shares(model.translator.engine, sources, config, " ".join(key))
    text = "\n".join(page_lines(options, len(lines), len(tenth), first, shares)).strip() + "\n"
    options.out.write_text(text, encoding="utf-8")
    print(text)
    # The promise is twofold: the same in every batch, and the same as torch in float32.
    promised = [key for key in shares if key[:2] in PROMISED]
    sys.exit(any(min(shares[key].values()) < 1 or first[key] != first["torch", "float32", key[2]] for key in promised))


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Parse the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.invariance")
    data = os.environ.get("PELLUCID_DATA")
    default = f"{data}/multi30k/train.en.gz" if data else None
    parser.add_argument("--model", default="runs/multi30k/best")
    parser.add_argument("--source", default=default, required=not data, help="sentences, one a line")
    parser.add_argument("--sentences", type=int, default=10_000, help="how many of them")
    parser.add_argument("--out", type=Path, default=RESULTS / "invariance.md", help="the page to write")
    return parser.parse_args(arguments)


def measure_shares(
    engine: Engine, sources: Sequence[list[int]], config: SearchConfig, name: str
) -> tuple[Texts, dict[int, float]]:
    """Return the translations in batches of 32 by length, and for each size the least share equal to them."""
    first = search_in_batches(engine, sources, config, 32, ORDERS[0])
    shares: dict[int, float] = {}
    for size in SIZES:
        for order in ORDERS[: 1 if size == 1 else None]:  # alone, a sentence has no neighbours
            start = time.monotonic()
            share = share_equal(first, search_in_batches(engine, sources, config, size, order))
            shares[size] = min(share, shares.get(size, 1.0))
            seconds = time.monotonic() - start
            print(f"{name}, batches of {size}, {order}: {share:.2%} the same, {seconds:.0f} s", file=sys.stderr)
    return first, shares


def search_in_batches(
    engine: Engine, sources: Sequence[list[int]], config: SearchConfig, size: int, order: str
) -> Texts:
    """Search all sentences in batches of this size and order."""
    indices = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    if order != ORDERS[0]:
        # Seeded by the name of the order, so that it is the same for every engine.
        random.Random(order).shuffle(indices)
    batches = [indices[start : start + size] for start in range(0, len(indices), size)]
    requests = [[SearchRequest(sources[i], i + 1) for i in batch] for batch in batches]
    translations: dict[int, tuple[int, ...]] = {}
    for batch, hypotheses in zip(batches, engine.search_all(requests, config), strict=True):
        translations |= {i: tuple(ranked[0].tokens) for i, ranked in zip(batch, hypotheses, strict=True)}
    return [translations[i] for i in range(len(sources))]


def share_equal(first: Texts, second: Texts) -> float:
    """Return the share of the second texts that equal the first, which may be more.

    >>> share_equal([(5,), (6,), (7,)], [(5,), (8,)])
    0.5
    """
    return sum(a == b for a, b in zip(first, second, strict=False)) / len(second)


def page_lines(
    options: argparse.Namespace,
    sentences: int,
    tenth: int,
    first: dict[tuple[str, str, str], Texts],
    shares: dict[tuple[str, str, str], dict[int, float]],
) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# The same translations in different batches and orders\n"
    yield f"    {' '.join(['python -m benchmarks.invariance', *sys.argv[1:]])}\n"
    yield f"{machine()}, {time.strftime('%Y-%m-%d')}; {options.model}, {sentences:,} sentences, and {tenth:,} in"
    yield "bfloat16 and int8, for which equal translations are not promised.\n"
    yield f"| engine | search | {' | '.join(f'batches of {size}' for size in SIZES)} | as torch in float32 |"
    yield "|---|---|" + "---|" * (len(SIZES) + 1)
    for (engine, precision, search), by_size in shares.items():
        across = share_equal(first["torch", "float32", search], first[engine, precision, search])
        cells = [f"{engine}, {precision}", search, *(f"{by_size[size]:.2%}" for size in SIZES), f"{across:.2%}"]
        yield f"| {' | '.join(cells)} |"
    yield READING


READING = """
Each number is the share of translations that have exactly the same pieces as in batches of 32 sorted by length. It is
the lowest share of three orders of the sentences: sorted by length, and shuffled twice, so that short and long
sentences are in one batch. In batches of 1 there is only one order. The last column is the share of translations that
are the same as those of torch in float32. In float32, on a CPU, every share must be 100.00%, in the last column too;
otherwise the program fails.
"""


if __name__ == "__main__":
    main()
