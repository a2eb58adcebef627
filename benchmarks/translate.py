"""Speed of translation: one set of weights in every engine, in turns, each in a process of its own.

    python -m benchmarks.translate                      # runs/multi30k/best and runs/tatoeba/best, PELLUCID_DATA
    python -m benchmarks.translate --model runs/demo/best --source book.en --reference book.es

Peers get the model by our own exports and have a virtual environment of their own, both under runs/peers. Writes
benchmarks/results/translate.md. On a quiet machine only.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.quality import RESULTS
from benchmarks.translate_page import SEARCHES, page_lines
from benchmarks.translate_row import CORES
from benchmarks.translate_setup import FLOAT32, INT8, ROWS, Row, Task, environments, prepare_task, say

HERE = Path(__file__).parent


def main() -> None:
    """Prepare, measure round by round, and write the page."""
    options, tasks = parse_options(sys.argv[1:])
    pythons = environments()
    for task in tasks:
        prepare_task(task, pythons, options.lines, options.long)
    start = time.monotonic()
    for number in range(options.rounds):
        for task in tasks:
            # All rows in every round: a drift of the machine's speed then meets all of them.
            for row in ROWS:
                measure_row(row, task, options, pythons, whole=number == 0 or not row.slow)
        for name, command in list_commands(tasks[0], options, pythons).items():
            seconds = time_command(command, output=tasks[0].exports / "long.out")
            tasks[0].commands.setdefault(name, []).append(seconds)
            say(f"{tasks[0].model}, {name}: {seconds:.1f} s")
        say(f"round {number + 1} of {options.rounds} done after {(time.monotonic() - start) / 60:.1f} minutes")
    text = "\n".join(page_lines(tasks, options, time.monotonic() - start)).strip() + "\n"
    options.out.write_text(text, encoding="utf-8")
    print(text)


def parse_options(arguments: list[str]) -> tuple[argparse.Namespace, list[Task]]:
    """Parse the options, and return them with the models they name."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.translate")
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        help="a model directory; may be given several times",
    )
    parser.add_argument("--source", action="append", default=[], help="its test set, one for each --model")
    parser.add_argument("--reference", action="append", default=[], help="and that translated by people")
    parser.add_argument("--rounds", type=int, default=3, help="times everything is measured")
    parser.add_argument("--lines", type=int, default=1000, help="lines of the test set that are translated")
    parser.add_argument("--batched", type=int, default=128, help="of them in batches of 32")
    parser.add_argument("--single", type=int, default=30, help="of them one at a time")
    parser.add_argument(
        "--long", type=int, default=5000, help="lines of the file that whole commands translate, with the first model"
    )
    parser.add_argument("--beam", type=int, default=4, help="beam of the searches that are not greedy")
    parser.add_argument("--out", type=Path, default=RESULTS / "translate.md", help="the page to write")
    options = parser.parse_args(arguments)
    if not options.model:
        data = os.environ.get("PELLUCID_DATA") or parser.error("PELLUCID_DATA is not set; or name a --model")
        tests = {"multi30k": ("multi30k/test_2016_flickr", "de"), "tatoeba": ("tatoeba_en-es/test", "es")}
        for name in [name for name in tests if Path("runs", name, "best").is_dir()]:
            test, language = tests[name]
            options.model.append(f"runs/{name}/best")
            options.source.append(f"{data}/{test}.en.gz")
            options.reference.append(f"{data}/{test}.{language}.gz")
        if not options.model:
            parser.error("there is neither runs/multi30k/best nor runs/tatoeba/best: train a recipe, or name a --model")
    if not len(options.model) == len(options.source) == len(options.reference):
        parser.error("each --model needs a --source and a --reference")
    models = zip(options.model, options.source, options.reference, strict=True)
    return options, [Task(Path(model), source, reference) for model, source, reference in models]


def measure_row(row: Row, task: Task, options: argparse.Namespace, pythons: dict[str, Path], whole: bool) -> None:
    """Measure one row once, in a process of its own."""
    job = {
        "engine": row.engine,
        "model": str(task.exports / row.export if row.peer else task.model),
        "exported": str(task.exports / row.export) if row.export and not row.peer else None,
        "vocabulary": str(task.exports / "marian"),
        "precision": row.precision,
        "source": str(task.exports / "source.txt"),
        "batched": options.batched,
        "single": options.single,
        "beam": options.beam,
        "batch": row.batch,
        "whole": whole,
        "started": time.monotonic(),
    }
    command = [pythons[row.peer], HERE / "translate_row.py", json.dumps(job)]
    process = subprocess.run(command, check=True, env=clean_environment(), text=True, stdout=subprocess.PIPE)
    result = json.loads(process.stdout.splitlines()[-1])
    task.rows.setdefault(row.name, []).append(result)
    rates = (f"{search} {result[search].get('whole', result[search]['batches']):,.0f}/s" for search in SEARCHES)
    say(f"{task.model}, {row.name}: {', '.join(rates)}")


def list_commands(task: Task, options: argparse.Namespace, pythons: dict[str, Path]) -> dict[str, list[Any]]:
    """Return the commands with which a user would have a file translated."""
    file, beam = task.exports / "long.txt", ["--beam", str(options.beam)]

    def script_command(name: str, tuned: bool = True) -> list[Any]:
        [row] = [row for row in ROWS if row.name == name]
        # Zeros and ones are CTranslate2's defaults: one worker, and the file as one batch.
        batch, workers = (row.batch, CORES) if tuned else (0, 1)
        arguments = (task.exports / row.export, task.exports / "marian", file, options.beam, batch, workers)
        return [pythons["peers"], HERE / "ctranslate2_file.py", *map(str, arguments)]

    def pellucid_command(*more: str | Path) -> list[Any]:
        return [sys.executable, "-m", "pellucid", "translate", task.model, file, *beam, *more]

    return {
        FLOAT32: script_command(FLOAT32),
        f"{FLOAT32}, its defaults": script_command(FLOAT32, tuned=False),
        "`pellucid translate`": pellucid_command(),
        "`pellucid translate --exported`, float32, shortlist": pellucid_command(
            "--exported", task.exports / "float32-shortlist"
        ),
        INT8: script_command(INT8),
        f"{INT8}, its defaults": script_command(INT8, tuned=False),
        "`pellucid translate --precision int8`": pellucid_command("--precision", "int8"),
        "`pellucid translate --exported`, int8, shortlist": pellucid_command(
            "--exported", task.exports / "int8-shortlist"
        ),
    }


def time_command(command: list[Any], output: Path) -> float:
    """Return the seconds of a command from start to end, with its output going to a file."""
    with output.open("wb") as file:
        start = time.monotonic()
        subprocess.run(command, check=True, env=clean_environment(), stdout=file)
        return time.monotonic() - start


def clean_environment() -> dict[str, str]:
    """Return the environment without limits on threads, and without a network to ask."""
    excluded = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONPATH", "VIRTUAL_ENV")
    variables = {key: value for key, value in os.environ.items() if key not in excluded}
    return {**variables, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONWARNINGS": "ignore"}


if __name__ == "__main__":
    main()
