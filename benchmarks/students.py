"""Trains teachers and students on Tatoeba, and measures their quality against their speed, on news as well.

    python -m benchmarks.students --train-only     # all models, under runs/students; an hour of one core
    python -m benchmarks.students                  # then the speeds, on a quiet machine; prints a part of students.md

What is done already is not done again: trainings, translations, speeds (`runs/students/TASK/speed-test.json`).
Needs PELLUCID_DATA.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import pellucid
from benchmarks.quality import HOUSE, lines
from benchmarks.translate_row import CORES, ENGINES, measure_rate
from pellucid.evaluate.comparison import PairedScore, compare_translations

FOLDER = HOUSE / "runs" / "students"
BEAM, ROUNDS = 4, 5
LENGTH_PENALTY = 1.4
"""Of 0.6, 1.4, 2.0 and 3.0, the one with which Multi30k's teachers have the best BLEU on the dev set."""
BATCHES = (32, 64, 128)
"""Batches of which CTranslate2's own API gets the fastest."""


@dataclass(frozen=True)
class Task:
    """Texts of one language pair, and the seeds of its teachers."""

    name: str
    title: str
    folder: str
    languages: tuple[str, str]
    splits: tuple[str, str, str]
    """Names of the files for training, dev and test."""
    seeds: tuple[int, ...]
    pairs: int | None = None
    """Number of pairs drawn to train on, where it is not all of them."""
    news: tuple[str, int] = ("", 0)
    """Another text whose translation is timed, by its folder and name, and how many of its lines."""

    @property
    def runs(self) -> Path:
        """Folder of everything that is made for this task."""
        return FOLDER / self.name

    @property
    def teachers(self) -> list[Path]:
        """Directories of the teachers' runs."""
        return [self.runs / f"teacher-{seed}" for seed in self.seeds]

    def find_files(self, split: int) -> tuple[Path, Path]:
        """Return the source and the target file of training (0), dev (1) or test (2)."""
        if split == 0 and self.pairs:
            return self.runs / "train.source", self.runs / "train.target"
        folder = Path(os.environ["PELLUCID_DATA"]) / self.folder
        source, target = (folder / f"{self.splits[split]}.{language}.gz" for language in self.languages)
        return source, target

    @cached_property
    def test(self) -> tuple[list[str], list[str]]:
        """Sources and references of the test set."""
        source, target = map(lines, self.find_files(2))
        return source, target

    @cached_property
    def news_lines(self) -> list[str]:
        """Sources of the other text."""
        name, count = self.news
        folder = Path(os.environ["PELLUCID_DATA"])
        return lines(folder / f"{name}.{self.languages[0]}.gz")[:count]


TASKS = (
    Task(
        "tatoeba",
        "Tatoeba English-Spanish",
        "tatoeba_en-es",
        ("en", "es"),
        ("train", "valid", "test"),
        seeds=(1, 2),
        pairs=60_000,
        news=("wmt_news/newstest2013", 500),
    ),
)
STUDENTS = {"student": (6, 1), "small": (3, 1)}
"""Layers of the encoder and the decoder of each student."""


@dataclass(frozen=True)
class Row:
    """One way to translate: a model, what it is exported as ("" is our own engine with int8 and shortlist), a beam."""

    model: str
    form: str
    beam: int

    @property
    def name(self) -> str:
        """Name of the row on the page."""
        engine = f"CTranslate2, {self.form.replace('-', ', ')}" if self.form else "Pellucid, int8, shortlist"
        return f"{self.model}, {engine}, {f'beam {self.beam}' if self.beam > 1 else 'greedy'}"


TEACHER = Row("teacher", "int8", BEAM)
STUDENT = Row("student", "", 1)
SMALL = Row("small", "", 1)
ROWS = (
    Row("teacher", "float32", BEAM),
    TEACHER,
    Row("teacher", "int8", 1),
    Row("student", "int8", BEAM),
    Row("student", "int8-shortlist", 1),
    STUDENT,
    Row("small", "int8", BEAM),
    Row("small", "int8-shortlist", 1),
    SMALL,
)


# Models


def train_models(task: Task, updates: int, student_updates: int) -> None:
    """Train the teachers, then students on their translations and on those of people."""
    task.runs.mkdir(parents=True, exist_ok=True)
    if task.pairs and not task.find_files(0)[1].exists():
        pairs = list(zip(*map(lines, replace(task, pairs=None).find_files(0)), strict=True))
        sources, targets = zip(*random.Random(1).sample(pairs, task.pairs), strict=True)
        for path, texts in zip(task.find_files(0), (sources, targets), strict=True):
            path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    for seed, run in zip(task.seeds, task.teachers, strict=True):
        if not (run / "best").exists():
            source, target = task.find_files(0)
            options = [*common_options(task, run, seed, updates), "--set", "train.both_directions=0.3"]
            command("train", "--source", source, "--target", target, *options)
    for name, layers in STUDENTS.items():
        distill(task, name, layers, student_updates)


