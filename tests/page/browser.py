"""Chromium for tests of the page: the system's own, without a network."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def page(**options: Any) -> Iterator[Any]:
    """An empty tab; errors on its console and requests that fail end the test. Skips where there is no browser."""
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
            tab.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
            tab.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
            yield tab
            assert complaints == []
        finally:
            browser.close()
