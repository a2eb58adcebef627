"""The Chromium of the system, without a network, for tests of the page."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def open_tab(**options: Any) -> Iterator[Any]:
    """Open an empty tab, or skip the test if there is no browser; console errors and failed requests end the test."""
    api = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium on PATH")
    switches = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=switches)
        try:
            complaints: list[str] = []
            tab = browser.new_page(**options)
            tab.on("pageerror", lambda error: complaints.append(str(error)))
            tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
            tab.on("requestfailed", lambda request: complaints.extend(describe_failure(request)))
            yield tab
            assert complaints == []
        finally:
            browser.close()


def describe_failure(request: Any) -> list[str]:
    """Return a failed request as a complaint; none for one that the tab gave up when it left the page."""
    return [] if request.failure == "net::ERR_ABORTED" else [f"failed: {request.url}, {request.failure}"]
