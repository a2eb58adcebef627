"""Training and translation beside programs that take all the processor they can get: what share of the speed is left.

    python -m benchmarks.busy [--only TEXT] [--rounds 3] [--seconds 8] [--page benchmarks/results/busy.md]

Each job runs in two processes that take turns: one shares the processor as Pellucid does (`pellucid.cpu`), the
other leaves torch's threads as they come. A loop around `torch.nn.Transformer` is measured as it comes. Translation
needs `runs/demo/best`, made by `make demo`.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "runs" / "demo" / "best"
BUSY_PROGRAMS = (0, 2, 6)
VOCABULARY = 8000
LINES = 64
"""Sentences that are translated in one go, which is one batch on one of the engines' threads and two on two."""

JOBS = (
    *(f"train {size} {budget}" for size in ("tiny", "small") for budget in (1024, 4096)),
    "nn.Transformer tiny 1024",
    "translate torch",
    "translate ctranslate2",
    "serve auto",
)
ORDERS = ("ours", "as it comes")
"""How torch's threads wait for each other: as `pellucid.cpu` arranges it, or as torch has it."""
FIRST = {"ours": "", "as it comes": "import pellucid.cpu; pellucid.cpu._started.acquire(); "}
RUN = "runpy.run_module('benchmarks.busy', run_name='__main__')"


def main() -> None:
    """Measure every job beside 0, 2 and 6 busy programs and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="measure the jobs whose name contains this text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--page", type=Path, default=ROOT / "benchmarks" / "results" / "busy.md")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(*options.worker)
        return
    began = time.monotonic()
    rows = []
    for job in (name for name in JOBS if options.only in name):
        rows += measure_job(job, options.rounds, options.seconds)
        print("\n".join(rows[-2:]), file=sys.stderr, flush=True)
    text = "\n".join([*page_head(options, time.monotonic() - began), *rows]) + "\n"
    options.page.write_text(text, encoding="utf-8")
    print(text)


def measure_job(job: str, rounds: int, seconds: float) -> list[str]:
    """Return the rows of one job: a speed for each number of busy programs, and its share of the quiet speed."""
    orders = ORDERS[1:] if job.startswith("nn.") else ORDERS
    workers = {order: start_worker(job, order) for order in orders}
    speeds: dict[tuple[str, int], list[float]] = {}
    for busy in BUSY_PROGRAMS:
        programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
        try:
            for number in range(rounds):
                for order in list(workers)[:: -1 if number % 2 else 1]:
                    speeds.setdefault((order, busy), []).append(ask_speed(workers[order], seconds))
        finally:
            for program in programs:
                program.kill()
                program.wait()
    for worker in workers.values():
        worker.communicate(timeout=60)
    return [row(job, order, [median(speeds[order, busy]) for busy in BUSY_PROGRAMS]) for order in orders]


def row(job: str, order: str, speeds: list[float]) -> str:
    """Return one row of the table."""
    quiet, *beside = speeds
    cells = [f"{quiet:,.0f}", *(f"{speed:,.0f} ({speed / quiet:.0%})" for speed in beside)]
    return f"| {job} | {order} | {' | '.join(cells)} |"


def start_worker(job: str, order: str) -> subprocess.Popen[str]:
    """Start a process that measures a job whenever it is asked."""
    command = [sys.executable, "-c", f"{FIRST[order]}import runpy; {RUN}", "--worker", job, order]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n", f"{job}: the process did not start"
    return worker


def ask_speed(worker: subprocess.Popen[str], seconds: float) -> float:
    """Return the speed that a worker measures within so many seconds."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    print(seconds, file=worker.stdin, flush=True)
    return float(worker.stdout.readline())


def work(job: str, order: str) -> None:
    """Do a job for as many seconds as each line of standard input says; answer with tokens or sentences a second."""
    kind, *rest = job.split()
    with_step: dict[str, Callable[..., Iterator[float]]] = {
        "train": train,
        "nn.Transformer": train_peer,
        "translate": translate,
        "serve": serve,
    }
    steps = with_step[kind](*rest, *([order] if kind == "serve" else []))
    next(steps)  # what the first step sets up is not counted
    print("ready", flush=True)
    for line in sys.stdin:
        started, amount = time.perf_counter(), 0.0
        while (elapsed := time.perf_counter() - started) < float(line):
            amount += next(steps)
        print(amount / elapsed, flush=True)


