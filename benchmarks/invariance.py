"""Whether a translation depends on its neighbours: the same sentences in batches of many sizes and orders.

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
from pellucid.decode.config import SearchConfig
from pellucid.decode.request import Engine, SearchRequest

SIZES = (1, 2, 7, 32, 128)
ORDERS = ("by length", "shuffled", "shuffled again")
SEARCHES = {"greedy": SearchConfig(method="greedy"), "beam 4": SearchConfig(beam=4)}
PROMISED = (("torch", "float32"), ("ctranslate2", "float32"))
MEASURED = (("torch", "bfloat16"), ("ctranslate2", "bfloat16"), ("ctranslate2", "int8"))

Texts = list[tuple[int, ...]]
"""The pieces of each translation, in the order of the lines."""


def main() -> None:
    """Search in every way, write the page; exit code 1 where a promise is broken."""
    options = understood(sys.argv[1:])
    lines = [line for line in islice(read_lines(options.source), options.sentences) if line.strip()]
    tenth = lines[: max(1, len(lines) // 10)]
    shares, first = {}, {}
    for engine, precision in (*PROMISED, *MEASURED):
        some = lines if (engine, precision) in PROMISED else tenth
        model = pellucid.load(options.model, precision, engine)
        sources = model.bundle.tokenizer.encode_source(some)
        for search, config in SEARCHES.items():
            key = engine, precision, search
            first[key], shares[key] = measure(model.translator.engine, sources, config, " ".join(key))
    text = "\n".join(page(options, len(lines), len(tenth), first, shares)).strip() + "\n"
    options.out.write_text(text, encoding="utf-8")
    print(text)
    promised = [key for key in shares if key[:2] in PROMISED]
    sys.exit(any(min(shares[key].values()) < 1 or first[key] != first["torch", "float32", key[2]] for key in promised))


def understood(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.invariance")
    data = os.environ.get("PELLUCID_DATA")
    default = f"{data}/multi30k/train.en.gz" if data else None
    parser.add_argument("--model", default="runs/multi30k/best")
    parser.add_argument("--source", default=default, required=not data, help="sentences, one a line")
    parser.add_argument("--sentences", type=int, default=10_000, help="how many of them")
    parser.add_argument("--out", type=Path, default=RESULTS / "invariance.md", help="the page to write")
    return parser.parse_args(arguments)


def measure(
    engine: Engine, sources: Sequence[list[int]], config: SearchConfig, name: str
) -> tuple[Texts, dict[int, float]]:
    """What is found in batches of 32 by length; and for each size the share that is always that, in the worst order."""
    first = searched(engine, sources, config, 32, ORDERS[0])
    shares: dict[int, float] = {}
    for size in SIZES:
        for order in ORDERS[: 1 if size == 1 else None]:  # alone, a sentence has no neighbours
            begun = time.monotonic()
            share = same(first, searched(engine, sources, config, size, order))
            shares[size] = min(share, shares.get(size, 1.0))
            seconds = time.monotonic() - begun
            print(f"{name}, batches of {size}, {order}: {share:.2%} the same, {seconds:.0f} s", file=sys.stderr)
    return first, shares


def searched(engine: Engine, sources: Sequence[list[int]], config: SearchConfig, size: int, order: str) -> Texts:
    """What the engine finds for all sentences, in just these batches."""
    places = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    if order != ORDERS[0]:
        random.Random(order).shuffle(places)
    batches = [places[at : at + size] for at in range(0, len(places), size)]
    requests = [[SearchRequest(sources[i], i + 1) for i in batch] for batch in batches]
    found: dict[int, tuple[int, ...]] = {}
    for batch, hypotheses in zip(batches, engine.search_all(requests, config), strict=True):
        found |= {i: tuple(some[0].tokens) for i, some in zip(batch, hypotheses, strict=True)}
    return [found[i] for i in range(len(sources))]


def same(one: Texts, other: Texts) -> float:
    """The share of the second that is the same in the first, which may have more.

    >>> same([(5,), (6,), (7,)], [(5,), (8,)])
    0.5
    """
    return sum(a == b for a, b in zip(one, other, strict=False)) / len(other)


def page(
    options: argparse.Namespace,
    sentences: int,
    tenth: int,
    first: dict[tuple[str, str, str], Texts],
    shares: dict[tuple[str, str, str], dict[int, float]],
) -> Iterator[str]:
    """The table, and how it is read."""
    yield "# The same answer every time\n"
    yield f"    {' '.join(['python -m benchmarks.invariance', *sys.argv[1:]])}\n"
    yield f"{machine()}, {time.strftime('%Y-%m-%d')}; {options.model}, {sentences:,} sentences, {tenth:,} where a share"
    yield "is measured and nothing promised.\n"
    yield f"| engine | search | {' | '.join(f'batches of {size}' for size in SIZES)} | as torch in float32 |"
    yield "|---|---|" + "---|" * (len(SIZES) + 1)
    for (engine, precision, search), by_size in shares.items():
        across = same(first["torch", "float32", search], first[engine, precision, search])
        cells = [f"{engine}, {precision}", search, *(f"{by_size[size]:.2%}" for size in SIZES), f"{across:.2%}"]
        yield f"| {' | '.join(cells)} |"
    yield READING


READING = """
Each share: translations with just the pieces they have in batches of 32 sorted by length, in the worst of three orders:
by length, and shuffled twice, so that short and long sentences are neighbours. Alone (batches of 1) there is one order.
In float32, on a CPU, every share must be 100.00%, and the last column too; the program fails where it is not.
"""


if __name__ == "__main__":
    main()
