"""Loss after equal updates, beside peers: the way that is fast learns as much from each update.

    python -m benchmarks.train_curves           # OMP_NUM_THREADS=1 --at-once 2, say; it need not be quiet

The same model from the same weights, the same budget of target pieces a batch, the same learning rates; what differs is
the code that trains. Writes benchmarks/results/train-curves.md and the picture beside it. Needs PELLUCID_DATA.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.quality import HOUSE, RESULTS, machine
from benchmarks.train import BATCH, PACKAGES, VOCABULARY, prepare_data
from benchmarks.translate_setup import make_environment
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.plots.figure import BLUE, GREEN, ORANGE, VERMILION, empty_figure, tidy_axes, write_figure

RUNS = {
    "Pellucid, float32": ("pellucid", "float32"),
    "Pellucid, bfloat16": ("pellucid", "bfloat16"),
    "`torch.nn.Transformer`, float32": ("nn_transformer", "float32"),
    "Hugging Face Marian, float32": ("hugging_face", "float32"),
}
STYLES = dict(zip(RUNS, ((BLUE, "-"), (VERMILION, "--"), (GREEN, ":"), (ORANGE, "-.")), strict=True))
*_, OTHER = RUNS
"""Another model: the norm after each sublayer, first weights as its authors draw them. It runs with one seed."""

Curves = dict[tuple[str, int], dict[str, Any]]
"""Losses and target pieces per update of each run, by name and seed."""


def main() -> None:
    """Train all, write the page and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="tiny", choices=list(PRESETS))
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--every", type=int, default=100, help="updates from one measurement to the next")
    parser.add_argument("--peak", type=float, default=2e-3, help="learning rate at the top of the warm-up")
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--at-once", type=int, default=1, help="runs that go at the same time")
    options = parser.parse_args()
    began, python = time.monotonic(), make_environment("train", PACKAGES["train"])
    runs = [(name, seed) for seed in range(1, options.seeds + 1) for name in RUNS if seed == 1 or name != OTHER]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.at_once) as pool:
        task = make_task(options, Path(folder))
        curves = dict(zip(runs, pool.map(lambda run: run_training(*run, task, python), runs), strict=True))
    draw(options, curves, RESULTS / "train-curves.svg")
    text = page(options, curves, time.monotonic() - began)
    (RESULTS / "train-curves.md").write_text(text, encoding="utf-8")
    print(text)


