"""Studies the attention heads of a served model on its run's dev text while nobody asks for anything."""

import threading
import time
from collections.abc import Callable
from typing import Any

PAIRS_STUDIED = 64
"""Pairs of the dev text on which heads are studied, its first ones."""

_PAUSE_SECONDS = 0.05
"""Seconds between two looks at whether somebody still waits for an answer."""

_QUIET_SECONDS = 1.0
"""Seconds without work before the study goes on: who asks once often asks again."""

Study = Callable[[Callable[[], None]], dict[str, Any]]
"""Function that studies the heads; it calls its argument after each step of the work."""


class BackgroundStudy:
    """One study of the heads in a thread of its own, which stands still while the server has work, and shortly after.

    The thread has no lower priority than others: with one, it could keep Python's lock while it waits for a processor.
    """

    def __init__(self, study: Study, is_busy: Callable[[], bool], pairs: int):
        self._study = study
        self._is_busy = is_busy
        self._stopped = threading.Event()
        self._last_work = -_QUIET_SECONDS
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
    def is_abandoned(self) -> bool:
        """Whether the study goes on though it was stopped."""
        return self._stopped.is_set() and self._thread.is_alive()

    @property
    def answer(self) -> dict[str, Any]:
        """The study or, until it is there, the reason why not: a `HeadStudyAnswer` of web/src/types.ts."""
        return self._answer

    def _run(self) -> None:
        try:
            self._wait_while_busy()
            self._answer = {"study": self._study(self._wait_while_busy), "says": None}
        except _Stopped:
            pass
        except ValueError as error:  # text that does not suit this model
            self._answer = {"study": None, "says": f"the heads could not be studied: {error}"}

    def _wait_while_busy(self) -> None:
        """Wait until nobody has waited for an answer for a while; raise `_Stopped` once the server stops."""
        while not self._stopped.is_set():
            if self._is_busy():
                self._last_work = time.monotonic()
            if time.monotonic() - self._last_work >= _QUIET_SECONDS:
                return
            self._stopped.wait(_PAUSE_SECONDS)
        raise _Stopped


class _Stopped(Exception):
    """Raised in the midst of a study when the server stops."""
