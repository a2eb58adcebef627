"""Worth of each setting on Multi30k: the recipe, and the recipe with one thing changed.

    python -m benchmarks.ablations                          # every row: runs/ablations, then results/ablations.md
    python -m benchmarks.ablations --rows base r-drop --updates 4000 --page /tmp/ablations.md
    python -m benchmarks.ablations --set train.batch_tokens=1024 optim.peak=3e-3  # all rows so, for half the time

Rows are trained one after another, `--together` at a time with one thread each, all for as many updates; a run that was
interrupted goes on, one that is done is scored as it stands. BLEU differs by half a point between seeds: look at
differences larger than that, or give `--seeds 1 2 3`. Needs PELLUCID_DATA.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from benchmarks import reproduce
from benchmarks.quality import HOUSE, RESULTS, TASKS, lines, machine, score_model
from pellucid.train.log import read_log

TASK = TASKS["multi30k"]
UPDATES = 2000


@dataclass(frozen=True)
class Change:
    """One row: what differs from the recipe, and what it is called."""

    label: str
    settings: tuple[str, ...] = ()


CHANGES = {
    "base": Change("the recipe"),
    "no-rise": Change("all of the dropout from the start", ("optim.dropout_rise=0",)),
    "dropout-0.1": Change("dropout 0.1 instead of 0.3", ("model.dropout=0.1",)),
    "dropout-0.2": Change("dropout 0.2 instead of 0.3", ("model.dropout=0.2",)),
    "bpe-dropout": Change("BPE dropout 0.1 (Provilkov et al. 2020)", ("data.bpe_dropout=0.1",)),
    "r-drop": Change("R-Drop, alpha 5 (Liang et al. 2021)", ("optim.r_drop=5",)),
    "r-drop-bpe-dropout": Change("R-Drop and BPE dropout", ("optim.r_drop=5", "data.bpe_dropout=0.1")),
    "rotary": Change("rotary positions (Su et al. 2021)", ("model.positions=rotary",)),
    "swiglu": Change("SwiGLU, two thirds as wide", ("model.activation=swiglu", "model.d_ff=172")),
    "post": Change("norm after the sum, warm-up 1,000", ("model.norm=post", "optim.warmup=1000")),
    "deeper": Change(
        "deeper and narrower: 8 + 8 layers of 96",
        ("model.encoder_layers=8", "model.decoder_layers=8", "model.d_model=96", "model.d_ff=192"),
    ),
    "wider": Change("wider: 192, inside 384", ("model.d_model=192", "model.d_ff=384")),
    "vocabulary-4000": Change("4,000 pieces instead of 10,000", ("tokenizer.vocabulary=4000",)),
    "no-smoothing": Change("no label smoothing", ("optim.label_smoothing=0",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=CHANGES, default=list(CHANGES))
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings that every row has")
    parser.add_argument("--together", type=int, default=os.cpu_count() or 1, help="runs at a time, a thread each")
    parser.add_argument("--folder", type=Path, default=HOUSE / "runs" / "ablations")
    parser.add_argument("--page", type=Path, default=RESULTS / "ablations.md")
    options = parser.parse_args()
    if "PELLUCID_DATA" not in os.environ:
        sys.exit("PELLUCID_DATA must name the folder that holds multi30k")
    folder = options.folder / " ".join(options.set)
    runs = {(row, seed): folder / f"{row}-{options.updates}-{seed}" for row in options.rows for seed in options.seeds}
    with ThreadPoolExecutor(options.together) as at_once:
        list(at_once.map(lambda run: train(*run, options.updates, options.set), runs.items()))
    page = "\n".join(report(options.rows, options.seeds, runs, options.updates, options.set)) + "\n"
    options.page.write_text(page, encoding="utf-8")
    print(page)


def train(row: tuple[str, int], out: Path, updates: int, of_all: list[str]) -> None:
    """`pellucid train` with one thread; a quarter of the updates lies between evaluations, a fortieth between saves."""
    name, seed = row
    if (out / "average").is_dir():
        return
    settings = (
        f"train.steps={updates}",
        f"train.evaluate_every={max(1, updates // 4)}",
        f"train.save_every={max(1, updates // 40)}",
        "train.keep=10",
        f"seed={seed}",
        *of_all,
        *CHANGES[name].settings,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.with_name(f"{out.name}.log").open("a", encoding="utf-8") as log:
        try:
            one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
            reproduce.train_recipe(TASK.recipe, out, settings, stdout=log, stderr=log, env=one_thread)
        except SystemExit:
            raise SystemExit(f"{name} failed, see {log.name}") from None


@dataclass(frozen=True)
class Scores:
    """Scores of one run."""

    dev: float
    last: float
    averaged: float
    chrf: float
    minutes: float
    pieces: float


def scores(out: Path) -> Scores:
    """BLEU on the test set of the last model and of the averaged one; kept beside the run."""
    scores_path = out / "scores.json"
    if not scores_path.exists():
        data = Path(os.environ["PELLUCID_DATA"])
        texts = lines(data / TASK.source), lines(data / TASK.reference)
        (last, _), (averaged, _) = (score_model(out / name, TASK, *texts) for name in ("last", "average"))
        end = [row for row in read_log(out / "log.jsonl") if "dev_loss" in row][-1]
        numbers = {
            "dev": end["dev_loss"],
            "last": last["bleu"]["score"],
            "averaged": averaged["bleu"]["score"],
            "chrf": averaged["chrf"]["score"],
            "minutes": end["seconds"] / 60,
            "pieces": end["target_tokens"],
        }
        scores_path.write_text(json.dumps(numbers), encoding="utf-8")
    return Scores(**json.loads(scores_path.read_text(encoding="utf-8")))


def report(
    rows: list[str], seeds: list[int], runs: dict[tuple[str, int], Path], updates: int, of_all: list[str]
) -> Iterator[str]:
    """The lines of the page."""
    arguments = f" --rows {' '.join(rows)}" if rows != list(CHANGES) else ""
    arguments += f" --updates {updates}" if updates != UPDATES else ""
    arguments += f" --set {' '.join(of_all)}" if of_all else ""
    arguments += f" --seeds {' '.join(map(str, seeds))}" if seeds != [1] else ""
    yield "# Ablations: what each setting is worth on Multi30k English-German\n"
    yield f"Made by `python -m benchmarks.ablations{arguments}` on {machine()}. The recipe is"
    for_all = f", with {', '.join(f'`{setting}`' for setting in of_all)}" if of_all else ""
    yield f"[{TASK.recipe}](../../{TASK.recipe}) for {updates:,} updates{for_all};"
    yield "each row changes what it names. Test BLEU (sacreBLEU 13a, cased, test_2016_flickr, beam 5, length"
    yield "penalty 1.0) of the last model and of the average of ten checkpoints; dev loss of the average, in nats a"
    yield "piece (comparable where pieces are the same). Time: the first row's run is 1."
    yield f"Seeds: {', '.join(map(str, seeds))}.\n"
    yield "| row | BLEU, last | BLEU, average | difference | chrF, average | dev loss | target pieces | time |"
    yield "|---|---|---|---|---|---|---|---|"
    scores_by_row = {row: [scores(runs[row, seed]) for seed in seeds] for row in rows}
    base = mean(score.averaged for score in scores_by_row[rows[0]])
    minutes = mean(score.minutes for score in scores_by_row[rows[0]])
    for row, of_seeds in scores_by_row.items():
        averaged = mean(score.averaged for score in of_seeds)
        yield (
            f"| {CHANGES[row].label} | {mean(score.last for score in of_seeds):.2f} | {averaged:.2f} | "
            f"{averaged - base:+.2f} | {mean(score.chrf for score in of_seeds):.2f} | "
            f"{mean(score.dev for score in of_seeds):.3f} | {mean(score.pieces for score in of_seeds):,.0f} | "
            f"{mean(score.minutes for score in of_seeds) / minutes:.1f} |"
        )


if __name__ == "__main__":
    main()