def distill(task: Task, name: str, layers: tuple[int, int], updates: int) -> None:
    """Make a student of the teachers as one, unless that was done."""
    run, models = task.runs / name, [teacher / "best" for teacher in task.teachers]
    if (run / "best").exists():
        return
    # What the same teachers wrote for another student is there already.
    done = next(task.runs.glob("*/data/translations.jsonl"), None)
    if done and not (run / "data").exists():
        (run / "data").mkdir(parents=True)
        shutil.copy(done, run / "data")
    source, target = task.find_files(0)
    options = ["--beam", BEAM, "--length-penalty", LENGTH_PENALTY, "--no-export"]
    options += ["--pairs-source", source, "--pairs-target", target, *common_options(task, run, 1, updates)]
    for setting in (f"model.encoder_layers={layers[0]}", f"model.decoder_layers={layers[1]}"):
        options += ["--set", setting]
    command("distill", *models, "--source", source, *options)


def common_options(task: Task, run: Path, seed: int, updates: int) -> Iterator[Any]:
    """Yield the options that teachers and students share."""
    dev_source, dev_target = task.find_files(1)
    yield from ("--dev-source", dev_source, "--dev-target", dev_target, "--out", run, "--steps", updates)
    yield from ("--size", "tiny", "--set", "train.precision=bfloat16", "--set", f"seed={seed}")


def command(*words: Any) -> None:
    """Run a command of Pellucid."""
    subprocess.run([sys.executable, "-m", "pellucid", *map(str, words)], check=True, stdout=sys.stderr)


