"""The built page: one JavaScript module, made from web/ when the package is built and never committed."""

import re
from functools import lru_cache
from pathlib import Path

SCRIPT_PATH = Path(__file__).with_name("static") / "pellucid.js"
"""Where web/build.py puts it."""


def read_script() -> str:
    """The module's text; ValueError, saying how to build it, where that was not done."""
    try:
        written = SCRIPT_PATH.stat()
    except FileNotFoundError:
        raise ValueError(
            f"the page is not built: {SCRIPT_PATH} is missing; run `make page` in a checkout of the "
            "project, or install a "
            "released package, which holds it"
        ) from None
    return read_once(SCRIPT_PATH, written.st_mtime_ns, written.st_size)


@lru_cache(maxsize=1)
def read_once(path: Path, changed: int, size: int) -> str:
    """The text of a file that was last changed then."""
    return path.read_text(encoding="utf-8")


def script_fingerprint() -> str:
    """The SHA-256 of the sources that the module was built from; ValueError where its first line does not say it."""
    first = read_script().partition("\n")[0]
    found = re.fullmatch(r"/\*! pellucid page; SHA-256 of its sources: ([0-9a-f]{64}) \*/", first)
    if not found:
        raise ValueError(f"{SCRIPT_PATH} does not begin with the SHA-256 of its sources; run `make page`")
    return found[1]
