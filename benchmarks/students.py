"""Trains teachers and students, and measures their quality against their speed and size on Multi30k and Tatoeba.

    python -m benchmarks.students --train-only     # all models, under runs/students; two hours of one core
    python -m benchmarks.students                  # then the speeds, on a quiet machine, and results/students.md

What is done already is not done again: trainings, translations of a test set, speeds (`runs/students/TASK/speed.json`).
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
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import pellucid
from benchmarks.quality import HOUSE, RESULTS, lines, machine
from benchmarks.ruined import write_pairs
from benchmarks.translate_row import CORES, ENGINES, measure_rate
from pellucid.evaluate.comparison import PairedScore, compare_translations
from pellucid.interpret.plots.figure import BLUE, VERMILION, empty_figure, tidy_axes, write_figure

FOLDER = HOUSE / "runs" / "students"
BEAM, ROUNDS = 4, 5
LENGTH_PENALTY = 1.4
"""Of 0.6, 1.4, 2.0 and 3.0, the one with which Multi30k's teachers have the best BLEU on the dev set."""
BATCHES = (32, 64, 128)
"""Batches of which CTranslate2's own API gets the fastest."""

PLAIN, DEEP_ENCODER = (4, 4), (6, 1)
"""Layers of encoder and decoder: those of the size tiny, and those of a student."""


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


TASKS = (
    Task(
        "multi30k",
        "Multi30k English-German",
        "multi30k",
        ("en", "de"),
        ("train", "val", "test_2016_flickr"),
        seeds=(1, 2),
    ),
    Task(
        "tatoeba",
        "Tatoeba English-Spanish",
        "tatoeba_en-es",
        ("en", "es"),
        ("train", "valid", "test"),
        seeds=(1,),
        pairs=60_000,
    ),
)


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
ROWS = (
    Row("teacher", "float32", BEAM),
    TEACHER,
    Row("teacher", "int8", 1),
    Row("student", "float32", BEAM),
    Row("student", "int8", BEAM),
    Row("student", "int8", 1),
    Row("student", "int8-shortlist", 1),
    STUDENT,
)


# Models


def train_models(task: Task, updates: int, student_updates: int) -> None:
    """Train the teachers, then students on their translations."""
    task.runs.mkdir(parents=True, exist_ok=True)
    if task.pairs and not task.find_files(0)[1].exists():
        pairs = list(zip(*map(lines, replace(task, pairs=None).find_files(0)), strict=True))
        sources, targets = zip(*random.Random(1).sample(pairs, task.pairs), strict=True)
        write_pairs(task.runs / "train", list(sources), list(targets))
    for seed, run in zip(task.seeds, task.teachers, strict=True):
        train_on_pairs(task, run, PLAIN, seed, updates)
    distill(task, "student", task.teachers, DEEP_ENCODER, student_updates)
    if len(task.seeds) > 1:
        distill(task, "equal", task.teachers, PLAIN, updates)


def train_on_pairs(task: Task, run: Path, layers: tuple[int, int], seed: int, updates: int) -> None:
    """Train a model on the pairs of people, unless that was done; a run that was interrupted goes on."""
    source, target = task.find_files(0)
    if (run / "run.toml").exists():
        if not (run / "average").exists():
            command("train", run / "run.toml", "--out", run, "--resume")
    else:
        command("train", "--source", source, "--target", target, *common_options(task, run, layers, seed, updates))


def distill(task: Task, name: str, teachers: list[Path], layers: tuple[int, int], updates: int) -> None:
    """Make a student of the teachers as one, unless that was done; one that was interrupted goes on."""
    run, models = task.runs / name, [teacher / "best" for teacher in teachers]
    if not (run / "average").exists():
        # What the same teachers wrote for another student is there already.
        done = next(task.runs.glob("*/data/translations.jsonl"), None)
        if done and not (run / "data").exists():
            (run / "data").mkdir(parents=True)
            shutil.copy(done, run / "data")
        options = [
            "--beam",
            BEAM,
            "--length-penalty",
            LENGTH_PENALTY,
            "--no-export",
            *common_options(task, run, layers, 1, updates),
        ]
        command("distill", *models, "--source", task.find_files(0)[0], *options)