def make_task(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Make the task that all runs share; the weights that each seed begins with are written to the folder."""
    task, _ = prepare_data(folder)
    for seed in range(1, options.seeds + 1):
        torch.manual_seed(seed)
        model = Transformer(ModelConfig(VOCABULARY, VOCABULARY, **PRESETS[options.size]))
        np.savez(folder / f"start-{seed}.npz", **{name: weight.numpy() for name, weight in model.state_dict().items()})
    settings = {key: getattr(options, key) for key in ("updates", "every", "peak", "warmup")}
    return task | settings | {"size": dict(PRESETS[options.size]), "folder": str(folder)}


def run_training(name: str, seed: int, task: dict[str, Any], python: Path) -> dict[str, Any]:
    """Run one training, in a process of its own; return its result."""
    peer, precision = RUNS[name]
    start = "" if name == OTHER else f"{task['folder']}/start-{seed}.npz"
    arguments = json.dumps({**task, "peer": peer, "precision": precision, "seed": seed, "start": start})
    command = [
        python if name == OTHER else sys.executable,
        "-W",
        "ignore",
        "-m",
        "benchmarks.train_curves_row",
        arguments,
    ]
    process = subprocess.run(command, cwd=HOUSE, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(process.stdout.splitlines()[-1])


def draw(options: argparse.Namespace, curves: Curves, path: Path) -> None:
    """Loss against updates, a line a seed."""
    figure = empty_figure(6.4, 4.0)
    axes = figure.subplots()
    at = np.arange(0, options.updates + 1, options.every)
    for (name, seed), run in curves.items():
        colour, line = STYLES[name]
        label = name.replace("`", "") if seed == 1 else None
        axes.plot(at, run["losses"], color=colour, linestyle=line, linewidth=1.4, label=label)
    axes.set(xlabel="updates", ylabel="dev loss, nats a piece")
    axes.legend(frameon=False)
    tidy_axes(axes)
    write_figure(figure, path)


def page(options: argparse.Namespace, curves: Curves, took: float) -> str:
    """The results as Markdown."""
    at = range(0, options.updates + 1, options.every)
    pieces = options.updates * min(run["tokens"] for run in curves.values())
    command = "python -m benchmarks.train_curves" + "".join(
        f" --{key} {getattr(options, key.replace('-', '_')):g}"
        for key in ("updates", "every", "peak", "warmup", "seeds", "at-once")
    )
    lines = [
        "# Loss after equal updates",
        "",
        f"    {command}",
        "",
        f"{machine()}, {torch.get_num_threads()} thread a run; {time.strftime('%Y-%m-%d')}, {took / 60:.0f} minutes.",
        f"Multi30k en-de, the {options.size} size, joint vocabulary of {VOCABULARY:,} pieces, about {BATCH:,} target",
        f"pieces a batch, learning rate up to {options.peak:g} in {options.warmup} updates, then down as",
        "1 / sqrt(update); Adam, dropout and label smoothing 0.1, gradients of norm 1 at most. Pellucid and",
        "`torch.nn.Transformer` begin with the same weights, seed by seed, and drop in the same places; batches and",
        "random masks are each one's own. Marian is another model: it has the norm after each sublayer and begins as",
        "its authors have it. The code is that of the rows of [train.md](train.md).",
        "",
        "Cross-entropy of the dev pairs in nats a piece, computed alike for all (float32, no dropout, no label",
        "smoothing), the mean of all seeds and, where there are several, (least-most).",
        "Pellucid's budget counts padding and the peers' does not, so its updates have fewer pieces; the last column",
        "is after as many pieces as the run with the fewest learned from, on a straight line between measurements.",
        "",
        "![loss against updates](train-curves.svg)",
        "",
        f"| updates | {' | '.join(str(n) for n in at)} | target pieces an update | after {pieces:,.0f} pieces |",
        f"|---|{'---|' * (len(at) + 2)}",
    ]
    for name in RUNS:
        runs = [run for (of, _), run in curves.items() if of == name]
        cells = [spread(losses) for losses in zip(*(run["losses"] for run in runs), strict=True)]
        cells.append(f"{statistics.mean(run['tokens'] for run in runs):,.0f}")
        cells.append(spread(tuple(after(pieces, run, options.every) for run in runs)))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *apart(curves), ""])


def after(pieces: float, run: dict[str, Any], every: int) -> float:
    """The loss of a run when it had learned from so many target pieces.

    >>> after(150, {"tokens": 10, "losses": [5.0, 4.0, 3.0]}, every=10)
    3.5
    """
    losses = run["losses"]
    return float(np.interp(pieces / run["tokens"], np.arange(len(losses)) * every, losses))


def spread(losses: tuple[float, ...]) -> str:
    """The mean, and where there are several the ends.

    >>> spread((3.0,)), spread((3.0, 3.5))
    ('3.000', '3.250 (3.000-3.500)')
    """
    ends = f" ({min(losses):.3f}-{max(losses):.3f})" if len(losses) > 1 else ""
    return f"{statistics.mean(losses):.3f}{ends}"


def apart(curves: Curves) -> list[str]:
    """Return how far Pellucid's last losses are from those of `torch.nn.Transformer`, seed by seed."""
    *ours, peer, _ = RUNS
    last = {key: run["losses"][-1] for key, run in curves.items()}
    further = {name: [loss - last[peer, seed] for (of, seed), loss in last.items() if of == name] for name in ours}
    return [
        f"After the last update, {name} is {statistics.mean(differences):+.3f} from {peer}."
        for name, differences in further.items()
    ]


if __name__ == "__main__":
    main()
