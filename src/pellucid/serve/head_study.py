"""Studies the attention heads of a served model on its run's dev text while nobody asks for anything."""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

PAIRS_STUDIED = 100
"""Pairs of the dev text on which heads are studied, its first ones."""

_PAUSE_SECONDS = 0.05
"""Seconds between two looks at whether somebody still waits for an answer."""

_LOWEST_PRIORITY = 19

Study = Callable[[Callable[[], None]], dict[str, Any]]
"""Function that studies the heads; it calls its argument after each step of the work."""


class BackgroundStudy:
    """One study of the heads in a thread of the lowest priority, which stands still while the server has work."""

    def __init__(self, study: Study, is_busy: Callable[[], bool], pairs: int):
        self._study = study
        self._is_busy = is_busy
        self._stopped = threading.Event()
        self._answer: dict[str, Any] = {
            "study": None,
            "says": f"the roles of the heads are being measured on {pairs} sentence pairs, and appear here when ready",
            "pending": True,
        }
        self._thread = threading.Thread(target=self._run, name="pellucid-head-study", daemon=True)

    def start(self) -> None:
        """Begin the study."""
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Stop the study after its present step, and wait so long for that."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    @property
    def answer(self) -> dict[str, Any]:
        """The study or, until it is there, the reason why not: a `HeadStudyAnswer` of web/src/types.ts."""
        return self._answer

    def _run(self) -> None:
        _lower_priority()
        try:
            self._wait_while_busy()
            self._answer = {"study": self._study(self._wait_while_busy), "says": None}
        except _Stopped:
            pass
        except ValueError as error:  # text that does not suit this model
            self._answer = {"study": None, "says": f"the heads could not be studied: {error}"}

    def _wait_while_busy(self) -> None:
        """Wait until nobody waits for an answer; raise `_Stopped` once the server stops."""
        while self._is_busy() and not self._stopped.is_set():
            self._stopped.wait(_PAUSE_SECONDS)
        if self._stopped.is_set():
            raise _Stopped


class _Stopped(Exception):
    """Raised in the midst of a study when the server stops."""


def _lower_priority() -> None:
    """Give this thread, and those that it starts, the lowest priority where the system has priorities of threads."""
    if not hasattr(os, "setpriority"):
        return
    with suppress(OSError):  # the study stands still while there is work, which is what counts
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)  # on Linux: of one thread


def split_pairs(pairs: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Return the sources and the targets of some pairs."""
    return [source for source, _ in pairs], [target for _, target in pairs]
