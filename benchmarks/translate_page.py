"""Page of benchmarks/translate.py: its tables, and the text that explains them."""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path

from benchmarks.quality import machine
from benchmarks.translate_row import CORES
from benchmarks.translate_setup import FLOAT32, HF, INT8, OURS, PACKAGES, ROWS, Task
from pellucid.data.corpus import read_lines
from pellucid.evaluate.scores import corpus_scores
from pellucid.store.directory import CONFIG, read_config

SEARCHES = ("greedy", "beam")


def page_lines(tasks: list[Task], options: argparse.Namespace, seconds: float) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Translation: the same weights in every engine\n"
    yield f"    {' '.join(['python -m benchmarks.translate', *sys.argv[1:]])}\n"
    yield f"{machine()}, ctranslate2 {version('ctranslate2')}; {time.strftime('%Y-%m-%d')}, {seconds / 60:.0f} minutes."
    yield f"Peers: {'; '.join(' '.join(packages) for packages in PACKAGES.values())}.\n"
    batches = ", ".join(f"{row.name} {row.batch}" for row in ROWS if row.batch)
    yield READING.format(**vars(options), cores=CORES, batches=batches)
    for task in tasks:
        references = list(islice(read_lines(task.reference), options.lines))
        yield f"\n## {task.model}: {len(references):,} lines of {'/'.join(Path(task.source).parts[-2:])}\n"
        config, tokenizer = read_config(task.model / CONFIG)
        layers = f"{config.encoder_layers} + {config.decoder_layers} layers"
        yield f"{layers} of {config.d_model}, {config.target_vocabulary:,} target pieces ({tokenizer.kind})."
        for search, title in zip(SEARCHES, ("Greedy", f"Beam {options.beam}"), strict=True):
            yield f"\n### {title}\n"
            yield from search_lines(task, search, references)
        yield "\n### Loading and memory\n"
        yield from loading_lines(task)
        if task.commands:
            yield f"\n### Whole commands: a file of {options.long:,} lines, beam {options.beam}\n"
            yield from command_lines(task, options.long)


def search_lines(task: Task, search: str, references: list[str]) -> Iterator[str]:
    """Yield speed, BLEU and sameness of every engine in one kind of search."""
    yield from header_lines(
        "engine",
        "one sentence p50, ms",
        "p95, ms",
        "batches of 32, sentences/s",
        "/ Hugging Face",
        "whole file, sentences/s",
        "/ CTranslate2",
        "BLEU",
        "same text",
    )
    texts = {row.name: task.rows[row.name][0][search]["texts"] for row in ROWS}

    # Slow engines have the whole file in their first round only, so a column may lack rounds.
    def rounds(name: str, column: str) -> list[float]:
        return [result[search][column] for result in task.rows[name] if column in result[search]]

    for row in ROWS:
        yield table_line(
            row.name,
            format_spread(rounds(row.name, "p50"), "{:.1f}"),
            format_spread(rounds(row.name, "p95"), "{:.1f}"),
            format_spread(rounds(row.name, "batches"), "{:,.0f}"),
            format_ratio(rounds(row.name, "batches"), rounds(HF, "batches")),
            format_spread(rounds(row.name, "whole"), "{:,.0f}"),
            format_ratio(rounds(row.name, "whole"), rounds(row.rival, "whole")),
            f"{corpus_scores(texts[row.name], references, metrics=['bleu'])['bleu']['score']:.1f}",
            f"{sum(map(str.__eq__, texts[row.name], texts[OURS])) / len(references):.1%}",
        )


def loading_lines(task: Task) -> Iterator[str]:
    """Yield the seconds until an engine has translated something, and the most memory it held."""
    yield from header_lines("engine", "ready, s", "peak memory, MB")
    for row in ROWS:
        results = task.rows[row.name]
        yield table_line(
            row.name, *(format_spread([r[column] for r in results], f) for column, f in LOADING_FORMATS.items())
        )


LOADING_FORMATS = {"ready": "{:.2f}", "megabytes": "{:,.0f}"}


def command_lines(task: Task, lines: int) -> Iterator[str]:
    """Yield whole commands, each against the script with the same precision."""
    yield from header_lines("command", "s", "lines/s", "/ CTranslate2")
    for name, seconds in task.commands.items():
        rates = [lines / duration for duration in seconds]
        # Commands in int8 are compared with the script in int8, all others with the one in float32.
        script = [lines / duration for duration in task.commands[INT8 if "int8" in name else FLOAT32]]
        yield table_line(
            name, format_spread(seconds, "{:.1f}"), format_spread(rates, "{:,.0f}"), format_ratio(rates, script)
        )


def header_lines(*columns: str) -> Iterator[str]:
    yield table_line(*columns)
    yield "|" + "---|" * len(columns)


def table_line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def format_spread(rounds: Sequence[float], form: str) -> str:
    """Format the median of all rounds, with the least and the most if there are several.

    >>> format_spread([2.0, 4.0, 3.0], "{:.1f}")
    '3.0 (2.0-4.0)'
    """
    if len(rounds) == 1:
        return form.format(rounds[0])
    return f"{form} ({form}-{form})".format(statistics.median(rounds), min(rounds), max(rounds))


def format_ratio(rounds: Sequence[float], others: Sequence[float]) -> str:
    """Format the median ratio to the others' figure of the same round.

    >>> format_ratio([10.0, 30.0, 24.0], [10.0, 10.0, 10.0])
    '2.40'
    """
    # Within each round: the machine's speed drifts from round to round.
    return f"{statistics.median(a / b for a, b in zip(rounds, others, strict=False)):.2f}"


READING = """\
Every engine has the same trained weights, by `pellucid export`. Every row runs in a process of its own, and all rows
run once before any runs again: {rounds} rounds, the median and (least-most). All times are from text to text, with
{cores} cores. The speed of a machine drifts: the ratios, each within a round, say more than the figures.

- *one sentence*: the first {single} lines, one after the other. *batches of 32*: the first {batched} lines.
- *whole file*: all {lines:,} lines in one call, in the batches that suit the engine: {batches};
  Pellucid chooses itself. That of Hugging Face and of ONNX Runtime is timed in the first round only.
- *Hugging Face* and *ONNX Runtime*: `generate` with {cores} threads, lines sorted by length. *CTranslate2*: its Python
  API as its documentation shows, with SentencePiece, {cores} workers of one thread; for one sentence in float32 one
  worker of {cores} threads. *Pellucid*: `pellucid.load(...).translate(...)`.
- */ Hugging Face* is the ratio of sentences/s in batches of 32; */ CTranslate2* that for the whole file, to CTranslate2
  in int8 where the row is int8 and else in float32. Above 1 is faster.
- *BLEU*: sacreBLEU 13a, cased, of the whole file. *same text*: the share of lines with just the text of Pellucid,
  torch, float32. With a beam it is smaller because each ranks by its own formula: with a length penalty of 1 Pellucid
  divides a log-probability by (5 + n) / 6, the others by n. And Pellucid searches again where a translation runs in a
  loop.
- *ready*: from the start of the process, imports counted, until two sentences are translated. Pellucid imports torch
  beside CTranslate2 when first a sentence needs it: after *ready*, and here before what is timed; a whole command pays
  for it. *peak memory*: of the process, after everything but single sentences.
- *whole commands*: from the start of a process to its end, on the first lines of the training data, no two of
  them equal. CTranslate2 is `benchmarks/ctranslate2_file.py`, what its documentation shows made a program: with workers
  and batches chosen as above, and as it comes, one worker with all threads and the file as one batch.
"""
