"""Translating on a CUDA device, in every engine and precision that it has, beside the processor.

    make bench-cuda                                  # trains, and then translates with runs/demo/best
    python -m benchmarks.translate_cuda runs/mine/best --lines 5000

A minute or two; the sentences are the phrasebook's. Writes benchmarks/results/translate_cuda.md. With `--device cpu` it
shows that it runs, and writes nothing.
"""

import argparse
import statistics
import sys
import time
from itertools import islice

import torch

from benchmarks.quality import RESULTS, machine
from pellucid import Model, load
from pellucid.demo.phrasebook import generate_phrases
from pellucid.store.atomic import write_text_whole

Way = tuple[str, str, str]
"""Device, engine and precision."""

ROUNDS = 5
WAYS = [
    ("torch", "float32"),
    ("torch", "bfloat16"),
    ("ctranslate2", "float32"),
    ("ctranslate2", "float16"),
    ("ctranslate2", "int8_float16"),
]
HEADER = ["| device | engine | precision | sentences a second | same text |", "|---|---|---|---|---|"]


def main(arguments: list[str]) -> int:
    """Load the model in every way, let all translate the same sentences in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="runs/demo/best")
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args(arguments)
    is_gpu = options.device != "cpu"
    if is_gpu and not torch.cuda.is_available():
        parser.error("no CUDA device here; --device cpu shows that the benchmark runs")

    lines = [phrase.source for phrase in islice(generate_phrases(seed=7), options.lines)]
    models: dict[Way, Model] = {("cpu", "ctranslate2", "float32"): load(options.model, engine="auto")}
    failures = {}
    for engine, precision in WAYS:
        way = options.device, engine, precision
        try:
            models[way] = load(options.model, precision, engine, device=options.device)
        except ValueError as error:
            failures[way] = str(error)

    rows = [write_row(way, speeds, share) for way, (speeds, share) in measure(models, lines).items()]
    rows += [f"| {' | '.join(way)} | failed: {reason.replace('|', '/')} | |" for way, reason in failures.items()]
    table = "\n".join([*HEADER, *rows])
    print(table)
    if is_gpu:
        write_text_whole(RESULTS / "translate_cuda.md", write_page(options, table))
    return 0


def measure(models: dict[Way, Model], lines: list[str]) -> dict[Way, tuple[list[float], float]]:
    """Return the speed of each way in each round, and the share of its texts that are those of the first way."""
    for model in models.values():
        model.translate(lines[:100])  # kernels are loaded with the first sentences
    speeds: dict[Way, list[float]] = {way: [] for way in models}
    texts = {}
    for _ in range(ROUNDS):
        for way, model in models.items():
            began = time.perf_counter()
            translations = model.translate(lines, scores=False)
            speeds[way].append(len(lines) / (time.perf_counter() - began))
            texts[way] = [translation.text for translation in translations]

    first = next(iter(texts.values()))
    results = {}
    for way, own in texts.items():
        same = sum(a == b for a, b in zip(own, first, strict=True))
        results[way] = speeds[way], same / len(lines)
    return results


def write_row(way: Way, speeds: list[float], share: float) -> str:
    """Return the row of one way: the median of its speeds, the least and the most, and the share of equal texts."""
    median = statistics.median(speeds)
    return f"| {' | '.join(way)} | {median:,.0f} ({min(speeds):,.0f}-{max(speeds):,.0f}) | {share:.1%} |"


def write_page(options: argparse.Namespace, table: str) -> str:
    """Return the page of results."""
    device = torch.cuda.get_device_name()
    how = f"Beam 4, {options.lines:,} sentences of the phrasebook, {ROUNDS} rounds in which all rows take turns"
    return (
        f"# Translating on a GPU\n\n`python -m benchmarks.translate_cuda {options.model} --lines {options.lines}` on "
        f"{device}; the processor is {machine()}. {how}: the median with the slowest and the fastest round. "
        f"*Same text*: translations that are those of the processor.\n\n{table}\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
