"""Rows and page of benchmarks/translate.py: the engines with their settings, and what is written of their results."""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.quality import HOUSE, machine
from benchmarks.translate_row import CORES
from pellucid.data.corpus import read_lines
from pellucid.evaluate.scores import corpus_scores
from pellucid.store.directory import CONFIG, read_config

SEARCHES = ("greedy", "beam")

PEERS = HOUSE / "runs" / "peers"
PACKAGES = {
    "peers": ("torch==2.13.0", "transformers==5.23.0", "ctranslate2==4.8.5", "sentencepiece==0.2.3"),
    "onnx": ("torch==2.13.0", "optimum-onnx[onnxruntime]==0.1.0", "onnxruntime==1.31.1", "sentencepiece==0.2.3"),
}
"""Virtual environments under runs/peers, with the packages installed in them."""


HF, OURS = "Hugging Face `generate`", "Pellucid, torch, float32"
FLOAT32, INT8 = "CTranslate2, float32", "CTranslate2, int8"


@dataclass(frozen=True)
class Row:
    """An engine with its settings: the environment it runs in, if it is a peer, and the export it reads, if any.

    `batch` suits it best for a whole file (0: it chooses itself); `rival` is the row of CTranslate2 to compare with.
    """

    name: str
    engine: str
    peer: str
    export: str
    batch: int
    precision: str = "float32"
    rival: str = FLOAT32
    slow: bool = False
    """Whether it translates the whole file in the first round only."""


ROWS = (
    Row(HF, "hugging_face", "peers", "marian", 32, slow=True),
    Row("ONNX Runtime, by `optimum`", "onnx", "onnx", "onnx", 32, slow=True),
    Row(FLOAT32, "ctranslate2", "peers", "float32", 64),
    Row(INT8, "ctranslate2", "peers", "int8", 32, rival=INT8),
    Row(OURS, "pellucid torch", "", "", 0),
    Row("Pellucid, torch, bfloat16", "pellucid torch", "", "", 0, "bfloat16"),
    Row("Pellucid, ctranslate2, float32", "pellucid ctranslate2", "", "", 0),
    Row("Pellucid, ctranslate2, int8", "pellucid ctranslate2", "", "", 0, "int8", rival=INT8),
    Row("Pellucid, ctranslate2, int8, shortlist", "pellucid ctranslate2", "", "int8-shortlist", 0, "int8", rival=INT8),
)


@dataclass
class Task:
    """A model and its test set; for each row and each whole command, a result per round."""

    model: Path
    source: str
    reference: str
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    commands: dict[str, list[float]] = field(default_factory=dict)

    @property
    def exports(self) -> Path:
        """Folder of the files that are made from the model."""
        return PEERS / f"{self.model.resolve().parent.name}-{self.model.name}"


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
Every engine has the same trained weights, exported with `pellucid export`. Every row runs in a process of its own, and
all rows run once before any runs again. There are {rounds} rounds; the tables show the median and (least-most). All
times are from text to text, with {cores} cores. The speed of the machine changes over time, so the ratios, which are
taken within a round, are more reliable than the speeds.

- *one sentence*: the first {single} lines, one after the other. *batches of 32*: the first {batched} lines.
- *whole file*: all {lines:,} lines in one call, in batches of the size that suits the engine: {batches};
  Pellucid chooses its batches itself. Hugging Face and ONNX Runtime are timed in the first round only.
- *Hugging Face* and *ONNX Runtime*: `generate` with {cores} threads, lines sorted by length. *CTranslate2*: its Python
  API as its documentation shows, with SentencePiece, {cores} workers of one thread; for one sentence in float32 one
  worker of {cores} threads. *Pellucid*: `pellucid.load(...).translate(...)`.
- */ Hugging Face* is the ratio of sentences/s in batches of 32; */ CTranslate2* is the ratio for the whole file, to
  CTranslate2 in int8 if the row is int8, and otherwise in float32. Above 1 is faster.
- *BLEU*: sacreBLEU 13a, cased, of the whole file. *same text*: the share of lines with exactly the text of Pellucid,
  torch, float32. With a beam it is smaller because the engines rank by different formulas: with a length penalty of 1
  Pellucid divides a log-probability by (5 + n) / 6, the others by n. And Pellucid searches again if a translation
  repeats itself over and over.
- *ready*: the time from the start of the process, with imports, until two sentences are translated. With CTranslate2,
  Pellucid imports torch only when a sentence first needs it. That is after *ready*, and in these tables before the
  timed part; in the times of whole commands it is included. *peak memory*: of the process, after everything except the
  single sentences.
- *whole commands*: from the start of a process to its end, on the first lines of the training data, without repeated
  lines. CTranslate2 is `benchmarks/ctranslate2_file.py`, a program made from what its documentation shows: once with
  workers and batches chosen as above, and once with its defaults, one worker with all threads and the file as one
  batch.
"""
