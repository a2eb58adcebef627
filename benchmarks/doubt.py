"""Measure whether the word that a model was least sure of is a wrong one, and whether what it would have been is right.

python -m benchmarks.doubt                            # the demo; writes benchmarks/results/doubt.md
python -m benchmarks.doubt --test MODEL SOURCE REFERENCE --test MODEL SOURCE REFERENCE ...
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from benchmarks.quality import RESULTS, machine
from pellucid.api import Model, load
from pellucid.data.lines import read_lines
from pellucid.interpret.trace.doubt import Doubt, find_doubt, find_wrong_words
from pellucid.interpret.trace.session import Trace

DEMO = ["runs/demo/best", "runs/demo/data/test.en", "runs/demo/data/test.es"]
COLUMNS = ("model", "wrong", "a word is doubted", "a wrong one", "instead is right", "right", "a word is doubted")


@dataclass
class Row:
    """Numbers of translations of one test set."""

    wrong: int = 0
    doubted: int = 0
    named: int = 0
    mended: int = 0
    right: int = 0
    right_doubted: int = 0

    def cells(self) -> Iterator[str]:
        """Yield the cells of a table."""
        yield f"{self.wrong:,}"
        for count in (self.doubted, self.named, self.mended):
            yield f"{count / max(1, self.wrong):.0%}"
        yield f"{self.right:,}"
        yield f"{self.right_doubted / max(1, self.right):.0%}"


def main() -> None:
    """Measure the test sets and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.doubt")
    parser.add_argument("--test", nargs=3, action="append", metavar=("MODEL", "SOURCE", "REFERENCE"))
    parser.add_argument("--most", type=int, default=200, help="how many wrong and right translations are traced")
    parser.add_argument("--out", type=Path, default=RESULTS / "doubt.md", help="the page to write")
    options = parser.parse_args()

    lines = [
        "# The least sure word: is it the wrong one?",
        "",
        "Made by `python -m benchmarks.doubt` on " + f"{machine()}.",
        "",
        f"A translation is wrong if it is not the reference; of each test set the first {options.most} wrong and the "
        f"first {options.most} right ones count. *A wrong one*: where the doubted word stands, the reference has "
        "another, or more. *Instead is right*: what would have been there is what the reference has there, as far as "
        "the other piece goes. Shares are of all wrong, or of all right, translations.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
    ]
    for directory, source, reference in options.test or [DEMO]:
        row = measure_doubts(load(directory), list(read_lines(source)), list(read_lines(reference)), options.most)
        lines.append(f"| {' | '.join([directory, *row.cells()])} |")
        print(lines[-1], file=sys.stderr)
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def measure_doubts(model: Model, sources: list[str], references: list[str], most: int) -> Row:
    """Translate a test set, and trace the first wrong and the first right translations."""
    row = Row()
    translations = model.translate(sources)
    for source, reference, translation in zip(sources, references, translations, strict=True):
        is_right = translation.text == reference
        if (row.right if is_right else row.wrong) == most:
            continue
        trace = model.trace(source, keep="decoder.0.cross.pattern")
        doubt = find_doubt(trace)
        if is_right:
            row.right += 1
            row.right_doubted += doubt is not None
            continue
        row.wrong += 1
        row.doubted += doubt is not None
        row.named += doubt is not None and doubt.word in find_wrong_words(trace.target.text, reference)
        row.mended += doubt is not None and is_mended(trace, doubt, reference)
    return row


def is_mended(trace: Trace, doubt: Doubt, reference: str) -> bool:
    """Whether the piece that would have been there goes on, or begins, a word that the reference has there.

    Where the translation has words too many, the right word is the one behind them.
    """
    other = next(one for one in trace.steps[doubt.step].top if one.prob == doubt.instead_prob)
    begun = "".join([*trace.target.pieces[: doubt.step], other.piece]).replace("▁", " ").split(" ")[-1]
    words, right = reference.split(), []
    blocks = SequenceMatcher(None, trace.target.text.split(), words, autojunk=False).get_opcodes()
    for kind, start, stop, first, last in blocks:
        if kind != "equal":
            right += words[first : last + (stop - start > last - first)]
    return bool(begun) and any(word.startswith(begun) for word in right)


if __name__ == "__main__":
    main()
