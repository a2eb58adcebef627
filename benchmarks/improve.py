"""Teach a model 100 corrections of one term with `pellucid improve`, and count how often it then gets the term right.

    OMP_NUM_THREADS=1 nice -n 10 python -m benchmarks.improve       # runs/improve, benchmarks/results/improve.md

Needs PELLUCID_DATA. A model is trained for some minutes on Tatoeba English-Spanish, without the sentences of the terms
that are set aside. It translates these with the usual word; a user wants another. A correction is what the model
wrote with that one word replaced. A hundred are taught, on the others it is counted how many have the wanted word and
none of the usual ones; dev is the validation set. What is there in the folder already is not made again.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pellucid
from benchmarks.quality import HOUSE, RESULTS, lines, machine
from pellucid.data.lines import read_lines
from pellucid.evaluate.scores import corpus_scores


@dataclass(frozen=True)
class Term:
    """An English word, pairs of usual and wanted Spanish words, and how many sentences with it are set aside."""

    word: str
    wanted: tuple[tuple[str, str], ...]
    aside: int


TERMS = (
    Term("car", (("coches|autos|carros", "automóviles"), ("coche|auto|carro", "automóvil")), 300),
    Term("teacher", (("profesores|profesoras|maestros|maestras", "docentes"),
                     ("profesor|profesora|maestro|maestra", "docente")), 250),
)  # fmt: skip

TAUGHT = 100

SIZE = ("--size", "tiny", "--set", "train.batch_tokens=1024", "--set", "model.dropout=0.1")
"""Size of a model that some minutes of one thread are enough for."""


@dataclass(frozen=True)
class Outcome:
    """Result of teaching one term: tests that are right before and after, chrF and BLEU on dev, and seconds."""

    right: tuple[int, int]
    tests: int
    dev: dict[str, tuple[float, float]]
    seconds: float
    said: list[str]


def main() -> None:
    """Train the model, teach each term, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0, help="minutes for which the model is trained")
    parser.add_argument("--folder", type=Path, default=HOUSE / "runs" / "improve")
    parser.add_argument("--page", type=Path, default=RESULTS / "improve.md")
    parser.add_argument("--set", action="append", default=[], help="passed on to `pellucid improve`")
    parser.add_argument("--remember", action="store_true", help="store the model's states first, for near pairs")
    options = parser.parse_args()
    folder, words = options.folder, [word for setting in options.set for word in ("--set", setting)]
    aside = prepare_text(Path(os.environ["PELLUCID_DATA"]) / "tatoeba_en-es", folder)
    if not (folder / "base" / "average").is_dir():
        call_pellucid("train", *train_words(folder), *SIZE, "--minutes", options.minutes, "--out", folder / "base")
    if options.remember:
        call_pellucid("remember", folder / "base")
    outcomes = {term: teach_term(term, aside[term.word], folder, words) for term in TERMS}
    page = "\n".join(report_lines(outcomes, options.minutes, " ".join(sys.argv[1:]))) + "\n"
    options.page.write_text(page, encoding="utf-8")
    print(page)


def prepare_text(data: Path, folder: Path) -> dict[str, list[str]]:
    """Write the training text without the sentences that are set aside, and return these for each term."""
    folder.mkdir(parents=True, exist_ok=True)
    aside: dict[str, list[str]] = {term.word: [] for term in TERMS}
    kept = []
    for source, target in zip(lines(data / "train.en.gz"), lines(data / "train.es.gz"), strict=True):
        term = next((term for term in TERMS if has_word(source, f"{term.word}|{term.word}s")), None)
        if term and (source in aside[term.word] or len(aside[term.word]) < term.aside):
            aside[term.word] += [] if source in aside[term.word] else [source]
        else:
            kept.append((source, target))
    for language, side in zip(("en", "es"), zip(*kept, strict=True), strict=True):
        (folder / f"train.{language}").write_text("\n".join(side) + "\n", encoding="utf-8")
        (folder / f"dev.{language}").write_text("\n".join(lines(data / f"valid.{language}.gz")) + "\n", "utf-8")
    return aside


def train_words(folder: Path) -> list[object]:
    """Return the options that name the files of the training."""
    names = {"--source": "train.en", "--target": "train.es", "--dev-source": "dev.en", "--dev-target": "dev.es"}
    return [word for option, name in names.items() for word in (option, folder / name)]