def common_options(task: Task, run: Path, layers: tuple[int, int], seed: int, updates: int) -> Iterator[Any]:
    """Yield the options that trainings with and without a teacher share."""
    dev_source, dev_target = task.find_files(1)
    yield from ("--dev-source", dev_source, "--dev-target", dev_target, "--out", run, "--steps", updates)
    for setting in (
        f"seed={seed}",
        f"train.evaluate_every={updates}",
        "train.precision=bfloat16",
        f"model.encoder_layers={layers[0]}",
        f"model.decoder_layers={layers[1]}",
    ):
        yield from ("--set", setting)


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
    return (task.teachers[0] if model == "teacher" else task.runs / "student") / "best"


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
            for side in ("source", "target"):
                how += [f"--shortlist-{side}", str(directory.parent / "data" / f"train.{side}")]
        command("export", directory, out, "--to", *how)
    return out


def measure_speeds(task: Task) -> dict[str, Any]:
    """Return settings, speeds and texts of each row: all rows in turns, in one process; kept in a file."""
    path = task.runs / "speed.json"
    if not path.exists():
        sources, _ = task.test
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


def page_lines(updates: int, student_updates: int) -> Iterator[str]:
    """Yield the lines of the results page."""
    yield "# Students: quality against speed and size\n"
    yield f"`python -m benchmarks.students --updates {updates} --student-updates {student_updates}`"
    yield f"on {machine()}, ctranslate2 {version('ctranslate2')}; {time.strftime('%Y-%m-%d')}.\n"
    yield METHOD.format(
        updates=updates,
        student_updates=student_updates,
        beam=BEAM,
        penalty=LENGTH_PENALTY,
        rounds=ROUNDS,
        cores=CORES,
        batches=", ".join(map(str, BATCHES)),
    )
    yield "![chrF against sentences per second](students.svg)"
    for task in TASKS:
        if not (task.runs / "speed.json").exists():
            continue
        pairs = f"{task.pairs:,} pairs drawn at random" if task.pairs else "all pairs"
        yield f"\n## {task.title}: {len(task.test[0]):,} lines of {task.folder}/{task.splits[2]}\n"
        seeds = (
            f"teachers of the seeds {task.seeds}" if len(task.seeds) > 1 else f"one teacher, of seed {min(task.seeds)}"
        )
        yield f"Trained on {pairs}; {seeds}; each student is one run, of seed 1.\n"
        yield from model_lines(task)
        yield ""
        yield from speed_lines(task)


METHOD = """\
Each model is of the size tiny and is trained with what the commands choose for the data; its last weights are
measured. A teacher has 4 encoder and 4 decoder layers and gets {updates:,} updates. All teachers of a task together
translate its training text with beam {beam} and length penalty {penalty}, as they do for all rows. `pellucid distill`
trains the student on that: 6 encoder layers, 1 decoder layer, {student_updates:,} updates; it is exported in int8 with
a shortlist learned from the same text. *Equal* learns from the same text, with a teacher's layers and updates. *Of
people* has the student's layers and updates and learns from the translations of people; it is as fast as the student,
so where it is better, these teachers were not needed.

"Better", "worse" and "not told apart" are the verdict of the paired test of `pellucid compare` (1,000 samples): it asks
about other test sentences, not about other seeds. BLEU (13a, cased) and chrF are those of the test set.

Speed: sentences per second of the whole test file, from lines to lines in a Python process that has loaded the model,
on {cores} cores; {rounds} rounds in which all rows take turns, the median with the lowest and the highest in brackets.
*Times*: the row divided by the teacher in int8 with beam {beam} of the same round. CTranslate2 is its own Python API
with SentencePiece; of the batches {batches}, and of {cores} workers of one thread and one worker of {cores}, the
fastest are taken for each row, and CTranslate2 sorts the file by length. MB: weights, vocabularies and shortlist on
disk. The engine of Firefox is missing, as it cannot run these models: its decoder is a recurrent one (SSRU), and
Marian's position encoding has other frequencies.
"""


