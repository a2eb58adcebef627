"""Makes the pictures of the page that README.md and the documentation show, from the demo model.

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
"""Bytes of one picture: a README is read on telephones too."""

SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"]
DRAWN = "() => !document.querySelector('.waiting, .busy:not(:empty)') && document.querySelector('.centre .view')"


@dataclass(frozen=True)
class Picture:
    """Where to look, in the words of a link, and on which paper."""

    name: str
    theme: str
    place: dict[str, object] = field(default_factory=dict)


SHOWN = (
    Picture("map", "dark", {"v": "map", "t": 2, "f": "S1"}),
    Picture("head", "light", {"v": "head", "a": "decoder.1.cross", "h": 1, "t": 2, "f": "S1"}),
    Picture("cell", "light", {"v": "cell", "x": "decoder.1.cross.products", "i": "1.1.1", "t": 1}),
    Picture("output", "dark", {"v": "output", "t": 2}),
    Picture("words", "light", {"v": "words"}),
    Picture("claims", "light", {"v": "claims"}),
)


def main(model: str = "runs/demo/best", sentence: str = "The ball is blue.") -> int:
    """Every picture into docs/pictures; exit status 1 with one sentence where one cannot be made."""
    try:
        with served(model) as address, chromium() as browser:
            for each in SHOWN:
                path = PICTURES / f"{each.name}.png"
                take(browser, f"{address}#{urlencode({'s': sentence, **each.place})}", each.theme, path)
                print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


@contextmanager
def served(model: str) -> Iterator[str]:
    """The address of `pellucid serve MODEL`."""
    words = [sys.executable, "-m", "pellucid", "serve", model, "--port", "0", "--from", "en", "--to", "es"]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as rest:
        process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=rest, text=True)
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.search(r"http://\S+/", said)
            if found is None:
                raise ValueError(f"the server does not start: {said.strip()}")
            yield found[0]
        finally:
            process.terminate()
            process.wait()


@contextmanager
def chromium() -> Iterator[Any]:
    """The system's browser."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        raise ValueError(f"there is none of {', '.join(names)} on PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=SWITCHES)
        yield browser
        browser.close()


def take(browser: Any, url: str, theme: str, path: Path) -> None:
    """One picture of 1440 by 900, in 256 colours where it would be large."""
    tab = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme=theme, reduced_motion="reduce")
    tab.goto(url)
    tab.wait_for_function(DRAWN)
    tab.wait_for_timeout(500)
    path.parent.mkdir(parents=True, exist_ok=True)
    tab.screenshot(path=path)
    tab.close()
    if path.stat().st_size > LARGEST:
        lessen(path)
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes, at most {LARGEST:,} are wanted")


def lessen(path: Path) -> None:
    """The same picture in the 256 colours that suit it best."""
    from PIL import Image

    with Image.open(path) as whole:
        few = whole.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
