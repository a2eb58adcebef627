"""Speed and memory of `pellucid prepare` and of the stream, beside SentencePiece alone, for millions of pairs.

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
import threading
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from benchmarks.quality import machine

VOCABULARY, BATCH_TOKENS, SAMPLE = 8000, 4096, 200_000
DISTINCT = 1_000_000
"""Pairs of which larger corpora are made."""


def main() -> None:
    """Measure each number of pairs in processes of their own, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--folder", type=Path, required=True, help="for text and shards: 150 bytes a pair")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--child", nargs=2, metavar=("TASK", "RUN.toml"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        task, run_file = options.child
        print(
            json.dumps(
                {"prepare": measure_prepare, "stream": measure_stream, "alone": measure_sentencepiece}[task](
                    run_file, options.workers
                )
            )
        )
        return
    rows = []
    for pairs in options.pairs:
        run_file = write_pairs(options.folder, pairs)
        prepare_row = run_child("prepare", run_file, options.workers)
        rows.append({"pairs": pairs, "alone": run_child("alone", run_file, options.workers), **prepare_row})
        rows[-1] |= {"shards": run_child("stream", run_file, options.workers)}
        rows[-1] |= {"disk": sum(path.stat().st_size for path in shards_path(run_file).iterdir())}
        print(json.dumps(rows[-1]))
    page = Path(__file__).parent / "results" / "prepare.md"
    page.write_text(make_page(rows, options.workers), encoding="utf-8")


def write_pairs(folder: Path, pairs: int) -> Path:
    """Write a corpus, and a run file beside it; return the run file. From the second million on, sentences come again.

    They then begin with a number, so that no pair is there twice: to make a pair takes longer than to prepare it.
    """
    from pellucid.demo.phrasebook import generate_phrases

    folder.mkdir(parents=True, exist_ok=True)
    names = [folder / f"{pairs}.{language}" for language in ("en", "es")]
    if not all(name.exists() for name in names):
        phrases = list(islice(generate_phrases(0), min(DISTINCT, pairs)))
        sides = [phrase.source for phrase in phrases], [phrase.target for phrase in phrases]
        for name, side in zip(names, sides, strict=True):
            # Renamed when complete: an interrupted corpus is written again.
            new_file = name.with_suffix(name.suffix + ".new")
            with new_file.open("w", encoding="utf-8") as file:
                for start in range(0, pairs, DISTINCT):
                    number = f"{start // DISTINCT + 1}. " if start else ""
                    file.writelines(f"{number}{line}\n" for line in side[: pairs - start])
            new_file.rename(name)
    run_file = folder / f"{pairs}.toml"
    run_file.write_text(
        f'[data]\nsource = "{names[0].name}"\ntarget = "{names[1].name}"\nshards = "{pairs}.shards"\n'
        f"[tokenizer]\nvocabulary = {VOCABULARY}\n[train]\nsteps = 1\nbatch_tokens = {BATCH_TOKENS}\n",
        encoding="utf-8",
    )
    return run_file


def shards_path(run_file: Path) -> Path:
    return run_file.with_suffix(".shards")


def run_child(task: str, run_file: Path, workers: int) -> dict[str, Any]:
    """Run a measurement in a process of its own and return its numbers, or those of an earlier call."""
    numbers_file = run_file.with_suffix(f".{task}.json")
    if numbers_file.exists():
        return json.loads(numbers_file.read_text(encoding="utf-8"))
    if task == "prepare":
        shutil.rmtree(shards_path(run_file), ignore_errors=True)
    command = [sys.executable, "-m", "benchmarks.prepare", "--folder", str(run_file.parent), "--workers", str(workers)]
    process = subprocess.run([*command, "--child", task, str(run_file)], stdout=subprocess.PIPE, check=True)
    numbers_file.write_bytes(process.stdout)
    return json.loads(process.stdout)


def read_memory() -> dict[str, float]:
    """Return the memory of this process in MB: the most at any time, and now, its own and that of mapped files."""
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines())
    return {name: int(rows[name].split()[0]) / 1024 for name in ("VmHWM", "VmRSS", "RssAnon", "RssFile")}


