"""Reproduce a score: train a recipe, evaluate as its reference did and as sacreBLEU does, and judge.

    make reproduce NAME=multi30k-en-de                                       # runs/reproduce, then benchmarks/results
    make reproduce NAME=multi30k-en-de ARGS="--set train.minutes=1"          # a trial of one seed: no page is written
    make reproduce NAME=multi30k-en-de ARGS="--seeds 2"                      # trains this seed, and writes no page

An interrupted run is resumed, a finished one is scored as it is. Needs PELLUCID_DATA, and sacremoses where the
reference is tokenised BLEU. Exit code 0: the score is in the band; 1: it is not; 2: something is missing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from benchmarks.quality import HOUSE, RESULTS, TASKS, Task, lines, machine, moses, score_model
from pellucid.training.log import read_log

RUNS = HOUSE / "runs" / "reproduce"


@dataclass(frozen=True)
class Target:
    """A published score, and how it was computed."""

    task: Task
    published: float
    lowest: float
    highest: float
    """A score above this is as suspect as one below the lowest: test sentences may stand in the training text."""
    source: str
    language: str
    beam: int = 5
    tokenised: bool = True
    """Whether the published score is BLEU of Moses tokens, or sacreBLEU's of the text."""
    lowercase: bool = True
    normalise: bool = True
    split_compounds: bool = False
    """Whether the words of a compound with a hyphen are counted apart."""
    tokens_are_text: bool = False
    """Whether the model is trained on tokens, and so writes tokens."""
    settings: tuple[str, ...] = ()
    """Settings beside the recipe's, which is made for use: those of the reference, and the time its score takes."""
    seeds: tuple[int, ...] = (1,)
    """Seeds of the runs, whose mean is compared."""
    model: str = "average"
    """Which model of a run is scored."""


def multi30k(language: str, name: str) -> Task:
    """Return the first Multi30k task as its reference measures it."""
    return Task(
        f"Multi30k English-{name}",
        f"recipes/multi30k-en-{language}.toml",
        "multi30k/test_2016_flickr.en.gz",
        f"multi30k/test_2016_flickr.{language}.gz",
        f"multi30k/tok/test_2016_flickr.lc.norm.tok.{language}.gz",
        length_penalty=1.0,
    )


def wmt14(language: str, name: str, size: str) -> Task:
    """Return WMT14 as the paper measures it: newstest2014, length penalty 0.6 (6.1)."""
    return Task(
        f"WMT14 English-{name}, {size}",
        f"recipes/wmt14-en-{language}-{size}.toml",
        f"wmt14_en-{language}/newstest2014.en.gz",
        f"wmt14_en-{language}/newstest2014.{language}.gz",
    )


MULTI30K_TOKENS = Task(
    "Multi30k English-German, as Wu et al. 2021",
    "recipes/multi30k-en-de-wu2021.toml",
    "multi30k/tok/test_2016_flickr.lc.norm.tok.en.gz",
    "multi30k/tok/test_2016_flickr.lc.norm.tok.de.gz",
    # Theirs divides by the length, which for sentences of 16 pieces is as steep as this penalty.
    length_penalty=1.3,
)
IWSLT14 = Task(
    "IWSLT14 German-English",
    "recipes/iwslt14-de-en.toml",
    "iwslt14_de-en/test.de.gz",
    "iwslt14_de-en/test.en.gz",
    length_penalty=1.0,
)
WU, PAPER = "Wu et al. 2021, Transformer-tiny, text only", "Vaswani et al. 2017, table 2"
LONGER = ("tokenizer.lowercase=true", "train.steps=12000")
"""Settings for scores beside those of Wu et al., who train on lower case; they read more than twice as much text."""
CLINIC = "fairseq's transformer_iwslt_de_en, averaged: 35.64 +- 0.23 in LiyuanLucasLiu/Transformer-Clinic#12"

