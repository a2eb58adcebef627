"""Calibrate confidence on the dev set of two models, and measure it on their test sets, which nothing was fitted on.

    OMP_NUM_THREADS=1 nice -n 10 python -m benchmarks.confidence    # runs/confidence, benchmarks/results/confidence.md

Needs PELLUCID_DATA, the demo, and the model of Tatoeba that `python -m benchmarks.improve` trains.
"""

import argparse
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pellucid
from benchmarks.improve import call_pellucid
from benchmarks.quality import HOUSE, RESULTS, machine
from pellucid.calibrate import GOOD_CHRF, find_unchanged, measure_calibration
from pellucid.data.lines import read_lines


def main() -> None:
    """Calibrate and test each model, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=HOUSE / "runs" / "confidence")
    parser.add_argument("--tatoeba", type=Path, default=HOUSE / "runs" / "improve" / "base" / "best")
    parser.add_argument("--page", type=Path, default=RESULTS / "confidence.md")
    options = parser.parse_args()
    tatoeba, demo = Path(os.environ["PELLUCID_DATA"]) / "tatoeba_en-es", HOUSE / "runs" / "demo"
    results = {
        "Tatoeba": measure_model(options.tatoeba, options.folder / "tatoeba", tatoeba, ("valid", "test"), ".gz"),
        "the demo's phrasebook": measure_model(
            demo / "best", options.folder / "demo", demo / "data", ("dev", "test"), ""
        ),
    }
    page = "\n".join(report_lines(results)) + "\n"
    options.page.write_text(page, encoding="utf-8")
    print(page)


def measure_model(model: Path, copy: Path, data: Path, names: tuple[str, str], ending: str) -> list[dict[str, Any]]:
    """Return what the confidence of a model is worth on the second half of dev and on the test set, with its curve."""
    (dev_source, dev_target), test = (
        [data / f"{name}.{language}{ending}" for language in ("en", "es")] for name in names
    )
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(model, copy)
    call_pellucid("calibrate", copy, "--source", dev_source, "--reference", dev_target)
    loaded = pellucid.load(copy, engine="auto")
    sources, references = (list(read_lines(path)) for path in test)
    translations = loaded.translate(sources)
    confidences = np.array([found.confidence for found in translations], dtype=np.float64)
    unchanged = find_unchanged([found.text for found in translations], references, GOOD_CHRF, loaded.lowercase)
    assert loaded.translator.calibration
    levels = [(float(level), confidences == level) for level in np.unique(confidences)]
    curve = [(level, int(mask.sum()), float(unchanged[mask].mean())) for level, mask in levels]
    return [dict(loaded.translator.calibration.about), measure_calibration(confidences, unchanged) | {"curve": curve}]


def report_lines(results: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Confidence: what it is worth on sentences that nothing was fitted on"
    yield ""
    yield f"Made by `OMP_NUM_THREADS=1 nice -n 10 python -m benchmarks.confidence` on {machine()}."
    yield (
        "The model of Tatoeba English-Spanish is that of [improve.md](improve.md), before it was improved; the other "
        "is that of the demo. The curve was fitted on every other sentence of the dev set. A sentence needs no change "
        f"if it is the reference or has a chrF of {GOOD_CHRF:g} or more with it."
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
            yield f"| {corpus} | {name} | {numbers} | {' | '.join(cells)} |"
    for corpus, (_, test) in results.items():
        yield ""
        yield f"{corpus}, test set: each confidence, its sentences, and the share of them that needs no change."
        yield ""
        yield "| confidence | sentences | need no change |"
        yield "|---|---|---|"
        yield from (f"| {level:.2f} | {count:,} | {share:.2f} |" for level, count, share in test["curve"])


if __name__ == "__main__":
    main()
