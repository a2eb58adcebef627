"""Helper that notes the functions of the package that a call runs."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pellucid

SOURCE = Path(pellucid.__file__).parent


def functions_entered(call: Callable[[], object]) -> set[tuple[str, str]]:
    """Return the file, as a path inside the package, and the name of each function that a call runs, in any thread."""
    names: set[tuple[str, str]] = set()

    # Called for every function of Python and of C: what it does itself would take longer than the call.
    def note(frame, event, argument):
        if event == "call":
            names.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # pyright: ignore[reportArgumentType]
    return {
        (Path(file).relative_to(SOURCE).as_posix(), name) for file, name in names if Path(file).is_relative_to(SOURCE)
    }
