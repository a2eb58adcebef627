"""Trains one model from English into several languages and models of single directions, and compares them.

    PELLUCID_DATA=... python -m benchmarks.multilingual [--updates 600] [--singles de fr cs] [--out FOLDER]

The text is Multi30k's, which has the same English sentences with each translation. All models make the same number of
updates, so the one of several languages sees each of its directions a third as often. A run that is there is not made
again.
"""

import argparse
import os
import platform
import sys
from pathlib import Path
from typing import Any

from pellucid import Model, load, train
from pellucid.data.lines import read_lines
from pellucid.training.log import read_log

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = ("de", "fr", "cs")


def main() -> None:
    """Train the models that are missing, translate the test set with each, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.multilingual", description=__doc__)
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--singles", nargs="*", choices=LANGUAGES, default=LANGUAGES)
    parser.add_argument("--page", type=Path, default=ROOT / "benchmarks" / "results" / "multilingual.md")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "multilingual")
    options = parser.parse_args()
    data = Path(os.environ["PELLUCID_DATA"]) / "multi30k"
    together = train_model(data, options.out / "together", LANGUAGES, options.updates)
    rows = []
    for language in LANGUAGES:
        scores = [measure_model(together.into(language), data, language)]
        if language in options.singles:
            single = train_model(data, options.out / language, (language,), options.updates)
            scores.insert(0, measure_model(single, data, language))
        rows.append(f"| en-{language} | {' | '.join(scores if len(scores) > 1 else ['not trained', *scores])} |")
        print(rows[-1], flush=True)
    options.page.write_text("\n".join(page_lines(options, rows)) + "\n", encoding="utf-8")


def train_model(data: Path, out: Path, languages: tuple[str, ...], updates: int) -> Model:
    """Train a model of the size tiny from English into these languages, unless it is there."""
    if (out / "average").is_dir():
        return load(out / "best")
    corpora = [
        {
            **{side: str(data / f"train.{code}.gz") for side, code in (("source", "en"), ("target", language))},
            **{f"dev_{side}": str(data / f"val.{code}.gz") for side, code in (("source", "en"), ("target", language))},
            "languages": ["en", language],
            "name": f"en-{language}",
        }
        for language in languages
    ]
    if len(corpora) == 1:
        [corpus] = corpora
        table = {name: value for name, value in corpus.items() if name not in ("languages", "name")}
    else:
        table = {"corpus": corpora}
    run: dict[str, Any] = {
        "data": table,
        "model": {"size": "tiny"},
        "train": {"steps": updates, "precision": "bfloat16", "evaluate_every": max(1, updates // 3)},
        "optim": {"warmup": updates // 2},
    }
    return train(run, out=out)


def measure_model(model: Model, data: Path, language: str) -> str:
    """Return BLEU and chrF of the test set."""
    sides = [list(read_lines(data / f"test_2016_flickr.{code}.gz")) for code in ("en", language)]
    scores = model.evaluate(*sides)
    return " | ".join(f"{scores[name]['score']:.2f}" for name in ("bleu", "chrf"))


def page_lines(options: argparse.Namespace, rows: list[str]) -> list[str]:
    """Return the lines of the results page."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return [
        "# One model for three languages",
        "",
        f"    OMP_NUM_THREADS={threads} PELLUCID_DATA=... python -m benchmarks.multilingual "
        f"--updates {options.updates} --singles {' '.join(options.singles)}",
        "",
        "Multi30k, 29,000 English sentences with a translation into each language; the test set of 2016, 1,000 "
        "sentences, beam 4. Every model has the size tiny and 8,000 pieces, which three languages and English share "
        f"in the one of three, and was trained for {options.updates:,} updates of 4,096 target positions in bfloat16. "
        "So the model of three languages saw each of its directions a third as often as a model of one. "
        f"{platform.processor() or platform.machine()}, Python {sys.version.split()[0]}.",
        "",
        "| direction | BLEU, one direction | chrF | BLEU, three directions in one model | chrF |",
        "|---|---|---|---|---|",
        *(row.replace("not trained", "not trained | –") for row in rows),
        "",
        *(compare_at_a_third(options, language) for language in options.singles),
    ]


def compare_at_a_third(options: argparse.Namespace, language: str) -> str:
    """Return a sentence on the dev scores of two models that have seen as many pairs of one direction."""
    third = max(1, options.updates // 3)
    single = next(
        row for row in read_log(options.out / language / "log.jsonl") if row["step"] == third and "bleu" in row
    )
    together = next(row for row in read_log(options.out / "together" / "log.jsonl")[::-1] if "directions" in row)
    return (
        f"At a third of its training (update {third:,}) the model of en-{language} alone had seen about as many pairs "
        f"of en-{language} as the model of three in all of it: BLEU {single['bleu']:.2f} on dev, and "
        f"{together['directions'][f'en-{language}']['bleu']:.2f} for the model of three, which had made three times as "
        "many updates by then."
    )


if __name__ == "__main__":
    main()
