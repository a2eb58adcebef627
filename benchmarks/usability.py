"""Measures how many of the worst translations a reader of a fifth of them finds, who reads by expected quality.

Run: python -m benchmarks.usability --tatoeba runs/tatoeba/best --multi30k runs/multi30k/best

Both models translate English to German. Needs PELLUCID_DATA.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import pellucid
from benchmarks.improve import call_pellucid
from benchmarks.quality import RESULTS, machine
from pellucid.data.lines import read_lines
from pellucid.decode.prepared_lines import Translation
from pellucid.decode.usability import GRADES, Grade
from pellucid.workflows.calibration import score_sentences

Floats = NDArray[np.float64]

TESTS = {  # each test set by its name, with its files
    "TED talks": "ted_de-en/TED.tst2013",
    "news": "wmt_news/newstest2013",
    "Tatoeba": "tatoeba_en-de/test",
    "Multi30k": "multi30k/test_2016_flickr",
}
DEV = {"Tatoeba": "tatoeba_en-de/valid", "Multi30k": "multi30k/val"}
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)  # shares of the lines that are read

HOW_IT_WAS_MEASURED = """
Each model was calibrated on its own dev set (`pellucid calibrate`) and translates the first lines of each test set. The
bad lines are the fifth with the lowest chrF against the reference. A reader reads the lines in an order, and the tables
say which share of the bad lines is among those read. The orders: "grades", first what is to redo, then what is to look
at, and within each grade by the expected chrF; "expected", by the expected chrF alone; "per piece", by the
log-probability of each piece; "chance" finds as many as it reads. "Times" is that of "grades" over "per piece".
"""


@dataclass(frozen=True)
class Measurement:
    """Scores of the translations of a test set by a model, the lowest of which are read first."""

    model: str
    test: str
    chrf: Floats
    orders: dict[str, Floats]
    grades: list[Grade]

    def share_found(self, order: str, share: float) -> float:
        """Return the share of the bad lines that is among this share of the lines in an order."""
        size, read = len(self.chrf) // 5, round(share * len(self.chrf))
        bad = set(np.argsort(self.chrf, kind="stable")[:size].tolist())
        lines = np.argsort(self.orders[order], kind="stable")[:read].tolist()
        return len(bad.intersection(lines)) / size


def main() -> None:
    """Calibrate copies of the models, translate, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tatoeba", type=Path, required=True, help="model that was trained on Tatoeba")
    parser.add_argument("--multi30k", type=Path, required=True, help="model that was trained on Multi30k")
    parser.add_argument("--lines", type=int, default=600, help="lines of each test set")
    parser.add_argument("--page", type=Path, default=RESULTS / "usability.md")
    options = parser.parse_args()
    data = Path(os.environ["PELLUCID_DATA"])

    measured: list[Measurement] = []
    for name, path in (("Tatoeba", options.tatoeba), ("Multi30k", options.multi30k)):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(shutil.copytree(path, Path(folder) / "model"))
            source, reference = (data / f"{DEV[name]}.{language}.gz" for language in ("en", "de"))
            call_pellucid("calibrate", copy, "--source", source, "--reference", reference)
            model = pellucid.load(copy, engine="auto")
            for test in ("TED talks", "news", name):
                measured.append(measure(model, name, test, data, options.lines))
                print(f"{name}, {test}: {measured[-1].share_found('grades', 0.2):.0%}", flush=True)
    page = "\n".join(report_lines(measured, options.lines)) + "\n"
    options.page.write_text(page, encoding="utf-8")
    print(page)


def measure(model: pellucid.Model, name: str, test: str, data: Path, count: int) -> Measurement:
    """Translate the first lines of a test set and return their quality and the orders to read them in."""
    sources, references = (list(islice(read_lines(data / f"{TESTS[test]}.{code}.gz"), count)) for code in ("en", "de"))
    translations = model.translate(sources)
    searched = [i for i, found in enumerate(translations) if found.stop in ("eos", "length")]
    translations = [translations[i] for i in searched]
    chrf = score_sentences([found.text for found in translations], [references[i] for i in searched], model.lowercase)
    expected = expect_quality(model, translations)
    grades: list[Grade] = [found.grade or "usable" for found in translations]
    worst_first = np.array([-list(GRADES).index(grade) for grade in grades])
    orders = {
        "grades": 1000.0 * worst_first + expected,
        "expected": expected,
        "per piece": np.array([found.log_prob / len(found.pieces) for found in translations]),
    }
    return Measurement(name, test, chrf, orders, grades)


def expect_quality(model: pellucid.Model, translations: Sequence[Translation]) -> Floats:
    """Return the expected chrF of each translation."""
    calibration = model.translator.calibration
    assert calibration
    assert calibration.quality
    numbers = [(found.log_prob, len(found.pieces), len(found.source_pieces)) for found in translations]
    return np.array([calibration.quality.expect_chrf(*row) for row in numbers])


def report_lines(measured: Sequence[Measurement], count: int) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Grades: how many of the worst translations they find"
    yield ""
    command = f"python -m benchmarks.usability --tatoeba MODEL --multi30k MODEL --lines {count}"
    yield f"`OMP_NUM_THREADS=1 {command}` on {machine()}."
    yield HOW_IT_WAS_MEASURED
    yield "A reader of a fifth of the lines finds, of the bad lines:"
    yield ""
    yield "| model | test set | mean chrF | grades | expected | per piece | chance | times |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in measured:
        found = {order: row.share_found(order, 0.2) for order in row.orders}
        cells = " | ".join(f"{share:.0%}" for share in found.values())
        times = f"{found['grades'] / max(found['per piece'], 1e-9):.1f}"
        yield f"| {row.model} | {row.test} | {row.chrf.mean():.0f} | {cells} | 20% | {times} |"

    yield ""
    yield "The curve: the share of the bad lines that is found by reading this share of the lines, grades / per piece."
    yield ""
    yield f"| model | test set | {' | '.join(f'{share:.0%}' for share in SHARES)} |"
    yield f"|---|---|{'---|' * len(SHARES)}"
    for row in measured:
        cells = [f"{row.share_found('grades', s):.0%} / {row.share_found('per piece', s):.0%}" for s in SHARES]
        yield f"| {row.model} | {row.test} | {' | '.join(cells)} |"

    yield ""
    yield "What each grade has: the share of the lines, and their mean chrF."
    yield ""
    yield f"| model | test set | {' | '.join(GRADES)} |"
    yield f"|---|---|{'---|' * len(GRADES)}"
    for row in measured:
        masks = [np.array([found == grade for found in row.grades]) for grade in GRADES]
        cells = [f"{mask.mean():.0%}, chrF {row.chrf[mask].mean():.0f}" if mask.any() else "none" for mask in masks]
        yield f"| {row.model} | {row.test} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
