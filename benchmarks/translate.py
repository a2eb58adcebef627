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
import tomllib
import venv
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pellucid
from benchmarks.quality import RESULTS
from benchmarks.translate_page import FLOAT32, INT8, PACKAGES, PEERS, ROWS, SEARCHES, Row, Task, page_lines
from benchmarks.translate_row import CORES
from pellucid.data.corpus import read_lines

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


def environments() -> dict[str, Path]:
    """Return the Python of each virtual environment, made if needed; our own has no name."""
    return {"": Path(sys.executable)} | {name: make_environment(name) for name in PACKAGES}


def make_environment(name: str, packages: tuple[str, ...] | None = None) -> Path:
    """Return the Python of a virtual environment, made if needed, with the packages named here or given."""
    folder, packages = PEERS / f".venv-{name}", packages or PACKAGES[name]
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    record = folder / "packages.txt"
    if not record.exists() or record.read_text(encoding="utf-8").split() != list(packages):
        say(f"making {folder} with {', '.join(packages)}, once")
        venv.create(folder, with_pip=True, clear=True)
        pip = [python, "-m", "pip", "install", "--no-input", "-qq"]
        # First and without dependencies: the index may have torch for this machine, and nothing else.
        if index := os.environ.get("TORCH_INDEX"):
            subprocess.run([*pip, "--no-deps", "--index-url", index, packages[0]], check=True)
        subprocess.run([*pip, *packages], check=True)
        record.write_text("\n".join(packages) + "\n", encoding="utf-8")
    return python


def prepare_task(task: Task, pythons: dict[str, Path], lines: int, long: int) -> None:
    """Export the model in every form; write the sentences as plain text, and `long` others, all different."""
    task.exports.mkdir(parents=True, exist_ok=True)
    sources = list(islice(read_lines(task.source), lines))
    write_lines(task.exports / "source.txt", sources)
    # All different: an engine could otherwise gain by repeated lines.
    distinct = list(islice(dict.fromkeys(read_lines(training_files(task.model)[0])), long))
    if len(distinct) < long:
        raise SystemExit(
            f"{training_files(task.model)[0]} has {len(distinct):,} different lines; ask for as many with --long"
        )
    write_lines(task.exports / "long.txt", distinct)
    sides = zip(("--shortlist-source", "--shortlist-target"), training_files(task.model), strict=True)
    shortlist, ctranslate2 = [word for side in sides for word in side], ["--to", "ctranslate2"]
    for name, options in {
        "marian": ["--to", "marian"],
        "float32": ctranslate2,
        "float32-shortlist": [*ctranslate2, "--no-gate", *shortlist],
        "int8": [*ctranslate2, "--precision", "int8", "--no-gate"],
        "int8-shortlist": [*ctranslate2, "--precision", "int8", "--no-gate", *shortlist],
    }.items():
        say(f"exporting {task.model} as {name}")
        command = [sys.executable, "-m", "pellucid", "export", task.model, task.exports / name, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for precision in ("float32", "int8"):
        pellucid.load(
            task.model, precision, engine="ctranslate2"
        )  # so that no timed row has to convert the model first
    say(f"exporting {task.model} as onnx")
    command_to_onnx = [pythons["onnx"], "-W", "ignore", "-c", TO_ONNX, task.exports / "marian", task.exports / "onnx"]
    subprocess.run(command_to_onnx, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


TO_ONNX = """
import sys
from optimum.onnxruntime import ORTModelForSeq2SeqLM
from transformers import AutoTokenizer
ORTModelForSeq2SeqLM.from_pretrained(sys.argv[1], export=True).save_pretrained(sys.argv[2])
AutoTokenizer.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2])
"""


def training_files(model: Path) -> tuple[str, str]:
    """Return the training data that the run beside the model names; a shortlist is made from it."""
    data = tomllib.loads((model.parent / "run.toml").read_text(encoding="utf-8"))["data"]
    return data["source"], data["target"]


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


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


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
