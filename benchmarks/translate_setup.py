"""Setup of benchmarks/translate.py: the engines with their settings, the exports of the model, the peers."""

import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pellucid
from benchmarks.quality import HOUSE
from pellucid.data.corpus import read_lines

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


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
