"""The built page: one JavaScript module, made from web/ when the package is built and never committed."""

import re
from functools import lru_cache
from pathlib import Path

SCRIPT_PATH = Path(__file__).with_name("static") / "pellucid.js"
"""Path of the script that web/build.py makes."""


def read_script() -> str:
    """Return the script's text; ValueError, saying how to build it, where that was not done."""
    try:
        status = SCRIPT_PATH.stat()
    except FileNotFoundError:
        raise ValueError(
            f"the page is not built: {SCRIPT_PATH} is missing; run `make page` in a checkout of the project, or "
            "install a released package, which contains it"
        ) from None
    # The time and the size only belong to the cache's key, so that a script that was built again is read again.
    return read_cached(SCRIPT_PATH, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1)
def read_cached(path: Path, mtime_ns: int, size: int) -> str:
    """Return the text of a file with this modification time and size, reading it once."""
    return path.read_text(encoding="utf-8")


def script_fingerprint() -> str:
    """Return the SHA-256 of the sources that the script was built from; ValueError if its first line lacks it."""
    first = read_script().partition("\n")[0]
    header = re.fullmatch(r"/\*! pellucid page; SHA-256 of its sources: ([0-9a-f]{64}) \*/", first)
    if not header:
        raise ValueError(f"{SCRIPT_PATH} does not begin with the SHA-256 of its sources; run `make page`")
    return header[1]