def model_lines(task: Task) -> Iterator[str]:
    """Yield the quality of each model in float32, against the first teacher."""
    names = {f"teacher, seed {seed}": [run] for seed, run in zip(task.seeds, task.teachers, strict=True)}
    if len(task.seeds) > 1:
        names["the teachers together"] = task.teachers
        names["equal: the teacher's layers, of what they write"] = [task.runs / "equal"]
    names["student"] = [task.runs / "student"]
    names["of people: the student's layers"] = [task.runs / "people"]
    texts = {
        name: translate_test(task, "+".join(run.name for run in runs), [run / "best" for run in runs])
        for name, runs in names.items()
    }
    [base, *_] = texts.values()
    yield f"| model, float32, beam {BEAM} | BLEU | chrF | BLEU against the first | chrF against the first |"
    yield "|---|---|---|---|---|"
    for name, hypotheses in texts.items():
        yield f"| {name} | {' | '.join(score_cells(task, base, hypotheses))} |"


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
    """Yield speed, size and quality of each row, and what the figure asks for."""
    results = measure_speeds(task)
    base = results[ROWS[0].name]["texts"]
    yield (
        "| model, engine, search | batch, workers | sentences/s | times | MB "
        "| BLEU | chrF | BLEU against the first | chrF against the first |"
    )
    yield "|---" * 9 + "|"
    for row in ROWS:
        result = results[row.name]
        times = pair_ratios(results, row)
        cells = [
            f"{result['batch']}, {result['workers']}" if row.form else "its own",
            spread(result["speeds"], "{:,.0f}"),
            spread(times, "{:.2f}"),
            f"{megabytes(task, row):.1f}",
            *score_cells(task, base, result["texts"]),
        ]
        yield f"| {row.name} | {' | '.join(cells)} |"
    yield ""
    scores = compare_translations(base, results[STUDENT.name]["texts"], task.test[1]).scores
    times = statistics.median(pair_ratios(results, STUDENT))
    yield f"Asked for: {STUDENT.name}, 4 times as fast as {TEACHER.name},"
    yield "with chrF at most 0.5 lower than the teacher in float32."
    yield f"Measured: {times:.2f} times, chrF {scores['chrf'].difference.score:+.2f}."


def pair_ratios(results: dict[str, Any], row: Row) -> list[float]:
    """Return the speed of a row over that of the teacher, round by round."""
    pairs = zip(results[row.name]["speeds"], results[TEACHER.name]["speeds"], strict=True)
    return [speed / rival for speed, rival in pairs]


def spread(values: list[float], form: str) -> str:
    """Return the median, and the lowest and the highest in brackets."""
    median, low, high = map(form.format, (statistics.median(values), min(values), max(values)))
    return f"{median} ({low}-{high})"


def draw_page_figure(path: Path) -> None:
    """Draw chrF against sentences per second; the size in MB stands beside each point."""
    tasks = [task for task in TASKS if (task.runs / "speed.json").exists()]
    figure = empty_figure(7.5, 4.2 * len(tasks))
    for axes, task in zip(figure.subplots(len(tasks), 1, squeeze=False)[:, 0], tasks, strict=True):
        results = measure_speeds(task)
        for number, row in enumerate(ROWS, start=1):
            speed = statistics.median(results[row.name]["speeds"])
            texts = results[row.name]["texts"]
            chrf = compare_translations(texts, texts, task.test[1], samples=1).scores["chrf"].a.score
            colour, marker = (BLUE, "o") if row.model == "teacher" else (VERMILION, "s")
            axes.plot(speed, chrf, marker, color=colour, label=f"{number}: {row.name}, {megabytes(task, row):.1f} MB")
            axes.annotate(f" {number}", (speed, chrf))
        axes.set_xscale("log")
        axes.set_title(task.title)
        axes.set_xlabel("sentences a second")
        axes.set_ylabel("chrF")
        tidy_axes(axes)
        axes.legend(frameon=False, fontsize=7, handlelength=1, loc="center left", bbox_to_anchor=(1.0, 0.5))
    write_figure(figure, path)


def main() -> None:
    """Train what is missing, measure, and write the page and its figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [task.name for task in TASKS]
    parser.add_argument("--task", choices=names, action="append", help="only this one; can be repeated")
    parser.add_argument("--updates", type=int, default=1500, help="of each teacher, and of the model of its size")
    parser.add_argument("--student-updates", type=int, default=4500, help="of models with the layers of a student")
    parser.add_argument("--train-only", action="store_true", help="measure nothing yet")
    options = parser.parse_args()
    if "PELLUCID_DATA" not in os.environ:
        sys.exit("PELLUCID_DATA must name the folder that holds multi30k and tatoeba_en-es")
    tasks = [task for task in TASKS if task.name in (options.task or names)]
    for task in tasks:
        train_models(task, options.updates, options.student_updates)
        for row in ROWS:
            find_export(task, row.model, row.form or "int8-shortlist")
            find_export(task, row.model, "marian")
    for task in tasks:
        # The student's layers without a teacher: last, for the other measurements do not need it.
        train_on_pairs(task, task.runs / "people", DEEP_ENCODER, 1, options.student_updates)
    if not options.train_only:
        for task in tasks:
            measure_speeds(task)
        draw_page_figure(RESULTS / "students.svg")
        page = "\n".join(page_lines(options.updates, options.student_updates)) + "\n"
        (RESULTS / "students.md").write_text(page, encoding="utf-8")
        print(page)


if __name__ == "__main__":
    main()
