"""The Chromium of the system, without a network, for tests of the page."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from tests.browser.watched import launch_chromium


@contextmanager
def open_tab(browser: Any = None, **options: Any) -> Iterator[Any]:
    """Open an empty tab, in a browser of its own if none is given; console errors and failed requests end the test."""
    with launch_chromium() if browser is None else nullcontext(browser) as chromium_browser:
        complaints: list[str] = []
        tab = chromium_browser.new_page(**options)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        tab.on("requestfailed", lambda request: complaints.extend(describe_failure(request)))
        try:
            yield tab
            assert complaints == []
        finally:
            tab.close()


def describe_failure(request: Any) -> list[str]:
    """Return a failed request as a complaint; none for one that the tab gave up when it left the page."""
    return [] if request.failure == "net::ERR_ABORTED" else [f"failed: {request.url}, {request.failure}"]