def example_batches(budget: str) -> Iterator[Any]:
    """Yield batches of random pieces, in sentences about as long as captions: 14 pieces, give or take 5."""
    import numpy as np

    from pellucid.data.batching import EncodedPairs, pack_sentences
    from pellucid.data.stream import Stream

    random = np.random.default_rng(1)

    lengths = random.normal(14, 5, 20_000).clip(4, 40)

    def sentences() -> list[list[int]]:
        """Return one side: a sentence and its translation differ in length by a tenth or so."""
        own = (lengths * random.normal(1, 0.1, len(lengths))).clip(4, 44).astype(int)
        return [[*random.integers(260, VOCABULARY, length - 1), 3] for length in own]

    sides = (pack_sentences(sentences(), np.uint16) for _ in range(2))
    return Stream(EncodedPairs(*sides), int(budget), seed=1)


def train(size: str, budget: str) -> Iterator[float]:
    """Yield the target tokens of one update after another."""
    import torch

    from pellucid.model import PRESETS, ModelConfig, Transformer
    from pellucid.training.config import OptimConfig
    from pellucid.training.optimizer import make_optimizer
    from pellucid.training.process import tune_memory
    from pellucid.training.update import update_weights

    tune_memory()
    torch.manual_seed(1)
    model = Transformer(ModelConfig(VOCABULARY, VOCABULARY, dropout=0.1, **PRESETS[size])).train()
    config = OptimConfig()
    optimizer = make_optimizer(model, config)
    for batch in example_batches(budget):
        yield update_weights(model, optimizer, [batch], 1e-4, config, "float32").target_tokens


def train_peer(size: str, budget: str) -> Iterator[float]:
    """Yield the target tokens of one update after another of the loop that tutorials show."""
    import torch
    import torch.nn.functional as F

    from benchmarks.train_row import Plain
    from pellucid.model import PRESETS

    torch.manual_seed(1)
    model = Plain(VOCABULARY, dict(PRESETS[size])).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for batch in example_batches(budget):
        logits = model(batch.source, batch.target_in)
        loss = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=0, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield batch.target_tokens


def example_lines() -> list[str]:
    """Return sentences of the phrasebook."""
    from pellucid.demo.phrasebook import generate_phrases

    return [phrase.source for phrase in islice(generate_phrases(seed=5), LINES)]


def translate(engine: Literal["torch", "ctranslate2"]) -> Iterator[float]:
    """Yield the number of sentences of one translation after another."""
    import pellucid

    model, lines = pellucid.load(DEMO, engine=engine), example_lines()
    while True:
        yield len(model.translate(lines))


def serve(engine: str, order: str) -> Iterator[float]:
    """Yield the number of sentences of one request after another to a server of the same kind."""
    from urllib.request import Request, urlopen

    program = f"{FIRST[order]}from pellucid.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", str(DEMO), "--port", "0", "--engine", engine]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    address = next(word for line in server.stderr for word in line.split() if word.startswith("http://")).rstrip(".,;")
    body = json.dumps({"q": example_lines()[:8], "source": "auto", "target": "es"}).encode()
    request = Request(f"{address.rstrip('/')}/translate", body, {"Content-Type": "application/json"})
    try:
        while True:
            with urlopen(request) as answer:
                yield len(json.load(answer)["translatedText"])
    finally:
        server.terminate()
        server.communicate()


def page_head(options: argparse.Namespace, took: float) -> Iterator[str]:
    """Yield the head of the page: what was measured, where, and the columns."""
    import torch

    from benchmarks.quality import machine

    yield "# Beside busy programs\n"
    yield f"    python -m benchmarks.busy --rounds {options.rounds} --seconds {options.seconds:g}\n"
    yield f"{machine()}, {torch.get_num_threads()} threads; {time.strftime('%Y-%m-%d')}, {took / 60:.0f} minutes."
    yield "Target tokens a second of training, sentences a second of translation, alone and beside programs that take"
    yield f"all the processor they can get; medians of {options.rounds} rounds of {options.seconds:g} seconds. *ours*:"
    yield "as `pellucid.cpu` arranges it; *as it comes*: torch's threads spin while they wait for each other."
    yield "Beside two programs a fair share of two processors is 50 %, beside six 25 %.\n"
    yield f"| job | threads | alone | {' | '.join(f'beside {busy}' for busy in BUSY_PROGRAMS[1:])} |"
    yield f"|---|---|{'---|' * len(BUSY_PROGRAMS)}"


if __name__ == "__main__":
    main()