TARGETS = {
    "multi30k-en-de": Target(
        multi30k("de", "German"), 41.02, 41.02, 44.0, WU, "de", settings=LONGER, seeds=(1, 2, 3), model="best"
    ),
    "multi30k-en-fr": Target(
        multi30k("fr", "French"), 61.80, 61.80, 65.0, WU, "fr", settings=LONGER, seeds=(1, 2, 3), model="best"
    ),
    "multi30k-en-de-wu2021": Target(MULTI30K_TOKENS, 41.02, 40.5, 41.6, WU, "de", tokens_are_text=True),
    "tatoeba-en-es": Target(
        replace(TASKS["tatoeba"], examples=0), 48.74, 47.3, 51.0, "benchmarks/results/tatoeba.md", "es", tokenised=False
    ),
    "iwslt14-de-en": Target(IWSLT14, 35.64, 35.0, 38.0, CLINIC, "en", normalise=False),
    "wmt14-en-de-base": Target(
        wmt14("de", "German", "base"), 27.3, 26.8, 28.5, PAPER, "de", 4, lowercase=False, split_compounds=True
    ),
    "wmt14-en-de-big": Target(
        wmt14("de", "German", "big"), 28.4, 27.9, 30.0, PAPER, "de", 4, lowercase=False, split_compounds=True
    ),
    "wmt14-en-fr-big": Target(wmt14("fr", "French", "big"), 41.8, 41.3, 43.8, PAPER, "fr", 4, lowercase=False),
}
"""Targets by name. Seeds differ by half a point; the lower ends of Multi30k are the published scores themselves."""


@dataclass(frozen=True)
class Scored:
    """A run that was scored: its seed, the last line of its log, its score with what chance makes of it."""

    seed: int
    last: dict[str, Any]
    score: float
    chance: str
    sacre: dict[str, Any]


def main() -> None:
    """Train if needed, score, judge, and write the page."""
    options = parse_options()
    target = TARGETS[options.name]
    data = Path(os.environ.get("PELLUCID_DATA", ""))
    files = [data / name for name in (target.task.source, target.task.reference, target.task.tokenised) if name]
    missing = [str(path) for path in files if not path.is_file()]
    # Exit code 2, before hours of training.
    if missing or "PELLUCID_DATA" not in os.environ:
        print(f"PELLUCID_DATA must hold {', '.join(missing)}; see {target.task.recipe}", file=sys.stderr)
        sys.exit(2)
    scored = []
    for seed in options.seeds or (target.seeds[:1] if options.change else target.seeds):
        run = RUNS / f"{options.name}-{seed}"
        if options.change:
            # A trial never touches the real run, and begins anew each time.
            run = run.with_name(f"{run.name}-tried")
            shutil.rmtree(run, ignore_errors=True)
        if not (run / "average").is_dir():
            train_recipe(target.task.recipe, run, [*target.settings, f"seed={seed}", *options.change])
        scored.append(Scored(seed, read_log(run / "log.jsonl")[-1], *score_run(target, run, data)))
        print(f"seed {seed}: {scored[-1].score:.2f}; sacreBLEU {scored[-1].sacre['score']:.2f}")
    verdict = judge_score(options.name, target, fmean(each.score for each in scored))
    print(verdict)
    # A trial with other settings or fewer seeds must not overwrite the page of the real one.
    if not options.change and not options.seeds:
        page = "\n".join(report_lines(options.name, target, scored, verdict)) + "\n"
        (RESULTS / f"{options.name}.md").write_text(page, encoding="utf-8")
    sys.exit(0 if verdict.startswith("PASS") else 1)


def parse_options() -> argparse.Namespace:
    """Parse the options of the command line."""
    parser = argparse.ArgumentParser(prog="make reproduce", description="Train a recipe and compare with its reference")
    parser.add_argument("name", choices=TARGETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[], metavar="N")
    parser.add_argument("--set", dest="change", action="append", default=[], metavar="SECTION.KEY=VALUE")
    return parser.parse_args()


def train_recipe(recipe: str, run: Path, change: Sequence[str], **run_options: Any) -> None:
    """Start or resume `pellucid train`; exit with its exit code if it fails. `run_options` are for `subprocess.run`."""
    overrides = [word for setting in change for word in ("--set", setting)]
    resume = ["--resume"] if any(run.glob("checkpoints/step-*")) else []
    command = [sys.executable, "-m", "pellucid", "train", str(HOUSE / recipe), "--out", str(run), *overrides, *resume]
    code = subprocess.run(command, check=False, **{"stdout": sys.stderr, **run_options}).returncode
    if code:
        sys.exit(code)