def translate_test(task: Task, name: str, models: list[Path]) -> list[str]:
    """Return the test set as a model or several as one translate it, with the beam; kept in a file."""
    path = task.runs / f"{name}.test.json"
    if not path.exists():
        model = pellucid.load(models[0], others=models[1:])
        results = model.translate(task.test[0], beam=BEAM, length_penalty=LENGTH_PENALTY, scores=False)
        path.write_text(json.dumps([result.text for result in results]), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


# Speed


def find_directory(task: Task, model: str) -> Path:
    """Return the directory of the teacher, which is the one with the first seed, or of the student."""
    return (task.teachers[0] if model == "teacher" else task.runs / model) / "best"


def find_export(task: Task, model: str, form: str) -> Path:
    """Return a model in another form, exported if needed as `pellucid distill` does it, but whatever it costs."""
    out = task.runs / "exports" / f"{model}-{form}"
    if not out.exists():
        directory = find_directory(task, model)
        precision, _, shortlist = form.partition("-")
        how = ["marian"] if form == "marian" else ["ctranslate2", "--precision", precision]
        if precision == "int8":
            how += ["--no-gate"]
        if shortlist:
            for side, path in zip(("source", "target"), task.find_files(0), strict=True):
                how += [f"--shortlist-{side}", path]
        command("export", directory, out, "--to", *how)
    return out


def measure_speeds(task: Task, kind: str = "test") -> dict[str, Any]:
    """Return settings, speeds and texts of each row: all rows in turns, in one process; kept in a file."""
    path = task.runs / f"speed-{kind}.json"
    if not path.exists():
        sources = task.test[0] if kind == "test" else task.news_lines
        results, engines = {}, {}
        for row in ROWS:
            engines[row], batch, workers = choose_engine(task, row, sources)
            results[row.name] = {"batch": batch, "workers": workers, "speeds": []}
        for _ in range(ROUNDS):
            for row in ROWS:
                result = results[row.name]
                speed, result["texts"] = measure_rate(engines[row], sources, row.beam, result["batch"], least=1.0)
                result["speeds"].append(speed)
        path.write_text(json.dumps(results), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def choose_engine(task: Task, row: Row, sources: list[str]) -> tuple[Any, int, int]:
    """Return what translates a row; for CTranslate2's own API, with the batch and the workers that are fastest."""
    if not row.form:
        exported = find_export(task, row.model, "int8-shortlist")
        job = {"model": find_directory(task, row.model), "precision": "int8", "exported": exported}
        engine = {"engine": "pellucid ctranslate2", "length_penalty": LENGTH_PENALTY}
        translate = ENGINES["pellucid ctranslate2"](job | engine)
        translate(sources, row.beam, 0)
        return translate, 0, 0
    job = {
        "model": str(find_export(task, row.model, row.form)),
        "vocabulary": str(find_export(task, row.model, "marian")),
        "shortlist": "shortlist" in row.form,
        "length_penalty": LENGTH_PENALTY,
    }
    engines = {workers: ENGINES["ctranslate2"](job | {"workers": workers}) for workers in (CORES, 1)}

    def measure(choice: tuple[int, int]) -> float:
        batch, workers = choice
        engines[workers](sources[: 2 * batch], row.beam, batch)
        return measure_rate(engines[workers], sources, row.beam, batch)[0]

    batch, workers = max(product(BATCHES, engines), key=measure)
    return engines[workers], batch, workers


def megabytes(task: Task, row: Row) -> float:
    """Return the size on disk of the weights, the vocabularies and the shortlist that a row reads."""
    export = find_export(task, row.model, row.form or "int8-shortlist")
    converted = [file for file in export.iterdir() if file.suffix in (".bin", ".json", ".txt")]
    files = [*converted, *find_export(task, row.model, "marian").glob("*.spm")]
    return sum(file.stat().st_size for file in files) / 1e6


# The page


def page_lines(task: Task) -> Iterator[str]:
    """Yield the lines of the part of the page about this task."""
    yield f"## {task.title}, better teachers: {len(task.test[0]):,} lines of {task.folder}/{task.splits[2]}\n"
    names = {f"teacher, seed {seed}": [run] for seed, run in zip(task.seeds, task.teachers, strict=True)}
    names["the teachers together"] = task.teachers
    names |= {
        f"{name}, {encoder} + {decoder} layers": [task.runs / name] for name, (encoder, decoder) in STUDENTS.items()
    }
    texts = {
        name: translate_test(task, "+".join(run.name for run in runs), [run / "best" for run in runs])
        for name, runs in names.items()
    }
    [base, *_] = texts.values()
    yield f"| model, float32, beam {BEAM} | BLEU | chrF | BLEU against the first | chrF against the first |"
    yield "|---|---|---|---|---|"
    for name, hypotheses in texts.items():
        yield f"| {name} | {' | '.join(score_cells(task, base, hypotheses))} |"
    yield ""
    yield from speed_lines(task)


def score_cells(task: Task, base: list[str], hypotheses: list[str]) -> list[str]:
    """Return BLEU and chrF, and how each differs from the base."""
    scores = compare_translations(base, hypotheses, task.test[1]).scores
    pair = [scores[metric] for metric in ("bleu", "chrf")]
    differences = [describe_difference(score) for score in pair] if hypotheses is not base else ["", ""]
    return [*(f"{score.b.score:.2f}" for score in pair), *differences]


def describe_difference(score: PairedScore) -> str:
    """Return the difference and the verdict of the paired test."""
    verdict = {"A": "worse", "B": "better", None: "not told apart"}[score.better]
    return f"{score.difference.score:+.2f} {verdict}"


def speed_lines(task: Task) -> Iterator[str]:
    """Yield speed, size and quality of each row, and the speed on news."""
    results, news = measure_speeds(task), measure_speeds(task, "news")
    base = results[ROWS[0].name]["texts"]
    words = sum(len(line.split()) for line in task.news_lines) / len(task.news_lines)
    yield (
        "| model, engine, search | batch, workers | sentences/s | times | MB | BLEU | chrF "
        f"| chrF against the first | news of {words:.0f} words, sentences/s | times |"
    )
    yield "|---" * 10 + "|"
    for row in ROWS:
        result = results[row.name]
        scores = score_cells(task, base, result["texts"])
        cells = [
            f"{result['batch']}, {result['workers']}" if row.form else "its own",
            spread(result["speeds"], "{:,.0f}"),
            spread(pair_ratios(results, row), "{:.2f}"),
            f"{megabytes(task, row):.1f}",
            *scores[:2],
            scores[3],
            spread(news[row.name]["speeds"], "{:,.0f}"),
            spread(pair_ratios(news, row), "{:.2f}"),
        ]
        yield f"| {row.name} | {' | '.join(cells)} |"


def pair_ratios(results: dict[str, Any], row: Row) -> list[float]:
    """Return the speed of a row over that of the teacher, round by round."""
    pairs = zip(results[row.name]["speeds"], results[TEACHER.name]["speeds"], strict=True)
    return [speed / rival for speed, rival in pairs]


def spread(values: list[float], form: str) -> str:
    """Return the median, and the lowest and the highest in brackets."""
    median, low, high = map(form.format, (statistics.median(values), min(values), max(values)))
    return f"{median} ({low}-{high})"


def main() -> None:
    """Train what is missing, measure, and print the part of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=5000, help="of each teacher")
    parser.add_argument("--student-updates", type=int, default=8000, help="of each student")
    parser.add_argument("--train-only", action="store_true", help="measure nothing yet")
    options = parser.parse_args()
    if "PELLUCID_DATA" not in os.environ:
        sys.exit("PELLUCID_DATA must name the folder that holds tatoeba_en-es and wmt_news")
    for task in TASKS:
        train_models(task, options.updates, options.student_updates)
        for row in ROWS:
            find_export(task, row.model, row.form or "int8-shortlist")
            find_export(task, row.model, "marian")
        if not options.train_only:
            print("\n".join(page_lines(task)))


if __name__ == "__main__":
    main()
