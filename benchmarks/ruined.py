"""Trains on a clean corpus, on the same corpus ruined, and on what `pellucid check --fix` leaves of it; compares them.

    python -m benchmarks.ruined           # three seeds; runs/ruined, then benchmarks/results/ruined.md; an hour or two

Multi30k English-German. All models get the same number of updates, so that no row depends on how busy the machine was;
a run that exists already is scored as it is. Needs PELLUCID_DATA.
"""

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.check_corpus import read_gzip
from benchmarks.quality import HOUSE, RESULTS, TASKS, lines, machine, score_model

TASK = TASKS["multi30k"]
TEXTS = ("clean", "fewer", "ruined", "mended")
"""`fewer` is what the mended text could be at best: as many pairs of the clean one, drawn at random."""

SHIFTED, EXCHANGED, COPIED, FRENCH = 0.2, 0.1, 0.03, 0.02
"""Shares of the pairs that are ruined in each way."""


def write_texts(data: Path, folder: Path) -> None:
    """Write the texts as `NAME.source` and `NAME.target`, and the log of the pairs that were removed."""
    sources, targets, french = (
        read_gzip(data / "multi30k" / f"train.{language}.gz") for language in ("en", "de", "fr")
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_pairs(folder / "clean", sources, targets)
    write_pairs(folder / "ruined", sources, ruin_targets(sources, targets, french))
    check = [sys.executable, "-m", "pellucid", "check", "ruined.source", "ruined.target", "--fix", "mended"]
    subprocess.run(check, cwd=folder, check=True, stdout=sys.stderr)
    drawn = sorted(random.Random(1).sample(range(len(sources)), count_lines(folder / "mended.source")))
    write_pairs(folder / "fewer", [sources[i] for i in drawn], [targets[i] for i in drawn])


def ruin_targets(sources: list[str], targets: list[str], french: list[str]) -> list[str]:
    """Return the targets with one block moved by a line, pairs exchanged, sources copied, and another language."""
    at, pairs = random.Random(1), len(sources)
    first, length = pairs // 3, int(SHIFTED * pairs)
    ruined = [*targets[:first], targets[first + length - 1], *targets[first : first + length - 1]]
    ruined += targets[first + length :]
    elsewhere = [i for i in range(pairs) if not first <= i < first + length]
    at.shuffle(elsewhere)
    exchanged, copied, foreign = (int(share * pairs) for share in (EXCHANGED, COPIED, FRENCH))
    for i, j in itertools.pairwise(elsewhere[: exchanged + 1]):
        ruined[i] = targets[j]
    for i in elsewhere[exchanged : exchanged + copied]:
        ruined[i] = sources[i]
    for i in elsewhere[exchanged + copied : exchanged + copied + foreign]:
        ruined[i] = french[i]
    return ruined


def write_pairs(prefix: Path, sources: list[str], targets: list[str]) -> None:
    """Write both sides of a text."""
    for side, texts in (("source", sources), ("target", targets)):
        prefix.with_suffix(f".{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def train_on(name: str, seed: int, updates: int, folder: Path, data: Path) -> Path:
    """Train a model on one of the texts, unless that was done, and return its directory."""
    run = folder / f"{name}-{seed}"
    if not (run / "scores.json").exists():
        settings = {"seed": seed, "train.evaluate_every": updates}
        command = [sys.executable, "-m", "pellucid", "train", "--out", run, "--steps", updates]
        command += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        for option, path in (
            ("source", folder / f"{name}.source"),
            ("target", folder / f"{name}.target"),
            ("dev-source", data / "multi30k" / "val.en.gz"),
            ("dev-target", data / "multi30k" / "val.de.gz"),
        ):
            command += [f"--{option}", path]
        subprocess.run([*map(str, command)], check=True, stdout=sys.stderr)
        scores, _ = score_model(run / "best", TASK, lines(data / TASK.source), lines(data / TASK.reference))
        (run / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    return run


def make_page(folder: Path, updates: int, seeds: list[int]) -> str:
    """Return the results page."""
    pairs = {name: count_lines(folder / f"{name}.source") for name in TEXTS}
    removed = count_lines(folder / "mended.removed.tsv")
    rows = [
        "# What `pellucid check --fix` is worth",
        "",
        f"`python -m benchmarks.ruined --updates {updates} --seeds {' '.join(map(str, seeds))}` on {machine()}.",
        "",
        f"Multi30k English-German, {pairs['clean']:,} pairs. In the ruined text one block of {SHIFTED:.0%} is moved by",
        f"a line, {EXCHANGED:.0%} have the target of another pair, {COPIED:.0%} a copy of the source, and",
        f"{FRENCH:.0%} a French target. `pellucid check --fix` removed {removed:,} pairs of it, which gives the",
        "mended text; it never moves lines, so the moved block is lost. *fewer*: as many pairs of the clean text,",
        f"drawn at random. Each model gets {updates:,} updates with the settings that `pellucid train` chooses for two",
        "files. BLEU and chrF: the test set of 2016, beam 5.",
        "",
        f"| text | pairs | BLEU: mean | {' | '.join(f'seed {seed}' for seed in seeds)} | chrF: mean |",
        "|---" * (len(seeds) + 4) + "|",
    ]
    for name in TEXTS:
        scores = [json.loads((folder / f"{name}-{seed}" / "scores.json").read_text()) for seed in seeds]
        bleu, chrf = ([score[metric]["score"] for score in scores] for metric in ("bleu", "chrf"))
        each = " | ".join(f"{value:.2f}" for value in bleu)
        rows.append(
            f"| {name} | {pairs[name]:,} | {statistics.mean(bleu):.2f} | {each} | {statistics.mean(chrf):.2f} |"
        )
    return "\n".join(rows) + "\n"


def count_lines(path: Path) -> int:
    """Return the number of lines of a text."""
    return path.read_bytes().count(b"\n")


def main() -> None:
    """Write the texts, train and score all models, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=1200)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--folder", type=Path, default=HOUSE / "runs" / "ruined")
    parser.add_argument("--page", type=Path, default=RESULTS / "ruined.md")
    options = parser.parse_args()
    if "PELLUCID_DATA" not in os.environ:
        sys.exit("PELLUCID_DATA must name the folder that holds multi30k")
    data = Path(os.environ["PELLUCID_DATA"])
    if not (options.folder / "mended.removed.tsv").exists():
        write_texts(data, options.folder)
    for seed in options.seeds:
        for name in TEXTS:
            train_on(name, seed, options.updates, options.folder, data)
    page = make_page(options.folder, options.updates, options.seeds)
    options.page.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
