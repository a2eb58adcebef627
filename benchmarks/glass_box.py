"""Times of the page: Enter and switches to drawn, by a server and in the browser, a play, translations beside a study.

    python -m benchmarks.glass_box runs/demo/best

It needs Chromium and playwright, and serves the model itself. The run's dev text must be where the run found it.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SENTENCES = [
    *("The ball is blue.", "The sky is blue.", "You are welcome.", "The black cat drank the milk."),
    *("My sister bought a big house.", "The children sing at the park.", "Did the queen drink the coffee?"),
    *("The dog saw the cat in the kitchen.", "Peter wants to show the doll to that farmer."),
]
TRANSLATIONS = 30
PAUSE = 1.5
"""Seconds between two translations; the study goes on after one second without work."""

PLAYED_SECONDS = 4
WINDOW: Any = {"width": 1440, "height": 900}

ENTER = """() => {
    window.entered = undefined
    const note = () => { window.entered = performance.now() }
    document.querySelector('.ask').addEventListener('submit', note, { once: true })
}"""
DRAWN = """sentence => new Promise(resolve => {
    const look = () => {
        const isShown = document.title.startsWith(sentence) && !document.querySelector('.waiting, .busy:not(:empty)')
        if (!isShown) return requestAnimationFrame(look)
        requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - window.entered)))
    }
    look()
})"""
NOTE_DRAWN = """
const look = () => {
    const isDrawn = document.querySelector('.centre .view') && !document.querySelector('.waiting, .busy:not(:empty)')
    if (!isDrawn) return requestAnimationFrame(look)
    requestAnimationFrame(() => { window.drawnAt = performance.now() })
}
requestAnimationFrame(look)
"""
"""Notes in the page itself when the first picture is there; whoever drives the browser learns of it later."""

STOPS = (4, 7, 10, 11, 12)
"""Stops of the story whose switch searches for another translation."""

SWITCHED = """isOn => new Promise(resolve => {
    const clicked = performance.now()
    document.querySelector('.without [role=switch]').click()
    const look = () => {
        const isTurned = document.querySelector(`.without [role=switch][aria-checked=${isOn}]`)
        if (!isTurned || document.querySelector('.waiting, .busy:not(:empty)')) return requestAnimationFrame(look)
        requestAnimationFrame(() => requestAnimationFrame(() => resolve((performance.now() - clicked) / 1000)))
    }
    look()
})"""
COMPUTED_BY = "word => document.querySelector('.computed-by')?.innerText.includes(word)"
CHECKED = "() => !document.querySelector('.footer').innerText.includes('being made')"
FRAMES = """seconds => new Promise(resolve => {
    const times = []
    const note = time => {
        times.push(time)
        if (time - times[0] < 1000 * seconds) requestAnimationFrame(note)
        else resolve(times.slice(1).map((time, i) => time - times[i]))
    }
    requestAnimationFrame(note)
})"""


def main() -> None:
    """Print the lines of the table in benchmarks/results/glassbox.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    model = parser.parse_args().model
    with serve(model) as address:
        print_row("a translation while the heads are studied", time_translations(address, 1.5))
        wait_for_study(address)
        print_row("a translation afterwards", time_translations(address, 0.1))
        with open_page(address) as page:
            print_row("Enter to everything drawn, the demo", time_enter(page))
        time_switches("the demo", address)
    with tempfile.TemporaryDirectory() as folder, serve(save_random_model(model, Path(folder), "small")) as address:
        time_switches("small", address)
    with tempfile.TemporaryDirectory() as folder:
        time_model_page(model, Path(folder, "model.html"))
    with (
        tempfile.TemporaryDirectory() as folder,
        serve(save_random_model(model, Path(folder), "base")) as address,
        open_page(f"{address}#s=The+ball+is+blue.&v=map") as page,
    ):
        page.wait_for_function(CHECKED)  # the server has nothing to do any more
        page.keyboard.press("k")
        intervals = [interval / 1000 for interval in page.evaluate(FRAMES, PLAYED_SECONDS)]
        print_row("a frame of the play on the map, 6+6 layers, d_model 512", intervals)
        print(f"{len(intervals) / sum(intervals):.1f} frames per second")


