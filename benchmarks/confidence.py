"""Calibrate confidence on the dev set of two models, and measure it on their test sets, which nothing was fitted on.

    OMP_NUM_THREADS=1 nice -n 10 python -m benchmarks.confidence    # runs/confidence, benchmarks/results/confidence.md

Needs PELLUCID_DATA. A model that is in the folder already is not trained again, so one may be put there.
"""

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pellucid
from benchmarks.improve import SIZE, call_pellucid
from benchmarks.quality import HOUSE, RESULTS, lines, machine
from pellucid.calibrate import GOOD_CHRF, find_unchanged, measure_calibration


@dataclass(frozen=True)
class TestedCorpus:
    """A corpus with the names of its files: of training, dev and test, in two languages."""

    title: str
    folder: str
    dev: str
    test: str
    languages: tuple[str, str]


CORPORA = {
    "tatoeba": TestedCorpus("Tatoeba en-es", "tatoeba_en-es", "valid", "test", ("en", "es")),
    "multi30k": TestedCorpus("Multi30k en-de", "multi30k", "val", "test_2016_flickr", ("en", "de")),
}


def main() -> None:
    """Train, calibrate and test each model, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0, help="minutes for which each model is trained")
    parser.add_argument("--folder", type=Path, default=HOUSE / "runs" / "confidence")
    parser.add_argument("--page", type=Path, default=RESULTS / "confidence.md")
    options = parser.parse_args()
    data = Path(os.environ["PELLUCID_DATA"])
    results = {
        corpus: measure_corpus(corpus, data / corpus.folder, options.folder / name, options.minutes)
        for name, corpus in CORPORA.items()
    }
    page = "\n".join(report_lines(results, options.minutes)) + "\n"
    options.page.write_text(page, encoding="utf-8")
    print(page)


def measure_corpus(corpus: TestedCorpus, data: Path, run: Path, minutes: float) -> list[dict[str, Any]]:
    """Return what the confidence is worth on the second half of dev and on the test set, and the curve on the test."""

    def name_files(name: str, *options: str) -> list[str]:
        return [
            word
            for option, language in zip(options, corpus.languages, strict=True)
            for word in (option, f"{data}/{name}.{language}.gz")
        ]

    if not (run / "average").is_dir():
        files = name_files("train", "--source", "--target") + name_files(corpus.dev, "--dev-source", "--dev-target")
        call_pellucid("train", *files, *SIZE, "--minutes", minutes, "--out", run)
    call_pellucid("calibrate", run / "best", *name_files(corpus.dev, "--source", "--reference"))
    model = pellucid.load(run / "best")
    sources, references = (lines(data / f"{corpus.test}.{language}.gz") for language in corpus.languages)
    translations = model.translate(sources)
    confidences = np.array([found.confidence for found in translations], dtype=np.float64)
    unchanged = find_unchanged([found.text for found in translations], references, GOOD_CHRF, model.lowercase)
    assert model.translator.calibration
    levels = [(float(level), confidences == level) for level in np.unique(confidences)]
    curve = [(level, int(mask.sum()), float(unchanged[mask].mean())) for level, mask in levels]
    return [dict(model.translator.calibration.about), measure_calibration(confidences, unchanged) | {"curve": curve}]


def report_lines(results: dict[TestedCorpus, list[dict[str, Any]]], minutes: float) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Confidence: what it is worth on sentences that nothing was fitted on"
    yield ""
    yield f"Made by `OMP_NUM_THREADS=1 nice -n 10 python -m benchmarks.confidence` on {machine()}."
    yield (
        f"Each model, of size tiny, was trained for {minutes:g} minutes with one thread. The curve was fitted on every "
        "other sentence of the dev set. A sentence needs no change if it is the reference or has a chrF of "
        f"{GOOD_CHRF:g} or more with it."
    )
    yield ""
    yield "| corpus | set | sentences | need no change | calibration error | 0.5 or more | 0.7 or more | 0.9 or more |"
    yield "|---|---|---|---|---|---|---|---|"
    for corpus, measured in results.items():
        for name, about in zip(("second half of dev", "test"), measured, strict=True):
            cells = [
                f"{above:,}, {unchanged / above:.0%} unchanged" if above else "none"
                for bound in ("0.5", "0.7", "0.9")
                for above, unchanged in (about["above"][bound],)
            ]
            share = f"{about['unchanged'] / about['sentences']:.0%}"
            numbers = f"{about['sentences']:,} | {share} | {about['error']:.3f}"
            yield f"| {corpus.title} | {name} | {numbers} | {' | '.join(cells)} |"
    for corpus, (_, test) in results.items():
        yield ""
        yield f"{corpus.title}, test set: each confidence, its sentences, and the share of them that needs no change."
        yield ""
        yield "| confidence | sentences | need no change |"
        yield "|---|---|---|"
        yield from (f"| {level:.2f} | {count:,} | {share:.2f} |" for level, count, share in test["curve"])


if __name__ == "__main__":
    main()
