"""A tab that records its requests and complaints, and saves pictures of itself."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


def find_chromium() -> str:
    """Return the path of the system's browser; skip the test if there is none, or nothing to drive it with."""
    pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((path for name in names if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("there is no Chromium on PATH")
    return program


@contextmanager
def launch_chromium() -> Iterator[Any]:
    """Start the system's browser, which can reach this machine alone; skip the test if there is none."""
    program = find_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=SWITCHES)
        yield browser
        browser.close()


@dataclass
class WatchedTab:
    """A tab of its own context, so that nothing is remembered from an earlier one."""

    tab: Any
    home: str
    requests: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def leave_page(self) -> None:
        """Leave the page, and check that it asked nobody else and complained of nothing; the tab is as new then.

        Nothing is kept: the page stores nothing in the browser, and the history of a tab ends at 50 entries.
        """
        foreign, complaints = self.foreign[:], self.complaints[:]
        # An answer of the same server instead of a blank page: the next page is loaded by the same process then.
        self.tab.goto(f"{self.home}languages")
        for seen in (self.requests, self.foreign, self.complaints):
            seen.clear()
        self.tab.set_viewport_size(WIDE)
        self.tab.emulate_media(color_scheme="light")
        self.tab.mouse.move(-1, -1)
        session = self.tab.context.new_cdp_session(self.tab)
        session.send("Page.resetNavigationHistory")
        session.detach()
        assert not foreign, foreign
        assert not complaints, complaints

    def save_picture(self, name: str) -> None:
        """Save a picture of the tab, to be looked at, where the variable PELLUCID_PICTURES asks for it."""
        if not os.environ.get("PELLUCID_PICTURES"):
            return
        PICTURES.mkdir(exist_ok=True)
        self.tab.screenshot(path=PICTURES / f"{name}.png")


@contextmanager
def watch_tab(browser: Any, home: str, **options: Any) -> Iterator[WatchedTab]:
    """Open a tab that may ask `home` alone; check at the end that it asked nobody else and complained of nothing."""
    context = browser.new_context(**{"viewport": WIDE, "reduced_motion": "reduce", **options})
    watched_tab = WatchedTab(context.new_page(), home)

    def route_request(route: Any) -> None:
        if belongs(route.request.url, home):
            return route.continue_()
        watched_tab.foreign.append(route.request.url)
        return route.abort()

    context.route("**/*", route_request)
    context.on("request", lambda request: watched_tab.requests.append(request.url))
    context.on("page", lambda other_tab: watched_tab.complaints.append(f"another tab: {other_tab.url}"))
    watched_tab.tab.on("pageerror", lambda error: watched_tab.complaints.append(str(error)))
    watched_tab.tab.on(
        "console", lambda message: watched_tab.complaints.append(message.text) if message.type != "log" else None
    )
    watched_tab.tab.on("requestfailed", lambda request: note_failure(watched_tab, request))
    watched_tab.tab.on("dialog", lambda dialog: watched_tab.complaints.append(f"dialog: {dialog.message}"))
    try:
        yield watched_tab
        assert not watched_tab.foreign, watched_tab.foreign
        assert not watched_tab.complaints, watched_tab.complaints
    except Exception as error:
        add_what_was_seen(error, watched_tab)
        raise
    finally:
        context.close()


def add_what_was_seen(error: Exception, watched_tab: WatchedTab) -> None:
    """Add to an error what the tab showed and complained of; what failed in a browser cannot be seen afterwards."""
    with suppress(Exception):  # the tab may be gone
        error.add_note(f"complaints: {watched_tab.complaints}; asked of others: {watched_tab.foreign}")
        error.add_note(f"address: {watched_tab.tab.url}")
        error.add_note(f"text: {watched_tab.tab.inner_text('body', timeout=2000)[:3000]}")


def note_failure(watched_tab: WatchedTab, request: Any) -> None:
    """Complain of a request that failed; those under way when a page is left are dropped, which is no fault."""
    if request.failure != "net::ERR_ABORTED":
        watched_tab.complaints.append(f"failed: {request.url}")


def belongs(url: str, home: str) -> bool:
    """Whether a request stays with the page: its own host, its own file, or data it made itself."""
    request, page = urlsplit(url), urlsplit(home)
    if request.scheme in ("data", "blob"):
        return True
    if page.scheme == "file":
        return url.split("#")[0] == home
    return (request.scheme, request.netloc) == (page.scheme, page.netloc)