def time_model_page(model: Path, path: Path) -> None:
    """Write the page with the model inside; print how large it is, and the times of opening and using it."""
    from pellucid.api import load
    from pellucid.interpret.trace.model_page import save_model_page

    size = save_model_page(load(model).trace(SENTENCES[0]), path)
    print(f"| the file with the model inside | {size / 1e6:.2f} MB |", flush=True)
    opened, answered, entered = [], [], []
    for _ in range(5):
        with open_page(path.as_uri()) as page:
            opened.append(page.evaluate("window.drawnAt / 1000"))
        with open_page(path.as_uri()) as page:
            page.evaluate("window.pellucid.translate('Yes.')")
            answered.append(page.evaluate("performance.now() / 1000"))
            entered += time_enter(page)
    print_row("that file, from its opening until its first sentence is drawn", opened)
    print_row("from its opening until the model in it has translated another one", answered)
    print_row("Enter to everything drawn in that file", entered)


def print_row(name: str, seconds: list[float]) -> None:
    """Print median and worst of some times."""
    print(
        f"| {name} | {statistics.median(seconds):.4f} s (slowest of {len(seconds)}: {max(seconds):.4f}) |", flush=True
    )


@contextmanager
def serve(model: Path) -> Iterator[str]:
    """Serve a model on a free port, and yield its address."""
    command = [sys.executable, "-m", "pellucid", "serve", f"en:es={model}", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "http://" in line)
            yield "http://" + line.split("http://")[1].split("/")[0] + "/"
        finally:
            process.terminate()


@contextmanager
def open_page(address: str) -> Iterator[Any]:
    """Open the page in Chromium, and wait until everything is drawn."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport=WINDOW)
        page.add_init_script(NOTE_DRAWN)
        page.goto(address)
        page.wait_for_function("() => window.drawnAt")
        yield page
        browser.close()


def time_enter(page: Any) -> list[float]:
    """Return the seconds from Enter until everything is drawn, of each sentence but the first."""
    times = []
    for sentence in SENTENCES:
        page.fill("#pellucid-sentence", sentence)
        page.wait_for_timeout(600)  # until the look-up of rare words is over
        page.evaluate(ENTER)
        page.press("#pellucid-sentence", "Enter")
        times.append(page.evaluate(DRAWN, sentence) / 1000)
        page.wait_for_timeout(500)
    return times[1:]


def time_switches(name: str, address: str) -> None:
    """Print the times from a click on a switch to its picture, computed by the server and in the browser in turn."""
    start = f"{address}#s={SENTENCES[-1].replace(' ', '+')}&v=map&n=1"
    times: dict[str, list[float]] = {"server": [], "browser": []}
    with open_page(start) as page:
        pages = {"server": page.context.browser.new_page(viewport=WINDOW), "browser": page}
        pages["server"].add_init_script("delete window.Worker")  # without one the page stays with the server
        pages["server"].goto(start)
        for word, page in zip(("alone", "same"), pages.values(), strict=True):
            page.wait_for_function(COMPUTED_BY, arg=word)
        for stop in STOPS:
            for computer, page in pages.items():
                page.get_by_role("button", name=f"Stop {stop}:").click()
                page.wait_for_timeout(500)
                times[computer].append(page.evaluate(SWITCHED, True))
                page.wait_for_function(COMPUTED_BY, arg=computer)
                page.wait_for_timeout(500)
                page.evaluate(SWITCHED, False)
    for computer, seconds in times.items():
        print_row(f"a switch to its picture, {name}, {computer}", seconds)


def post(address: str, fields: dict[str, Any]) -> Any:
    """Post JSON, and return the JSON of the answer."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, json.dumps(fields).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def time_translations(address: str, pause: float) -> list[float]:
    """Return the seconds of each of some translations; a study goes on in a pause of more than a second."""
    times = []
    for i in range(TRANSLATIONS):
        started = time.perf_counter()
        post(f"{address}translate", {"q": SENTENCES[i % len(SENTENCES)], "source": "en", "target": "es"})
        times.append(time.perf_counter() - started)
        time.sleep(pause)
    return times


def wait_for_study(address: str) -> None:
    """Wait until the heads have been studied."""
    identity = post(f"{address}trace", {"sentence": "The ball is blue."})["id"]
    while post(f"{address}trace/{identity}/heads", {}).get("pending"):
        time.sleep(2)


def save_random_model(demo: Path, folder: Path, preset: str) -> Path:
    """Save a random model of a preset's sizes with the demo's tokenizer."""
    import torch

    from pellucid.api import load
    from pellucid.model import PRESETS, ModelConfig, Transformer
    from pellucid.store.directory import save_bundle

    torch.manual_seed(1)
    tokenizer = load(demo).bundle.tokenizer
    size = tokenizer.source_vocabulary
    save_bundle(folder / preset, Transformer(ModelConfig(size, size, **PRESETS[preset])).eval(), tokenizer)
    return folder / preset


if __name__ == "__main__":
    main()
