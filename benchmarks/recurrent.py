"""The Transformer beside a GRU encoder-decoder with attention: speed and quality for equal time, and copying.

    make bench-recurrent     # or: python -m benchmarks.recurrent phrasebook multi30k copy

Writes benchmarks/results/recurrent.md from what it measures now and what it measured before (runs/recurrent); half an
hour on a quiet core for all three. Multi30k needs PELLUCID_DATA and is left out without it.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.quality import HOUSE, RESULTS, lines, machine
from benchmarks.recurrent_copy import LENGTHS, LONGEST, SYMBOLS, TESTED, copying
from benchmarks.recurrent_model import Recurrent, Sizes
from benchmarks.recurrent_race import Contender, Runner, Trial, greedy, try_rates
from pellucid import phrasebook
from pellucid.cli.demo import DEMO_PAIRS, DEMO_RECIPE
from pellucid.data.tokenizer import Tokenizer
from pellucid.evaluate.scores import corpus_scores
from pellucid.model import Transformer
from pellucid.train.config import RunConfig, make_run, read_run
from pellucid.train.data import encode_with_note, read_data

KEPT = HOUSE / "runs" / "recurrent"

BATCH = 1024
"""Target pieces a batch, for both models."""

PEAKS = (3e-3, 7e-3)
"""Learning rates that each of them tries."""


@dataclass(frozen=True)
class Task:
    """Text to train on, and text to translate."""

    title: str
    run: RunConfig
    sources: list[str]
    references: list[str]


def main() -> None:
    """Measure what is asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)}; left out: all of them")
    parser.add_argument("--seconds", type=float, default=180.0, help="processor time of each model's training")
    parser.add_argument("--tuning", type=float, default=15.0, help="the same of short runs that try rates for copying")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page again")
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"{unknown[0]!r} is none of {', '.join(PARTS)}")
    torch.set_num_threads(1)
    for part in () if options.page else options.parts or PARTS:
        if part == "multi30k" and "PELLUCID_DATA" not in os.environ:
            print("multi30k is left out: PELLUCID_DATA is not set", file=sys.stderr)
            continue
        began = time.time()
        result = PARTS[part](options.seconds, options.tuning)
        row = {"seconds": options.seconds, "tuning": options.tuning, "date": time.strftime("%Y-%m-%d"), **result}
        KEPT.mkdir(parents=True, exist_ok=True)
        (KEPT / f"{part}.json").write_text(json.dumps({**row, "wall": time.time() - began}), encoding="utf-8")
    text = "\n".join(page()) + "\n"
    (RESULTS / "recurrent.md").write_text(text, encoding="utf-8")
    print(text)


def show_progress(runner: Runner) -> None:
    print(
        f"{runner.name}: {runner.seconds:.0f} s, {runner.updates} updates, {runner.speed:,.0f} pieces/s",
        file=sys.stderr,
    )


def the_phrasebook(seconds: float, _: float) -> dict[str, Any]:
    """The sentences of `pellucid demo`."""
    split = phrasebook.split_phrases(DEMO_PAIRS)
    with tempfile.TemporaryDirectory() as folder:
        paths = phrasebook.write_split(Path(folder), split)
        data = {
            "source": str(paths["train.en"]),
            "target": str(paths["train.es"]),
            "dev_source": str(paths["dev.en"]),
            "dev_target": str(paths["dev.es"]),
        }
        run = make_run({**DEMO_RECIPE, "train": {**DEMO_RECIPE["train"], "minutes": 1.0}, "data": data})
        sides = [phrase.source for phrase in split.test], [phrase.target for phrase in split.test]
        return compare_models(Task("Phrasebook, English-Spanish", run, *sides), seconds)


def multi30k(seconds: float, _: float) -> dict[str, Any]:
    """Image captions, as the recipe has them but for a warm-up that fits a short run."""
    run = read_run(HOUSE / "recipes/multi30k-en-de.toml", [f"optim.warmup={DEMO_RECIPE['optim']['warmup']}"])
    data = Path(os.environ["PELLUCID_DATA"]) / "multi30k"
    sides = (lines(data / f"test_2016_flickr.{language}.gz") for language in ("en", "de"))
    return compare_models(Task("Multi30k, English-German", run, *sides), seconds)


