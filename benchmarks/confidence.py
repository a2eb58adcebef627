"""Calibrate confidence on the dev set of some models, and measure it on their test sets, which nothing was fitted on.

    OMP_NUM_THREADS=1 nice -n 10 python -m benchmarks.confidence    # runs/confidence, benchmarks/results/confidence.md
    python -m benchmarks.confidence --corpora multi30k demo --page benchmarks/results/confidence-multi30k.md

Needs PELLUCID_DATA, the demo, and the models that `python -m benchmarks.improve` (Tatoeba) and `python -m
benchmarks.ruined` (Multi30k) train.
"""

import argparse
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pellucid
from benchmarks.improve import call_pellucid
from benchmarks.quality import HOUSE, RESULTS, machine
from pellucid.data.lines import read_lines
from pellucid.workflows.calibration import GOOD_CHRF, confidences_at, find_unchanged, judge_words, measure_calibration


@dataclass(frozen=True)
class Corpus:
    """A model, and the dev and test sets that it is measured on."""

    name: str
    model: Path
    texts: tuple[tuple[Path, Path], tuple[Path, Path]]
    """Source and references of dev, and of the test set."""


def list_corpora(data: Path) -> dict[str, Corpus]:
    """Return what can be measured, by the names of `--corpora`."""
    runs = HOUSE / "runs"

    def name_texts(folder: Path, names: tuple[str, str], languages: tuple[str, str], ending: str = "") -> Any:
        return tuple(tuple(folder / f"{name}.{language}{ending}" for language in languages) for name in names)

    to_spanish, to_german = ("en", "es"), ("en", "de")
    tatoeba = name_texts(data / "tatoeba_en-es", ("valid", "test"), to_spanish, ".gz")
    multi30k = name_texts(data / "multi30k", ("val", "test_2016_flickr"), to_german, ".gz")
    demo = name_texts(runs / "demo" / "data", ("dev", "test"), to_spanish)
    return {
        "tatoeba": Corpus("Tatoeba", runs / "improve" / "base" / "best", tatoeba),
        "multi30k": Corpus("Multi30k", runs / "ruined" / "clean-1" / "best", multi30k),
        "demo": Corpus("the demo's phrasebook", runs / "demo" / "best", demo),
    }


def main() -> None:
    """Calibrate and test each model, and write the page."""
    corpora = list_corpora(Path(os.environ["PELLUCID_DATA"]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", nargs="+", default=["tatoeba", "demo"], choices=list(corpora))
    parser.add_argument("--folder", type=Path, default=HOUSE / "runs" / "confidence")
    parser.add_argument("--page", type=Path, default=RESULTS / "confidence.md")
    options = parser.parse_args()
    results = {corpora[key].name: measure_model(corpora[key], options.folder / key) for key in options.corpora}
    page = "\n".join(report_lines(results, options.corpora)) + "\n"
    options.page.write_text(page, encoding="utf-8")
    print(page)


def measure_model(corpus: Corpus, copy: Path) -> list[dict[str, Any]]:
    """Return what the confidence of a model is worth on the second half of dev and on the test set, with its curve."""
    (dev_source, dev_target), test = corpus.texts
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(corpus.model, copy)
    call_pellucid("calibrate", copy, "--source", dev_source, "--reference", dev_target)
    loaded = pellucid.load(copy, engine="auto")
    calibration = loaded.translator.calibration
    assert calibration
    assert calibration.words
    sources, references = (list(read_lines(path)) for path in test)
    translations = loaded.translate(sources)
    texts = [found.text for found in translations]
    confidences = np.array([found.confidence for found in translations], dtype=np.float64)
    unchanged = find_unchanged(texts, references, GOOD_CHRF, loaded.lowercase)
    levels = [(float(level), confidences == level) for level in np.unique(confidences)]
    curve = [(level, int(mask.sum()), float(unchanged[mask].mean())) for level, mask in levels]
    words = judge_words(loaded.translator, sources, texts, references, loaded.lowercase)
    log_probs, kept = (np.concatenate([side[i] for side in words]) for i in (0, 1))
    of_words = confidences_at(calibration.words, log_probs)
    return [
        dict(calibration.about),
        measure_calibration(confidences, unchanged) | {"curve": curve, "words": measure_calibration(of_words, kept)},
    ]


def report_lines(results: dict[str, list[dict[str, Any]]], corpora: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Confidence: what it is worth on sentences that nothing was fitted on"
    yield ""
    yield f"`OMP_NUM_THREADS=1 python -m benchmarks.confidence --corpora {' '.join(corpora)}` on {machine()}."
    yield (
        "The model of Tatoeba English-Spanish is that of [improve.md](improve.md), before it was improved; that of "
        "Multi30k English-German is the first one trained on clean text of [ruined.md](ruined.md). The curves were "
        "fitted on every other sentence of the dev set. A sentence needs no change if it is the reference or has a "
        f"chrF of {GOOD_CHRF:g} or more with it; a word is kept if the reference has it, in the same order."
    )
    sentences = {corpus: tuple(measured) for corpus, measured in results.items()}
    words = {corpus: tuple(about["words"] for about in measured) for corpus, measured in results.items()}
    yield from table_lines("sentences | need no change", "unchanged", sentences)
    yield from table_lines("words | kept", "kept", words)
    for corpus, (_, test) in results.items():
        yield ""
        yield f"{corpus}, test set: each confidence, its sentences, and the share of them that needs no change."
        yield ""
        yield "| confidence | sentences | need no change |"
        yield "|---|---|---|"
        yield from (f"| {level:.2f} | {count:,} | {share:.2f} |" for level, count, share in test["curve"])


def table_lines(counted: str, kept: str, results: dict[str, tuple[dict[str, Any], ...]]) -> Iterator[str]:
    """Yield the table of what is counted, a row for the second half of dev and one for the test set of each corpus."""
    yield ""
    yield f"| corpus | set | {counted} | calibration error | 0.5 or more | 0.7 or more | 0.9 or more |"
    yield "|---|---|---|---|---|---|---|---|"
    for corpus, measured in results.items():
        for name, about in zip(("second half of dev", "test"), measured, strict=True):
            cells = [
                f"{above:,}, {unchanged / above:.0%} {kept}" if above else "none"
                for bound in ("0.5", "0.7", "0.9")
                for above, unchanged in (about["above"][bound],)
            ]
            share = f"{about['unchanged'] / about['sentences']:.0%}"
            numbers = f"{about['sentences']:,} | {share} | {about['error']:.3f}"
            yield f"| {corpus} | {name} | {numbers} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