def teach_term(term: Term, sources: list[str], folder: Path, words: list[str]) -> Outcome:
    """Correct what the model writes for the term, teach 100 of these corrections, and test the others."""
    base = pellucid.load(folder / "base" / "best")
    rows = []
    for source, translation in zip(sources, base.translate(sources, scores=False), strict=True):
        if (right := correct_text(term, translation.text)) != translation.text:
            rows.append((source, translation.text, right))
    taught, tests = rows[:TAUGHT], rows[TAUGHT:]
    file, out = folder / f"{term.word}.tsv", folder / f"{term.word}"
    file.write_text("".join("\t".join(row) + "\n" for row in taught), encoding="utf-8")
    subprocess.run(["rm", "-rf", str(out)], check=True)
    began = time.monotonic()
    said = call_pellucid("improve", folder / "base" / "best", file, "--out", out, *words)
    seconds = time.monotonic() - began
    improved = pellucid.load(out / "best" if (out / "best").is_dir() else out / "candidate-1-1")
    test_sources = [source for source, _, _ in tests]
    right = tuple(
        sum(is_right(term, found.text) for found in model.translate(test_sources, scores=False))
        for model in (base, improved)
    )
    dev_sources, references = (list(read_lines(folder / f"dev.{language}")) for language in ("en", "es"))
    scores = [
        corpus_scores([found.text for found in model.translate(dev_sources, scores=False)], references)
        for model in (base, improved)
    ]
    dev = {name: (scores[0][name]["score"], scores[1][name]["score"]) for name in ("bleu", "chrf")}
    return Outcome((right[0], right[1]), len(tests), dev, seconds, said)


def has_word(text: str, words: str) -> bool:
    """Whether a text has one of the words, which stand between bars."""
    return re.search(rf"\b(?:{words})\b", text, re.IGNORECASE) is not None


def correct_text(term: Term, text: str) -> str:
    """Replace the usual words by the wanted ones."""
    for usual, wanted in term.wanted:
        text = re.sub(rf"\b(?:{usual})\b", wanted, text)
    return text


def is_right(term: Term, text: str) -> bool:
    """Whether a translation has a wanted word and no usual one."""
    return any(has_word(text, wanted) for _, wanted in term.wanted) and correct_text(term, text) == text


def call_pellucid(*words: object) -> list[str]:
    """Run a command of pellucid, show what it reports, and return what it writes to standard output."""
    command = [sys.executable, "-m", "pellucid", *map(str, words)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    print(output, file=sys.stderr)
    return output.splitlines()


def report_lines(outcomes: dict[Term, Outcome], minutes: float, words: str) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# A term that a user wants otherwise: 100 corrections"
    yield ""
    yield f"Made by `OMP_NUM_THREADS=1 nice -n 10 python -m benchmarks.improve {words}`".rstrip() + f" on {machine()}."
    yield (
        f"The model, of size tiny, was trained for {minutes:g} minutes with one thread, on Tatoeba English-Spanish "
        "without the sentences set aside."
    )
    yield ""
    yield "| word | usual | wanted | taught | tests right before | after | share | chrF on dev | BLEU on dev | time |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for term, outcome in outcomes.items():
        usual, wanted = term.wanted[-1][0].replace("|", ", "), term.wanted[-1][1]
        before, after = (f"{count} of {outcome.tests}" for count in outcome.right)
        dev = (f"{a:.2f} → {b:.2f} ({b - a:+.2f})" for a, b in (outcome.dev["chrf"], outcome.dev["bleu"]))
        yield (
            f"| {term.word} | {usual} | {wanted} | {TAUGHT} | {before} | {after} | "
            f"{outcome.right[1] / outcome.tests:.0%} | {' | '.join(dev)} | {outcome.seconds:.0f} s |"
        )
    yield ""
    yield (
        "*Tests*: other sentences with the word, which no training saw, and in which the model wrote a usual word; "
        "right is one that has the wanted word, also in the plural, and no usual one. Of the 100 corrections `improve` "
        "holds out 20 itself. *Time*: the whole command, with all translations before and after. It said:"
    )
    for term, outcome in outcomes.items():
        yield ""
        yield f"```\n{term.word}\n" + "\n".join(line for line in outcome.said if "/" not in line) + "\n```"


if __name__ == "__main__":
    main()
