"""A tab that is watched: what it asks for, what it complains of, and a picture of it at the end."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.page.built import ROOT

SWITCHES = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
]
PICTURES = ROOT / "screenshots"
WIDE = {"width": 1440, "height": 900}


@contextmanager
def chromium() -> Iterator[Any]:
    """The system's browser, which finds no host but this machine; skips where there is none."""
    api = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("there is no Chromium on PATH")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=SWITCHES)
        yield browser
        browser.close()


@dataclass
class Watched:
    """A tab of its own: nothing is remembered from an earlier one."""

    tab: Any
    home: str
    asked: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def picture(self, name: str) -> None:
        """Keeps what the tab shows."""
        PICTURES.mkdir(exist_ok=True)
        self.tab.screenshot(path=PICTURES / f"{name}.png")


@contextmanager
def watched(browser: Any, home: str, **options: Any) -> Iterator[Watched]:
    """A tab that may ask `home` alone; at the end it has asked nobody else, and complained of nothing."""
    context = browser.new_context(**{"viewport": WIDE, "reduced_motion": "reduce", **options})
    found = Watched(context.new_page(), home)

    def ask(route: Any) -> None:
        if belongs(route.request.url, home):
            return route.continue_()
        found.foreign.append(route.request.url)
        return route.abort()

    context.route("**/*", ask)
    context.on("request", lambda request: found.asked.append(request.url))
    context.on("page", lambda other: found.complaints.append(f"another tab: {other.url}"))
    found.tab.on("pageerror", lambda error: found.complaints.append(str(error)))
    found.tab.on("console", lambda said: found.complaints.append(said.text) if said.type != "log" else None)
    found.tab.on("requestfailed", lambda request: found.complaints.append(f"failed: {request.url}"))
    found.tab.on("dialog", lambda dialog: found.complaints.append(f"dialog: {dialog.message}"))
    try:
        yield found
        assert not found.foreign, found.foreign
        assert not found.complaints, found.complaints
    finally:
        context.close()


def belongs(url: str, home: str) -> bool:
    """Whether a request stays with the page: its own host, its own file, or what it made itself."""
    asked, own = urlsplit(url), urlsplit(home)
    if asked.scheme in ("data", "blob"):
        return True
    if own.scheme == "file":
        return url.split("#")[0] == home
    return (asked.scheme, asked.netloc) == (own.scheme, own.netloc)
