"""Times searching in this checkout beside another checkout, in pairs: the same models, texts, beams and batches.

    python -m benchmarks.one_model OTHER [--model runs/demo/best] [--rounds 9] [--threads 1 2]
        [--page benchmarks/results/one-model.md]

OTHER is a checkout of an earlier commit (`git worktree add ../before 83d6827`). Each checkout runs in a process of its
own and loads the same model directories; the two take turns at every measurement, and who begins changes each round.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"tiny": ("the model given",), "small": (256, 1024, 4, 3), "base": (512, 2048, 8, 6)}
WORDS = (11, 46)
"""Words of a sentence, which are about 15 and 60 tokens."""

WORKER = """
import json, sys, time, resource
import torch
torch.set_num_threads(int(sys.argv[1]))
import pellucid
models = {}
for line in sys.stdin:
    job = json.loads(line)
    if job["directory"] not in models:
        models[job["directory"]] = pellucid.load(job["directory"], engine="torch")
    model = models[job["directory"]]
    cpu, wall = time.process_time(), time.perf_counter()
    translations = model.translate(job["lines"], beam=job["beam"], batch=job["batch"], max_extra=20, repetition="keep")
    took = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    took["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took["texts"] = [translation.text for translation in translations]
    took["scores"] = [translation.score for translation in translations]
    took["pieces"] = sum(len(translation.pieces) for translation in translations)
    print(json.dumps(took), flush=True)
"""


def main() -> None:
    """Measure every cell and write the page."""
    options = parse_options(sys.argv[1:])
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        models = {
            size: options.model if size == "tiny" else save_random_model(options.model, size, Path(folder))
            for size in SIZES
        }
        for threads in options.threads:
            workers = [start_worker(checkout, threads) for checkout in (options.other, ROOT)]
            for size, directory in models.items():
                for beam in (1, 4):
                    for words in WORDS:
                        for batch in (1, 32):
                            rows.append(
                                measure_cell(workers, directory, size, beam, words, batch, threads, options.rounds)
                            )
                            print(rows[-1], flush=True)
            job = make_job(models["tiny"], 1, WORDS[0], 1)
            memory = [run_job(worker, job)["memory"] / 1024 for worker in workers]
            rows.append(
                f"| peak memory of the process | | | | {threads} | {memory[0]:,.0f} MB "
                f"| {memory[1] / memory[0]:.2f} | | |"
            )
            for worker in workers:
                worker.terminate()
    options.page.write_text("\n".join(page_lines(options, rows)) + "\n", encoding="utf-8")


def parse_options(words: list[str]) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one_model", description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads to measure with")
    parser.add_argument("other", type=Path, help="checkout of the commit to compare with")
    parser.add_argument("--model", type=Path, default=ROOT / "runs" / "demo" / "best", help="a trained tiny model")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--page", type=Path, default=ROOT / "benchmarks" / "results" / "one-model.md")
    return parser.parse_args(words)


def save_random_model(trained: Path, size: str, folder: Path) -> Path:
    """Save an untrained model of this size with the tokenizer of the trained one; its outputs run to the limit."""
    import torch

    from pellucid.model import ModelConfig, Transformer
    from pellucid.store.directory import load_bundle, save_bundle

    d_model, d_ff, heads, layers = SIZES[size]
    tokenizer = load_bundle(trained).tokenizer
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"d_model": d_model, "d_ff": d_ff, "heads": heads}
    config = ModelConfig(
        tokenizer.source_vocabulary, tokenizer.target_vocabulary, encoder_layers=layers, decoder_layers=layers, **sizes
    )
    model = Transformer(config).eval()
    with torch.no_grad():
        model.output_embedding.weight.mul_(4.0)  # sharper, or two hypotheses differ by less than rounding
    save_bundle(folder / size, model, tokenizer, step=0)
    return folder / size


def start_worker(checkout: Path, threads: int) -> "subprocess.Popen[str]":
    """Start a process that translates with the code of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    words = [sys.executable, "-W", "ignore", "-c", WORKER, str(threads)]
    return subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def make_job(directory: Path, beam: int, words: int, batch: int) -> dict[str, Any]:
    """Return the job of one cell: as many sentences as the batch holds, made of the phrasebook's."""
    from itertools import islice

    from pellucid.demo.phrasebook import generate_phrases

    text = " ".join(pair.source for pair in islice(generate_phrases(seed=11), 400)).split()
    lines = [" ".join(text[n * words : (n + 1) * words]) for n in range(batch)]
    return {"directory": str(directory), "beam": beam, "batch": batch, "lines": lines}


def run_job(worker: "subprocess.Popen[str]", job: dict[str, Any]) -> dict[str, Any]:
    """Let a worker translate once."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    print(json.dumps(job), file=worker.stdin, flush=True)
    return json.loads(worker.stdout.readline())


def measure_cell(
    workers: list["subprocess.Popen[str]"],
    directory: Path,
    size: str,
    beam: int,
    words: int,
    batch: int,
    threads: int,
    rounds: int,
) -> str:
    """Return a row of the table: the time before, two ratios, how many texts are equal, how far scores differ."""
    job = make_job(directory, beam, words, batch)
    clock = "cpu" if threads == 1 else "wall"
    before, after = (run_job(worker, job) for worker in workers)  # whatever is made once is made now
    rounds = rounds if before["wall"] < 2 else max(3, rounds // 3)
    times: list[list[float]] = [[], []]
    for n in range(rounds):
        for which in (0, 1) if n % 2 else (1, 0):
            times[which].append(run_job(workers[which], job)[clock])
    ratio = min(times[1]) / min(times[0])
    typical = median(new / old for old, new in zip(*times, strict=True))
    equal = sum(old == new for old, new in zip(before["texts"], after["texts"], strict=True))
    apart = max(abs(old - new) for old, new in zip(before["scores"], after["scores"], strict=True))
    search = "greedy" if beam == 1 else f"beam {beam}"
    return (
        f"| {size} | {search} | {words} | {batch} | {threads} | {1000 * min(times[0]):,.1f} ms "
        f"| {ratio:.2f} | {typical:.2f} | {equal} of {batch}, {apart:.0e} |"
    )


def page_lines(options: argparse.Namespace, rows: list[str]) -> list[str]:
    """Return the lines of the results page."""
    commits = [
        subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=place, capture_output=True, text=True
        ).stdout.strip()
        for place in (options.other, ROOT)
    ]
    return [
        "# Searching with the model itself",
        "",
        f"    python -m benchmarks.one_model OTHER --rounds {options.rounds} --threads "
        f"{' '.join(map(str, options.threads))}",
        "",
        f"Before: commit {commits[0]}, whose searches ran a second decoder. After: {commits[1]}, whose searches run "
        f"the model. {platform.processor() or platform.machine()}, {os.cpu_count()} processors, torch, float32. CPU "
        "time with one thread, wall time with two. `tiny` is the demo's model; `small` and `base` have random weights, "
        "so that their sentences run to the limit. A ratio above 1 means that the model itself takes longer.",
        "",
        "| model | search | words | batch | threads | least before | ratio of the least | median ratio of pairs "
        "| same texts, largest difference of scores |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows,
    ]


if __name__ == "__main__":
    main()