def score_run(target: Target, run: Path, data: Path) -> tuple[float, str, dict]:
    """Return the score to compare, half its interval by chance, and sacreBLEU's score, of the model of a run."""
    task = target.task
    sources, references = lines(data / task.source), lines(data / task.reference)
    all_scores, texts = score_model(run / target.model, task, sources, references, target.beam)
    sacre = all_scores["bleu"]
    if not target.tokenised:
        return sacre["score"], "", sacre
    if target.tokens_are_text:
        return *plain_bleu(texts, references), sacre
    tokens = moses(target.language, target.lowercase, target.normalise)
    expected = (
        lines(data / task.tokenised) if task.tokenised else [split_hyphens(tokens(line), target) for line in references]
    )
    return *plain_bleu([split_hyphens(tokens(text), target) for text in texts], expected), sacre


def split_hyphens(tokens: str, target: Target) -> str:
    """Return the tokens as the reference counts them; "rich-text" is three of them where compounds are split."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", tokens) if target.split_compounds else tokens


def plain_bleu(texts: list[str], references: list[str]) -> tuple[float, str]:
    """Return BLEU of tokens between spaces, and half its 95 % interval, by 1,000 test sets drawn from this one."""
    from sacrebleu.metrics.bleu import BLEU

    score = BLEU(tokenize="none", force=True).corpus_score(texts, [references], n_bootstrap=1000)
    return score.score, re.findall(r"± ([0-9.]+)", score.format())[0]


def judge_score(name: str, target: Target, score: float) -> str:
    """Return the verdict in one line."""
    kind = "tokenised BLEU" if target.tokenised else "sacreBLEU"
    summary = (
        f"{score:.2f} {kind}, {target.published:.2f} published, {target.lowest:.2f} to {target.highest:.2f} allowed"
    )
    # Too good is suspect: test sentences may stand in the training text.
    if score > target.highest:
        return f"FAIL {name}: {summary}: better than can be; look for test sentences in the training text"
    return f"{'PASS' if score >= target.lowest else 'FAIL'} {name}: {summary}"


def report_lines(name: str, target: Target, scored: Sequence[Scored], verdict: str) -> Iterator[str]:
    """Yield the lines of the page."""
    last, task = scored[-1].last, target.task
    # The word is for a score within the allowed band, not for one that is merely near.
    yield f"# {task.title}: {'reproduced' if verdict.startswith('PASS') else 'beside the published score'}\n"
    settings = ", ".join(f"`{setting}`" for setting in target.settings)
    changed = f", with {settings}," if settings else ""
    yield f"Made by `make reproduce NAME={name}` with [{task.recipe}](../../{task.recipe}){changed} on {machine()}."
    threads = torch.get_num_threads()
    yield f"`{target.model}/` after {last['step']:,} updates, {last['target_tokens']:,} target tokens,"
    yield f"{last['seconds'] / 60:.0f} minutes on {threads} thread{'s' * (threads > 1)}; test set `{task.source}`;"
    yield f"beam {target.beam}, length penalty {task.length_penalty}.\n"
    yield f"| | {'tokenised BLEU' if target.tokenised else 'BLEU'} | sacreBLEU |\n|---|---|---|"
    yield f"| published ({target.source}) | {target.published:.2f} | |"
    for each in scored:
        chance = f" ± {each.chance}" * bool(each.chance)
        yield f"| the same measure here, seed {each.seed} | {each.score:.2f}{chance} | {each.sacre['score']:.2f} |"
    if len(scored) > 1:
        scores = [each.score for each in scored]
        means = fmean(scores), fmean(each.sacre["score"] for each in scored)
        yield f"| mean | **{means[0]:.2f}**, standard deviation {stdev(scores):.2f} | {means[1]:.2f} |"
    yield "\nAfter ±: half the 95 % interval of a bootstrap of the test set." * any(each.chance for each in scored)
    yield f"\n{verdict}. Signature of sacreBLEU: `{scored[-1].sacre['signature']}`."


if __name__ == "__main__":
    main()
