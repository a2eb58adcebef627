"""Folder of the user's cache, for what can be made anew at any time."""

import os
from pathlib import Path


def user_cache_folder() -> Path:
    """Return $XDG_CACHE_HOME/pellucid or ~/.cache/pellucid, there or not.

    Raises RuntimeError where the user has no home.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pellucid"
