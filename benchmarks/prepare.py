"""`pellucid prepare` and the stream at scale: pairs a second beside SentencePiece alone, memory and start-up by pairs.

    OMP_NUM_THREADS=1 python -m benchmarks.prepare --pairs 1000000 4000000 --folder /tmp/pairs

Writes phrasebook pairs into the folder (once), prepares and streams them in processes of their own, and writes
benchmarks/results/prepare.md. Speeds are by CPU time, all threads counted, so other work on the machine counts less.
"""

import argparse
import json
import multiprocessing
import shutil
import subprocess
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from benchmarks.quality import machine

VOCABULARY, BATCH_TOKENS, SAMPLE, BATCHES = 8000, 4096, 200_000, 2000
SEEDS = 1_000_000
"""Pairs written with one seed."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, nargs="+", default=[1_000_000, 4_000_000])
    options.add_argument("--folder", type=Path, required=True, help="for text and shards: 150 bytes a pair")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--child", nargs=2, metavar=("WHAT", "RUN.toml"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.child:
        what, run_file = chosen.child
        print(json.dumps({"prepare": preparing, "stream": streaming, "alone": alone}[what](run_file, chosen.workers)))
        return
    rows = []
    for pairs in chosen.pairs:
        run_file = written(chosen.folder, pairs)
        shutil.rmtree(shards_of(run_file), ignore_errors=True)
        prepared = child("prepare", run_file, chosen.workers)
        rows.append({"pairs": pairs, "alone": child("alone", run_file, chosen.workers), **prepared})
        rows[-1] |= {"shards": child("stream", run_file, chosen.workers)}
        rows[-1] |= {"disk": sum(path.stat().st_size for path in shards_of(run_file).iterdir())}
        print(json.dumps(rows[-1]))
    page = Path(__file__).parent / "results" / "prepare.md"
    page.write_text(described(rows, chosen.workers), encoding="utf-8")


def written(folder: Path, pairs: int) -> Path:
    """A run file beside its corpus; each million of pairs has a seed of its own."""
    from pellucid.data.phrasebook import generate_phrases

    folder.mkdir(parents=True, exist_ok=True)
    names = [folder / f"{pairs}.{language}" for language in ("en", "es")]
    if not all(name.exists() for name in names):
        beside = [name.with_suffix(name.suffix + ".new") for name in names]
        with beside[0].open("w", encoding="utf-8") as source, beside[1].open("w", encoding="utf-8") as target:
            for first in range(0, pairs, SEEDS):
                for phrase in islice(generate_phrases(first // SEEDS), min(SEEDS, pairs - first)):
                    source.write(phrase.source + "\n")
                    target.write(phrase.target + "\n")
        for new, name in zip(beside, names, strict=True):
            new.rename(name)
    run_file = folder / f"{pairs}.toml"
    run_file.write_text(
        f'[data]\nsource = "{names[0].name}"\ntarget = "{names[1].name}"\nshards = "{pairs}.shards"\n'
        f"[tokenizer]\nvocabulary = {VOCABULARY}\n[train]\nsteps = 1\nbatch_tokens = {BATCH_TOKENS}\n",
        encoding="utf-8",
    )
    return run_file


def shards_of(run_file: Path) -> Path:
    return run_file.with_suffix(".shards")


def child(what: str, run_file: Path, workers: int) -> dict[str, Any]:
    """What a process of its own measured."""
    command = [sys.executable, "-m", "benchmarks.prepare", "--folder", str(run_file.parent), "--workers", str(workers)]
    done = subprocess.run([*command, "--child", what, str(run_file)], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def memory() -> dict[str, float]:
    """MB of this process: most at any time, and now, its own and that of mapped files."""
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    return {name: int(rows[name].split()[0]) / 1024 for name in ("VmHWM", "VmRSS", "RssAnon", "RssFile")}


def preparing(run_file: str, workers: int) -> dict[str, Any]:
    """CPU and wall seconds of each stage, and memory."""
    from pellucid.train.config import read_run
    from pellucid.train.shard_writing import prepare_shards

    run, stages = read_run(Path(run_file)), []
    began = memory()["VmRSS"]

    def said(message: str) -> None:
        stages.append((message.split()[0], time.process_time(), time.perf_counter(), memory()["VmHWM"]))
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the most of each stage by itself

    prepare_shards(run, shards_of(Path(run_file)), workers, said)
    named = {}
    for (name, cpu, wall, _), (_, cpu_end, wall_end, most) in pairwise(stages):
        named[name] = {"cpu": cpu_end - cpu, "wall": wall_end - wall, "most": most}
    return {"stages": named, "began": began}


def streaming(run_file: str, workers: int) -> dict[str, Any]:
    """Seconds until the first batch, tokens a second from then on, and memory."""
    import torch  # noqa: F401  (what any run has loaded)

    from pellucid.data.stream import Stream
    from pellucid.train.config import read_run
    from pellucid.train.data import read_data

    run, began = read_run(Path(run_file)), memory()
    marks = [(time.perf_counter(), time.process_time())]
    data = read_data(run)
    marks.append((time.perf_counter(), time.process_time()))
    stream = Stream(data.encoded, run.train.batch_tokens, run.seed)
    next(stream)
    marks.append((time.perf_counter(), time.process_time()))
    ready = memory()
    tokens = sum(batch.target_tokens for batch in islice(stream, BATCHES))
    marks.append((time.perf_counter(), time.process_time()))
    names = ("open", "order", "stream")
    spent = {n: {"wall": b[0] - a[0], "cpu": b[1] - a[1]} for n, (a, b) in zip(names, pairwise(marks), strict=True)}
    return {**spent, "began": began, "ready": ready, "after": memory(), "tokens": tokens}


def encoded(lines: list[str], folder: str, run_file: str) -> int:
    """Pieces of some lines: what a worker does."""
    from pellucid.data.tokenizer import Tokenizer
    from pellucid.train.config import read_run

    tokenizer = Tokenizer.load(folder, read_run(Path(run_file)).tokenizer)
    return sum(map(len, tokenizer.encode_source(lines)))


def alone(run_file: str, workers: int) -> dict[str, Any]:
    """Pairs a CPU second of SentencePiece and nothing else; wall seconds of threads and of processes for one side."""
    from pellucid.data.corpus import read_lines
    from pellucid.data.tokenizer import Tokenizer
    from pellucid.train.config import read_run

    run, folder = read_run(Path(run_file)), str(shards_of(Path(run_file)))
    assert run.data.source is not None
    assert run.data.target is not None
    tokenizer = Tokenizer.load(folder, run.tokenizer)
    sides = (tokenizer.source, run.data.source), (tokenizer.target, run.data.target)
    lines = [list(islice(read_lines(name), SAMPLE)) for _, name in sides]
    spent = []
    for _ in range(3):
        begun = time.process_time()
        for (side, _), text in zip(sides, lines, strict=True):
            side.encode(text, add_eos=True)
        spent.append(time.process_time() - begun)
    blocks = [lines[0][i : i + 20_000] for i in range(0, SAMPLE, 20_000)]
    walls = {}
    spawn = multiprocessing.get_context("spawn")
    pools: dict[str, Executor] = {
        "one thread": ThreadPoolExecutor(1),
        "threads": ThreadPoolExecutor(workers),
        "processes": ProcessPoolExecutor(workers, spawn),
    }
    for name, pool in pools.items():
        with pool:
            list(pool.map(encoded, [["a"]] * 2 * workers, [folder] * 2 * workers, [run_file] * 2 * workers))
            times = []
            for _ in range(3):
                begun = time.perf_counter()
                list(pool.map(encoded, blocks, [folder] * len(blocks), [run_file] * len(blocks)))
                times.append(time.perf_counter() - begun)
        walls[name] = min(times)
    return {"pairs": len(lines[0]), "cpu": min(spent), "walls": walls}


def described(rows: list[dict[str, Any]], workers: int) -> str:
    """The page."""
    sizes = " ".join(str(row["pairs"]) for row in rows)
    lines = [
        "# Preparing and streaming millions of pairs\n",
        f"Made by `OMP_NUM_THREADS=1 python -m benchmarks.prepare --pairs {sizes} --folder DIR --workers {workers}` on",
        f"{machine()}. Phrasebook pairs, a joint BPE vocabulary of {VOCABULARY:,}.",
        "Speeds are pairs (or target tokens) a CPU second, all threads counted: what one core does. Memory is in MB;",
        "*before* is what the process takes once Python and torch are loaded.\n",
        "## Preparing\n",
        "| pairs | SentencePiece alone, pairs/s a core | cutting into pieces, pairs/s a core | share | reading, s "
        "| vocabulary, s | cutting, s | memory before | most while learning | most while cutting | on disk |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        each, own = row["stages"], row["alone"]["pairs"] / row["alone"]["cpu"]
        ours = row["pairs"] / each["cutting"]["cpu"]
        lines.append(
            f"| {row['pairs']:,} | {own:,.0f} | {ours:,.0f} | {ours / own:.0%} | "
            + " | ".join(f"{each[name]['wall']:.1f}" for name in ("reading", "learning", "cutting"))
            + f" | {row['began']:.0f} | {each['learning']['most']:.0f} | {each['cutting']['most']:.0f} "
            f"| {row['disk'] / 2**20:.0f} |"
        )
    lines += [
        "\n*Cutting* is all that is done in the second reading: text read and checked, cut, written, joined, hashed.",
        "Seconds are of the clock, of a machine that had other work as well.\n",
        "## A run on the shards: from the command to the first batch, and the stream alone\n",
        f"| pairs | open, s | order of an epoch, s | CPU s of both | target tokens/s a core ({BATCH_TOKENS} a batch) "
        "| memory before | most | its own after | mapped files after |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        each = row["shards"]
        lines.append(
            f"| {row['pairs']:,} | {each['open']['wall']:.2f} | {each['order']['wall']:.2f} "
            f"| {each['open']['cpu'] + each['order']['cpu']:.2f} | {each['tokens'] / each['stream']['cpu']:,.0f} "
            f"| {each['began']['VmRSS']:.0f} | {each['after']['VmHWM']:.0f} | {each['after']['RssAnon']:.0f} "
            f"| {each['after']['RssFile']:.0f} |"
        )
    lines += [
        "\nMapped files are the shards as far as they were touched, and the program itself: the kernel drops them when",
        "memory is short.\n",
        "## Threads or processes\n",
        f"Wall seconds for {SAMPLE:,} lines in ten blocks, best of three.\n",
        f"| pairs | one thread | {workers} threads | {workers} processes |",
        "|---|---|---|---|",
        *(
            f"| {row['pairs']:,} | " + " | ".join(f"{s:.2f}" for s in row["alone"]["walls"].values()) + " |"
            for row in rows
        ),
        "\nSentencePiece lets go of Python's lock, so threads do as well, with no second copy of text and program.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
