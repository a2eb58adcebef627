"""Cost of looking inside: the size of the page and its files, the time until it can be used, a trace of a large model.

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
from pellucid.page.assets import read_script
from pellucid.page.html import trace_page
from tools.screenshots import open_chromium, run_server

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "glassbox.md"
RUNS = 7
WORDS = "the ball is blue and red but not green or white today because we like it so much here".split()  # noqa: SIM905


@dataclass(frozen=True)
class Row:
    """One measured number with its bound."""

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
        tiny, base = (save_random_model(Path(folder) / name, name) for name in ("tiny", "base"))
        rows = [
            measure_script(),
            measure_file("tiny", load(tiny)),
            measure_file("base", load(base)),
        ]
        rows += [*measure_trace(load(base)), *measure_browser(tiny)]
    date, python = time.strftime("%Y-%m-%d"), platform.python_version()
    text = PAGE.format(machine=machine(), python=python, date=date, rows="\n".join(map(str, rows)))
    RESULT.write_text(text, encoding="utf-8")
    print(text)


# Models


def save_random_model(directory: Path, size: str) -> Path:
    """Save a random model of a named size; a bias on the end mark lets its translations end."""
    tokenizer = make_tokenizer()
    config = ModelConfig(tokenizer.source_vocabulary, tokenizer.target_vocabulary, output_bias=True, **PRESETS[size])
    model = Transformer(config).eval()
    with torch.no_grad():
        # 2.0: a random model would otherwise hardly ever choose the end mark.
        model.output_bias[EOS] = 2.0  # pyright: ignore[reportOptionalSubscript]
    bundle.save_bundle(directory / "best", model, tokenizer, step=0)
    return directory / "best"


def make_tokenizer() -> Tokenizer:
    """Train a tokenizer with one piece for each of the words."""
    lines = [" ".join(WORDS)] * 3
    return Tokenizer.train(lines, lines, TokenizerConfig(vocabulary=340), seed=1, max_sentences=6)


def make_sentence(pieces: int) -> str:
    """Return a sentence of so many pieces, the end mark included, each word a piece of its own."""
    return " ".join(WORDS[i % len(WORDS)] for i in range(pieces - 1))


# Sizes


def measure_script() -> Row:
    """Measure the script of the page, compressed."""
    packed = len(gzip.compress(read_script().encode(), mtime=0))
    return Row("script of the page, gzip", f"{packed / 1000:.1f} kB", "120 kB", packed <= 120_000)


def measure_file(name: str, model: Model) -> Row:
    """Measure a file with all attention weights, candidates and accounts of a sentence of twelve pieces a side."""
    trace = model.trace(make_sentence(12), target=make_sentence(12))
    size = len(trace_page(trace, "maps").encode())
    pieces = f"{len(trace.source.pieces)} and {len(trace.target.pieces)} pieces"
    return Row(f"HTML file of maps, {name}, {pieces}", f"{size / 1e6:.2f} MB", "1 MB", size <= 1e6)


# Times


def measure_seconds(run: Callable[[], object], runs: int = RUNS) -> tuple[float, float]:
    """Return the median and the largest of the seconds that a call takes, the first call left out."""
    run()
    durations = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        durations.append(time.perf_counter() - start)
    return statistics.median(durations), max(durations)


def time_row(label: str, durations: tuple[float, float], bound: float) -> Row:
    """Make the row of a time, in ms where less than a second is wanted."""
    unit, scale = ("ms", 1000.0) if bound < 1 else ("s", 1.0)
    measured = f"{scale * durations[0]:.3g} {unit} (slowest {scale * durations[1]:.3g})"
    return Row(label, measured, f"{scale * bound:g} {unit}", durations[0] <= bound)


def measure_trace(model: Model) -> list[Row]:
    """Time a trace of a large model, with and without its checks."""
    text = make_sentence(20)
    trace = model.trace(text, target=text)
    pieces = f"{len(trace.source.pieces)} and {len(trace.target.pieces)} pieces, {torch.get_num_threads()} threads"
    captured = measure_seconds(lambda: model.trace(text, target=text))
    checked = measure_seconds(lambda: model.trace(text, target=text).manifest())
    return [
        time_row(f"trace of 6+6 layers, d_model 512, {pieces}", captured, 3.0),
        Row("the same with its manifest and all checks", f"{checked[0]:.3g} s (slowest {checked[1]:.3g})", "", None),
    ]


def measure_browser(model: Path) -> list[Row]:
    """Time the page in a browser: until it can be used, until a trace is shown, and the painting of maps."""
    harness = build_painting_script()
    with run_server(str(model)) as address, open_chromium() as browser:
        tab = browser.new_page(viewport={"width": 1440, "height": 900})

        def open_page() -> None:
            tab.goto("about:blank")
            tab.goto(address)
            tab.wait_for_selector("#pellucid-sentence")

        def open_trace() -> None:
            # An address that differs only after # would not load the page anew.
            tab.goto("about:blank")
            tab.goto(link)
            tab.wait_for_function(MAP_IS_DRAWN)

        usable = measure_seconds(open_page)
        tab.fill("#pellucid-sentence", make_sentence(12))
        tab.keyboard.press("Enter")
        tab.wait_for_function(MAP_IS_DRAWN)
        link = tab.url
        drawn = measure_seconds(open_trace)
        tab.goto("about:blank")
        tab.add_script_tag(content=harness)
        painted = [tab.evaluate("() => paintMany(144, 40)") / 1000 for _ in range(RUNS + 1)][1:]
    return [
        time_row("page can be used: from its address to the sentence box", usable, 1.0),
        time_row("a trace that was made is shown: from its link to all maps drawn (tiny, 12 pieces)", drawn, 1.0),
        time_row("144 maps of 40 x 40 painted", (statistics.median(painted), max(painted)), 0.1),
    ]


MAP_IS_DRAWN = "() => document.querySelector('canvas.thumbnail') && !document.querySelector('.thumbnail.waiting')"


def build_painting_script() -> str:
    """Bundle web/test/browser_pictures.ts to a plain script."""
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
