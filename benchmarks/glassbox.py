"""What looking costs: the size of the page and its files, the time until it can be used, a trace of a large model.

    OMP_NUM_THREADS=2 python -m benchmarks.glassbox       # on a quiet machine only

Prints the table and writes benchmarks/results/glassbox.md. The models are random ones of the named sizes: what is
measured depends on shapes, not on what was learned. Times are the median of several runs, the slowest beside it.
"""

import gzip
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.quality import machine
from pellucid import bundle
from pellucid.api import Model, load
from pellucid.data.tokenizer import EOS, Tokenizer, TokenizerConfig
from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.page.assets import read_script as script
from pellucid.page.html import trace_page
from tools.screenshots import chromium, served

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "glassbox.md"
RUNS = 7
WORDS = "the ball is blue and red but not green or white today because we like it so much here".split()  # noqa: SIM905


@dataclass(frozen=True)
class Row:
    """One number with what was wanted of it."""

    what: str
    measured: str
    wanted: str
    within: bool | None  # None where nothing was promised

    def __str__(self) -> str:
        within = {True: "yes", False: "**no**", None: ""}[self.within]
        return f"| {self.what} | {self.measured} | {self.wanted} | {within} |"


def main() -> None:
    """Measure every row, print the page and write it."""
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        tiny, base = (saved(Path(folder) / name, name) for name in ("tiny", "base"))
        rows = [
            size_of_the_script(),
            size_of_a_file("tiny", load(tiny)),
            size_of_a_file("base", load(base)),
        ]
        rows += [*times_of_a_trace(load(base)), *times_in_a_browser(tiny)]
    date, python = time.strftime("%Y-%m-%d"), platform.python_version()
    text = PAGE.format(machine=machine(), python=python, date=date, rows="\n".join(map(str, rows)))
    RESULT.write_text(text, encoding="utf-8")
    print(text)


# Models


def saved(place: Path, size: str) -> Path:
    """A random model of a named size; the end mark has a bias that lets it come sooner or later."""
    tokenizer = small_tokenizer()
    config = ModelConfig(tokenizer.source_vocabulary, tokenizer.target_vocabulary, output_bias=True, **PRESETS[size])
    model = Transformer(config).eval()
    with torch.no_grad():
        model.output_bias[EOS] = 2.0  # pyright: ignore[reportOptionalSubscript]
    bundle.save_bundle(place / "best", model, tokenizer, step=0)
    return place / "best"


def small_tokenizer() -> Tokenizer:
    """One piece for each of the words."""
    lines = [" ".join(WORDS)] * 3
    return Tokenizer.train(lines, lines, TokenizerConfig(vocabulary=340), seed=1, max_sentences=6)


def sentence(pieces: int) -> str:
    """So many words less the end mark, each a piece of its own."""
    return " ".join(WORDS[i % len(WORDS)] for i in range(pieces - 1))


# Sizes


def size_of_the_script() -> Row:
    packed = len(gzip.compress(script().encode(), mtime=0))
    return Row("script of the page, gzip", f"{packed / 1000:.1f} kB", "120 kB", packed <= 120_000)


def size_of_a_file(name: str, model: Model) -> Row:
    """All attention weights, the candidates and the accounts of a sentence of twelve pieces a side."""
    trace = model.trace(sentence(12), target=sentence(12))
    size = len(trace_page(trace, "maps").encode())
    pieces = f"{len(trace.source.pieces)} and {len(trace.target.pieces)} pieces"
    return Row(f"HTML file of maps, {name}, {pieces}", f"{size / 1e6:.2f} MB", "1 MB", size <= 1e6)


# Times


def timed(run: Callable[[], object], runs: int = RUNS) -> tuple[float, float]:
    """Median and largest of the seconds that a call takes, the first left out."""
    run()
    spent = []
    for _ in range(runs):
        began = time.perf_counter()
        run()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent), max(spent)


def row_of_time(what: str, spent: tuple[float, float], wanted: float) -> Row:
    unit, scale = ("ms", 1000.0) if wanted < 1 else ("s", 1.0)
    measured = f"{scale * spent[0]:.3g} {unit} (slowest {scale * spent[1]:.3g})"
    return Row(what, measured, f"{scale * wanted:g} {unit}", spent[0] <= wanted)


def times_of_a_trace(model: Model) -> list[Row]:
    text = sentence(20)
    trace = model.trace(text, target=text)
    pieces = f"{len(trace.source.pieces)} and {len(trace.target.pieces)} pieces, {torch.get_num_threads()} threads"
    captured = timed(lambda: model.trace(text, target=text))
    checked = timed(lambda: model.trace(text, target=text).manifest())
    return [
        row_of_time(f"trace of 6+6 layers, d_model 512, {pieces}", captured, 3.0),
        Row("the same with its manifest and all checks", f"{checked[0]:.3g} s (slowest {checked[1]:.3g})", "", None),
    ]


def times_in_a_browser(model: Path) -> list[Row]:
    harness = painting_script()
    with served(str(model)) as address, chromium() as browser:
        tab = browser.new_page(viewport={"width": 1440, "height": 900})

        def begin() -> None:
            tab.goto("about:blank")
            tab.goto(address)
            tab.wait_for_selector("#pellucid-sentence")

        def look() -> None:
            tab.goto("about:blank")
            tab.goto(link)
            tab.wait_for_function(MAP_IS_DRAWN)

        usable = timed(begin)
        tab.fill("#pellucid-sentence", sentence(12))
        tab.keyboard.press("Enter")
        tab.wait_for_function(MAP_IS_DRAWN)
        link = tab.url
        drawn = timed(look)
        tab.goto("about:blank")
        tab.add_script_tag(content=harness)
        painted = [tab.evaluate("() => paintMany(144, 40)") / 1000 for _ in range(RUNS + 1)][1:]
    return [
        row_of_time("page can be used: from its address to the sentence box", usable, 1.0),
        row_of_time("a trace that was made is shown: from its link to all maps drawn (tiny, 12 pieces)", drawn, 1.0),
        row_of_time("144 maps of 40 x 40 painted", (statistics.median(painted), max(painted)), 0.1),
    ]


MAP_IS_DRAWN = "() => document.querySelector('canvas.thumbnail') && !document.querySelector('.thumbnail.waiting')"


def painting_script() -> str:
    """web/test/browser_pictures.ts as a plain script."""
    web = ROOT / "web"
    words = ["node", "node_modules/esbuild/bin/esbuild", "test/browser_pictures.ts", "--bundle", "--format=iife"]
    return subprocess.run(words, cwd=web, check=True, capture_output=True, text=True).stdout


PAGE = """# What looking costs

    OMP_NUM_THREADS=2 python -m benchmarks.glassbox

{machine}, Python {python}; {date}. Random models of the sizes named tiny (4+4 layers, d_model 128) and base (6+6
layers, d_model 512). Times are medians of seven runs after one that is not counted.

| what | measured | wanted | within |
|---|---|---|---|
{rows}
"""


if __name__ == "__main__":
    main()