def compare_models(task: Task, seconds: float) -> dict[str, Any]:
    """Train both models on the same batches for equal time; return speed, dev loss, BLEU and chrF of greedy search."""
    data = read_data(task.run)
    config = task.run.model_config(data.tokenizer)
    sizes = Sizes(config.target_vocabulary, config.d_model, 128, 224, dropout=config.dropout)
    contenders = (
        Contender("Transformer", lambda: Transformer(config), PEAKS),
        Contender("GRU with attention", lambda: Recurrent(sizes), PEAKS),
    )
    dev, _ = encode_with_note(data.dev, data.tokenizer, task.run)
    tries_by_name = try_rates(contenders, task.run.optim, data.encoded, dev, BATCH, seconds, show_progress)
    return {
        "title": task.title,
        "pairs": len(data.encoded),
        "vocabulary": config.target_vocabulary,
        "tested": len(task.sources),
        "dropout": config.dropout,
        "rise": task.run.optim.dropout_rise,
        "rows": [score_best(tries, task, data.tokenizer) for tries in tries_by_name.values()],
    }


def score_best(tries: Sequence[Trial], task: Task, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return a row of the table: the scores of the trial with the lowest dev loss."""
    best = tries[0].runner
    sources = tokenizer.encode_source(task.sources)
    outputs = greedy(best.model, sources, [2 * len(ids) + 10 for ids in sources])
    texts = [tokenizer.decode_target(ids) for ids in outputs]
    scores = corpus_scores(texts, task.references, metrics=("bleu", "chrf"))
    return {
        "name": best.name,
        "parameters": best.parameters,
        "tried": {f"{trial.runner.optim.peak:g}": trial.dev_loss for trial in tries},
        "peak": best.optim.peak,
        "speed": best.speed,
        "updates": best.updates,
        "pieces": best.pieces,
        "bleu": scores["bleu"]["score"],
        "chrf": scores["chrf"]["score"],
        "signature": scores["bleu"]["signature"],
    }


def run_copy_task(seconds: float, tuning: float) -> dict[str, Any]:
    """Run the copy task; its models are small, so half the time is enough."""
    return {"rows": [asdict(row) for row in copying(seconds / 2, tuning / 2, show_progress)]}


PARTS = {"phrasebook": the_phrasebook, "multi30k": multi30k, "copy": run_copy_task}


def page() -> Iterator[str]:
    """Yield the results of all parts, as Markdown."""
    results = {part: json.loads((KEPT / f"{part}.json").read_text("utf-8")) for part in PARTS if has_result(part)}
    first = next(iter(results.values()))
    yield "# The Transformer beside a recurrent network\n"
    options = f"--seconds {first['seconds']:g} --tuning {first['tuning']:g}"
    yield f"    python -m benchmarks.recurrent {' '.join(results)} {options}\n"
    yield f"{machine()}; {first['date']}.\n"
    yield HOW
    for part in ("phrasebook", "multi30k"):
        if part in results:
            yield from of_corpus(results[part])
    if "copy" in results:
        yield from of_copying(results["copy"])


def has_result(part: str) -> bool:
    return (KEPT / f"{part}.json").exists()


def of_corpus(result: dict[str, Any]) -> Iterator[str]:
    """The table of one corpus, and the ratios of its rows."""
    yield f"## {result['title']}\n"
    rising = (
        f"rising to {result['dropout']:g} in {result['rise']:g} epochs" if result["rise"] else f"{result['dropout']:g}"
    )
    yield f"{result['pairs']:,} pairs, joint vocabulary of {result['vocabulary']:,} pieces, dropout {rising},"
    yield f"{result['tested']:,} test sentences. {result['seconds'] / 60:g} minutes for each model and rate.\n"
    yield "| | parameters | pieces/s | updates | BLEU | chrF | rates tried (dev loss) |"
    yield "|---|---|---|---|---|---|---|"
    for row in result["rows"]:
        tried = ", ".join(
            f"**{rate}** ({loss:.2f})" if float(rate) == row["peak"] else f"{rate} ({loss:.2f})"
            for rate, loss in row["tried"].items()
        )
        yield (
            f"| {row['name']} | {row['parameters'] / 1e6:.2f} M | {row['speed']:,.0f} | {row['updates']:,} | "
            f"{row['bleu']:.1f} | {row['chrf']:.1f} | {tried} |"
        )
    first, recurrent = result["rows"]
    ratio, apart = (
        first["speed"] / recurrent["speed"],
        round(first["bleu"], 1) - round(recurrent["bleu"], 1),
    )
    yield f"\nThe Transformer trained on {ratio:.2f} times as many pieces a second as the GRU; its BLEU is"
    yield f"{abs(apart):.1f} {'higher' if apart >= 0 else 'lower'}. Signature of BLEU: `{first['signature']}`.\n"


def of_copying(part: dict[str, Any]) -> Iterator[str]:
    """The tables of copying."""
    yield "## Copying, with growing distance\n"
    yield f"A line of 1 to {LONGEST} random pieces, {SYMBOLS} kinds of them, is to be written again. In a line of n, n"
    yield "pieces lie between each piece and its copy. Each model is trained on all lengths at once, for"
    yield f"{part['seconds'] / 120:g} minutes ({part['tuning'] / 2:g} seconds for each short run before), and tested"
    yield f"on {TESTED} new lines of each length. The GRU without attention has, at every step, the two ends of the"
    yield "encoder and nothing else of the source (Cho et al. 2014): a line has to fit into that. Lines longer than any"
    yield "in training have positions that the Transformer has never been given; a GRU has no numbers for positions.\n"
    yield "| | parameters | pieces/s | updates | rate |\n|---|---|---|---|---|"
    for row in part["rows"]:
        yield (
            f"| {row['name']} | {row['parameters'] / 1e3:.0f} K | {row['speed']:,.0f} | {row['updates']:,} | "
            f"{row['peak']:g} |"
        )
    yield ""
    yield from shares("Pieces in their right place, in per cent, by length", part["rows"], "pieces")
    yield from shares("Lines without a mistake, in per cent, by length", part["rows"], "lines")


def shares(title: str, rows: Sequence[dict[str, Any]], key: str) -> Iterator[str]:
    """One table of copying."""
    yield f"{title} (in brackets: longer than any line in training):\n"
    lengths = [f"{n}" if n <= LONGEST else f"({n})" for n in LENGTHS]
    yield f"| | {' | '.join(lengths)} |"
    yield "|---|" + "---|" * len(lengths)
    for row in rows:
        yield f"| {row['name']} | {' | '.join(f'{row[key][str(n)]:.0f}' for n in LENGTHS)} |"
    yield ""


HOW = """\
Both models are trained by the same code (`pellucid.train.update`) on the same batches of about 1,024 target pieces:
Adam, label smoothing 0.1 (copying: none), the learning rate up in a straight line and then down to zero, the longest
gradient 1. Each model is trained once with each of the rates that it may try; shown is the run with the lowest dev
loss, its rate in bold. For copying, the rate is chosen in short runs before.

The Transformer is the preset tiny. The GRU (`benchmarks/recurrent_model.py`) has an encoder of two layers in both
directions, two GRUs in the decoder with attention between them, and about as many parameters. Both share one matrix for
source, target and output. Both translate by the same greedy search.

Time is processor time of one thread, and the models take turns of a few seconds in one process, so what else runs on
the machine disturbs both alike: read the ratios. *pieces/s*: target pieces in training, padding not counted.

One thread is the GRU's best place. It must take the positions of a line one after the other, where the Transformer
takes them all at once: on one core that saves little, on hardware that does thousands of things at a time it is the
point of the architecture. This page does not measure that. Minutes are few, too: which model is the better one after
hours it does not say.
"""


if __name__ == "__main__":
    main()
