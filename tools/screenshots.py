"""Screenshots of the page for README.md and the documentation, from the demo model.

    python tools/screenshots.py [MODEL] [SENTENCE]

`make screenshots` calls it; it needs Chromium, the built page and a trained demo (`make demo`).
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
LARGEST = 200_000
"""Most bytes of one picture: a README is read on telephones too."""

SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"]
DRAWN = """() => {
    const view = document.querySelector('.centre .view')
    // A view that asks the server for numbers says so until they come.
    const fetches = view?.innerText.includes('Fetching the numbers')
    return view && !fetches && !document.querySelector('.waiting, .busy:not(:empty)')
}"""


@dataclass(frozen=True)
class Picture:
    """One screenshot: its file name, the theme, and the place in the page, as the words of a link."""

    name: str
    theme: str
    place: dict[str, object] = field(default_factory=dict)


PICTURES_TO_TAKE = (
    Picture("map", "dark", {"v": "map", "t": 2, "f": "S1"}),
    Picture("head", "light", {"v": "head", "a": "decoder.1.cross", "h": 1, "t": 2, "c": 2}),
    Picture("cell", "light", {"v": "cell", "x": "decoder.1.cross.products", "i": "1.1.1", "t": 1}),
    Picture("output", "dark", {"v": "output", "t": 2}),
    Picture("words", "light", {"v": "words"}),
    Picture("claims", "light", {"v": "claims"}),
)


RECORDING = "play.webp"
LARGEST_RECORDING = 1_000_000
FRAMES_OF_STEP = 15
"""Pictures of the recording for each step of decoding."""

FRAME_MILLISECONDS = 110
LAST_MILLISECONDS = 2500
"""For how long the last picture stands, before the recording begins again."""

MOVE_PLAY = """place => {
    const input = document.querySelector('.play-track input')
    input.value = place
    input.dispatchEvent(new Event('input', { bubbles: true }))
}"""


def main(model: str = "runs/demo/best", sentence: str = "The ball is blue.") -> int:
    """Make every picture in docs/pictures; exit status 1 with one sentence where one cannot be made."""
    try:
        with run_server(model) as address, open_chromium() as browser:
            for picture in PICTURES_TO_TAKE:
                path = PICTURES / f"{picture.name}.png"
                take_picture(browser, f"{address}#{urlencode({'s': sentence, **picture.place})}", picture.theme, path)
                print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
            path = PICTURES / RECORDING
            record_play(browser, f"{address}#{urlencode({'s': sentence, 'v': 'map'})}", path)
            print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


@contextmanager
def run_server(model: str) -> Iterator[str]:
    """Run `pellucid serve MODEL` for the block, and give its address."""
    # Port 0: the system chooses a free one, and the server prints its address first.
    words = [sys.executable, "-m", "pellucid", "serve", f"en:es={model}", "--port", "0"]
    # Standard output goes to a file: a pipe that nobody reads would stop the server when it is full.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=output, text=True)
        try:
            assert process.stderr is not None
            first_line = process.stderr.readline()
            address = re.search(r"http://\S+/", first_line)
            if address is None:
                raise ValueError(f"the server does not start: {first_line.strip()}")
            yield address[0]
        finally:
            process.terminate()
            process.wait()


@contextmanager
def open_chromium() -> Iterator[Any]:
    """Open the system's browser for the block."""
    from playwright.sync_api import sync_playwright

    # The system's own browser, so that Playwright need not download one.
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((path for name in names if (path := shutil.which(name))), None)
    if program is None:
        raise ValueError(f"there is none of {', '.join(names)} on PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=SWITCHES)
        yield browser
        browser.close()


def take_picture(browser: Any, url: str, theme: str, path: Path) -> None:
    """Take one picture of 1440 by 900, in 256 colours where it would be large."""
    tab = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme=theme, reduced_motion="reduce")
    tab.goto(url)
    tab.wait_for_function(DRAWN)
    # The page has drawn, but transitions may still be under way.
    tab.wait_for_timeout(500)
    path.parent.mkdir(parents=True, exist_ok=True)
    tab.screenshot(path=path)
    tab.close()
    if path.stat().st_size > LARGEST:
        reduce_colours(path)
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes, but may have {LARGEST:,} at most")


def record_play(browser: Any, url: str, path: Path) -> None:
    """Record how the translation is played, as an animated picture; ValueError where it becomes too large."""
    from io import BytesIO

    from PIL import Image

    tab = browser.new_page(viewport={"width": 1240, "height": 930}, color_scheme="dark", reduced_motion="no-preference")
    tab.goto(url)
    tab.wait_for_function(DRAWN)
    tab.keyboard.press("k")
    tab.keyboard.press("k")  # it stands still, and is moved from picture to picture
    steps = tab.locator(".step-line button").count()
    frames = []
    for place in range(steps * FRAMES_OF_STEP + 1):
        tab.evaluate(MOVE_PLAY, min(steps, place / FRAMES_OF_STEP))
        # What was moved is drawn in the next frame of the screen.
        tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        frames.append(Image.open(BytesIO(tab.screenshot())).convert("RGB").resize((960, 720), Image.Resampling.LANCZOS))
    tab.close()
    durations = [FRAME_MILLISECONDS] * (len(frames) - 1) + [LAST_MILLISECONDS]
    frames[0].save(
        path,
        save_all=True,
        append_images=frames[1:],
        duration=durations,
        loop=0,
        quality=70,
        method=4,
        minimize_size=True,
    )
    if path.stat().st_size > LARGEST_RECORDING:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes, but may have {LARGEST_RECORDING:,} at most")


def reduce_colours(path: Path) -> None:
    """Reduce a picture to the 256 colours that suit it best."""
    from PIL import Image

    with Image.open(path) as picture:
        reduced = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    reduced.save(path, optimize=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