def measure_prepare(run_file: str, workers: int) -> dict[str, Any]:
    """Measure CPU and wall seconds of each stage, and memory."""
    from pellucid.training.config import read_run
    from pellucid.training.shard_writing import prepare_shards

    run, stages = read_run(Path(run_file)), []
    began = read_memory()["VmRSS"]

    def note_stage(message: str) -> None:
        stages.append((message.split()[0], time.process_time(), time.perf_counter(), read_memory()["VmHWM"]))
        Path("/proc/self/clear_refs").write_text(
            "5", encoding="utf-8"
        )  # resets the peak, so that each stage has its own

    prepare_shards(run, shards_path(Path(run_file)), workers, note_stage)
    stage_rows = {}
    for (name, cpu, wall, _), (_, cpu_end, wall_end, peak) in pairwise(stages):
        stage_rows[name] = {"cpu": cpu_end - cpu, "wall": wall_end - wall, "most": peak}
    return {"stages": stage_rows, "began": began}


def measure_stream(run_file: str, workers: int) -> dict[str, Any]:
    """Measure the seconds until the first batch, tokens per second of a whole epoch, memory, and a resumed stream."""
    import torch  # noqa: F401  (loaded in every run, so not counted as memory of the stream)

    from pellucid.data.stream import Stream
    from pellucid.training.config import read_run
    from pellucid.training.data import read_data

    run, began, own = read_run(Path(run_file)), read_memory(), [0.0]

    def watch_own_memory() -> None:
        # The kernel keeps the peak of all memory only, with the mapped files.
        while not done.wait(0.02):
            own[0] = max(own[0], read_memory()["RssAnon"])

    done = threading.Event()
    watcher = threading.Thread(target=watch_own_memory)
    watcher.start()
    marks = [(time.perf_counter(), time.process_time())]
    data = read_data(run)
    marks.append((time.perf_counter(), time.process_time()))
    stream = Stream(data.encoded, run.train.batch_tokens, run.seed)
    next(stream)
    marks.append((time.perf_counter(), time.process_time()))
    batches, tokens, middle = stream.batches_per_epoch, 0, None
    while not stream.epoch and stream.batch < batches - 1:
        batch = next(stream)
        tokens += batch.target_tokens
        if stream.batch == batches // 2:
            middle = batch
    marks.append((time.perf_counter(), time.process_time()))
    after, peak = read_memory(), own[0]
    del stream
    resumed = Stream(data.encoded, run.train.batch_tokens, run.seed, 0, batches // 2 - 1)
    assert middle is not None
    exact = bool((next(resumed).indices == middle.indices).all())
    done.set()
    watcher.join()
    names = ("open", "order", "stream")
    durations = {n: {"wall": b[0] - a[0], "cpu": b[1] - a[1]} for n, (a, b) in zip(names, pairwise(marks), strict=True)}
    return {**durations, "began": began, "after": after, "own": peak, "tokens": tokens, "batches": batches} | {
        "exact": exact
    }


def count_pieces(lines: list[str], folder: str, run_file: str) -> int:
    """Count the pieces of some lines; this is the work of one worker."""
    from pellucid.data.tokenizer import Tokenizer
    from pellucid.training.config import read_run

    tokenizer = Tokenizer.load(folder, read_run(Path(run_file)).tokenizer)
    return sum(map(len, tokenizer.encode_source(lines)))


def measure_sentencepiece(run_file: str, workers: int) -> dict[str, Any]:
    """Measure SentencePiece by itself: pairs and CPU seconds, and wall seconds with threads and with processes."""
    from pellucid.data.corpus import read_lines
    from pellucid.data.tokenizer import Tokenizer
    from pellucid.training.config import read_run

    run, folder = read_run(Path(run_file)), str(shards_path(Path(run_file)))
    assert run.data.source is not None
    assert run.data.target is not None
    tokenizer = Tokenizer.load(folder, run.tokenizer)
    sides = (tokenizer.source, run.data.source), (tokenizer.target, run.data.target)
    lines = [list(islice(read_lines(name), SAMPLE)) for _, name in sides]
    cpu_seconds = []
    for _ in range(3):
        start = time.process_time()
        for (side, _), text in zip(sides, lines, strict=True):
            side.encode(text, add_eos=True)
        cpu_seconds.append(time.process_time() - start)
    blocks = [lines[0][i : i + 20_000] for i in range(0, SAMPLE, 20_000)]
    walls = {}
    # Not fork: this process has threads.
    spawn = multiprocessing.get_context("spawn")
    # Threads and processes on equal blocks: SentencePiece releases Python's lock.
    pools: dict[str, Executor] = {
        "one thread": ThreadPoolExecutor(1),
        "threads": ThreadPoolExecutor(workers),
        "processes": ProcessPoolExecutor(workers, spawn),
    }
    for name, pool in pools.items():
        with pool:
            # Not timed: processes start and load the tokenizer first.
            list(pool.map(count_pieces, [["a"]] * 2 * workers, [folder] * 2 * workers, [run_file] * 2 * workers))
            times = []
            for _ in range(3):
                start = time.perf_counter()
                list(pool.map(count_pieces, blocks, [folder] * len(blocks), [run_file] * len(blocks)))
                times.append(time.perf_counter() - start)
        walls[name] = min(times)
    return {"pairs": len(lines[0]), "cpu": min(cpu_seconds), "walls": walls}


def make_page(rows: list[dict[str, Any]], workers: int) -> str:
    """Return the page."""
    sizes = " ".join(str(row["pairs"]) for row in rows)
    lines = [
        "# Preparing and streaming millions of pairs\n",
        f"Made by `OMP_NUM_THREADS=1 python -m benchmarks.prepare --pairs {sizes} --folder DIR --workers {workers}` on",
        f"{machine()}. Phrasebook pairs, a joint BPE vocabulary of {VOCABULARY:,}.",
        f"Beyond {DISTINCT:,} pairs the same ones come again behind a number, which makes them a few pieces longer.",
        "Speeds are pairs (or target tokens) for each CPU second of all threads together, so they are the speed of one",
        "core. Memory is in MB; *before* is what the process needs when Python and torch are loaded.\n",
        "## Preparing\n",
        "| pairs | SentencePiece alone, pairs/s a core | cutting into pieces, pairs/s a core | share | reading, s "
        "| vocabulary, s | cutting, s | memory before | most while learning | most while cutting | on disk |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        numbers, reference_speed = row["stages"], row["alone"]["pairs"] / row["alone"]["cpu"]
        speed = row["pairs"] / numbers["cutting"]["cpu"]
        lines.append(
            f"| {row['pairs']:,} | {reference_speed:,.0f} | {speed:,.0f} | {speed / reference_speed:.0%} | "
            + " | ".join(f"{numbers[name]['wall']:.1f}" for name in ("reading", "learning", "cutting"))
            + f" | {row['began']:.0f} | {numbers['learning']['most']:.0f} | {numbers['cutting']['most']:.0f} "
            f"| {row['disk'] / 2**20:.0f} |"
        )
    lines += [
        "\n*Cutting* is everything in the second reading: reading and checking the text, cutting, writing, joining,",
        "hashing. Seconds are wall-clock time, on a machine that did other work as well.\n",
        "## A run on the shards: from the command to the first batch, and a whole epoch\n",
        f"| pairs | open, s | order of an epoch, s | CPU s of both | batches of {BATCH_TOKENS} | tokens/s a core "
        "| walked, min | memory before | its own at most | with mapped files at most | resumed in the middle |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        numbers = row["shards"]
        lines.append(
            f"| {row['pairs']:,} | {numbers['open']['wall']:.2f} | {numbers['order']['wall']:.2f} "
            f"| {numbers['open']['cpu'] + numbers['order']['cpu']:.2f} | {numbers['batches']:,} | "
            f"{numbers['tokens'] / numbers['stream']['cpu']:,.0f} | {numbers['stream']['wall'] / 60:.1f} "
            f"| {numbers['began']['VmRSS']:.0f} | {numbers['own']:.0f} | {numbers['after']['VmHWM']:.0f} "
            f"| {'the same batch' if numbers['exact'] else 'another batch'} |"
        )
    lines += [
        "\nTokens are those of the targets. *Its own* memory is what a worker needs: the lengths and the order of",
        "all pairs are 12 bytes a pair. The order is computed anew for each epoch, from the seed and the number of",
        "the epoch, and stored nowhere. Mapped files are the parts of the shards that were read, and the program",
        "itself: all workers of a machine share them, and the kernel drops them if memory is needed.\n",
        "## Threads or processes\n",
        f"Wall seconds for {SAMPLE:,} lines in ten blocks, best of three.\n",
        f"| pairs | one thread | {workers} threads | {workers} processes |",
        "|---|---|---|---|",
        *(
            f"| {row['pairs']:,} | " + " | ".join(f"{s:.2f}" for s in row["alone"]["walls"].values()) + " |"
            for row in rows
        ),
        "\nSentencePiece releases Python's lock, so threads are as fast as processes, and they need no second copy of",
        "the text and the program.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
