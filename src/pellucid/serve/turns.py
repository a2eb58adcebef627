"""Turns at Python's lock: threads that translate let the event loop go first, so that clients are answered at once."""

import asyncio
import selectors
from collections.abc import Callable, Mapping
from threading import Event
from typing import Any

# Seconds for which a thread waits for its turn at most: work goes on,
# slowly, beside a loop that is never done.
_LONGEST_WAIT = 0.05


class LoopTurns:
    """Keeps threads waiting, between two steps of their work, while the event loop has something to do.

    Python runs one thread at a time, and one that asks the system for something loses its turn. The
    event loop does that a dozen times for each request, while a thread that translates hardly ever
    does. So on a busy machine the loop waited for its turn for nine tenths of the time, and
    `/health` was answered after ten seconds.
    """

    def __init__(self) -> None:
        self._is_free = Event()
        self._is_free.set()

    def wait(self) -> None:
        """Wait until the event loop has nothing to do; to be called by a thread between two steps of its work."""
        self._is_free.wait(_LONGEST_WAIT)

    def make_loop(self) -> asyncio.AbstractEventLoop:
        """Make the event loop that goes first."""
        return asyncio.SelectorEventLoop(_TurnsSelector(self._is_free.set, self._is_free.clear))


class _TurnsSelector(selectors.BaseSelector):
    """The system's selector, which says when the event loop begins to wait for something to do, and when it is back."""

    def __init__(self, leave: Callable[[], object], come_back: Callable[[], object]):
        self._selector = selectors.DefaultSelector()
        self._leave, self._come_back = leave, come_back

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # With a timeout of 0 the loop only looks whether there is still more to do.
        if timeout is None or timeout > 0:
            self._leave()
        try:
            return self._selector.select(timeout)
        finally:
            self._come_back()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._selector.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._selector.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._selector.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._selector.get_map()

    def close(self) -> None:
        # Without its loop nobody would say that a turn is free.
        self._leave()
        self._selector.close()
