"""Workers that fall silent: one that is stopped or cut off is named while the others wait for it."""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count
from threading import Event, Thread
from time import monotonic
from typing import Any

# Seconds without a sign of life after which a worker is named, and again after twice, four times,
# eight times as many.
SECONDS_TO_NAME = 60.0
_SECONDS_BETWEEN_HEARTBEATS = 1.0


def heartbeat_key(rank: int) -> str:
    """Return the name under which a worker's newest heartbeat is in the store that all workers share."""
    return f"alive/{rank}"


def send_heartbeats(store: Any, rank: int, stop: Event) -> None:
    """Count the seconds in the store, beside the name of this machine, until `stop` is set or the store is gone.

    A thread does this, so that a worker that evaluates or compiles for long still sends them; one
    that is stopped, or cut off from the others, does not.
    """
    host = socket.gethostname()
    with suppress(RuntimeError):
        for seconds in count():
            store.set(heartbeat_key(rank), f"{seconds} {host}")
            if stop.wait(_SECONDS_BETWEEN_HEARTBEATS):
                break


class SilenceCounter:
    """Counts how long each of some workers has been silent, and says it at intervals that grow."""

    def __init__(self, ranks: Sequence[int], world_size: int, timeout: timedelta):
        self.ranks, self.world_size, self.timeout = ranks, world_size, timeout
        self._heard = dict.fromkeys(ranks, "")
        self._silent = dict.fromkeys(ranks, 0.0)
        self._due = dict.fromkeys(ranks, SECONDS_TO_NAME)

    def listen(self, heartbeats: Mapping[int, str], seconds: float) -> list[str]:
        """Return sentences about workers that are silent, or are back, by their newest heartbeats.

        `seconds` is the time since the last call.
        """
        silent, back = list[int](), list[int]()
        for rank in self.ranks:
            heartbeat = heartbeats.get(rank, "")
            if heartbeat != self._heard[rank]:
                if self._due[rank] > SECONDS_TO_NAME:
                    back.append(rank)
                self._heard[rank] = heartbeat
                self._silent[rank], self._due[rank] = 0.0, SECONDS_TO_NAME
                continue
            self._silent[rank] += seconds
            if self._silent[rank] >= self._due[rank]:
                silent.append(rank)
                self._due[rank] *= 2

        sentences = []
        if back:
            verb = "is" if len(back) == 1 else "are"
            sentences.append(f"{self._names(back)} {verb} back, and training goes on")
        if silent:
            has, answers = ("has", "it answers") if len(silent) == 1 else ("have", "they answer")
            lasting = _describe_seconds(max(self._silent[rank] for rank in silent))
            limit = _describe_seconds(self.timeout.total_seconds())
            sentences.append(
                f"{self._names(silent)} of {self.world_size} (counted from 0) {has} given no sign "
                f"of life for {lasting}, and the others wait: look whether the process is stopped "
                f"and the machine reachable. Training goes on when {answers}; after {limit} of "
                "waiting all stop, and --resume continues"
            )
        return sentences

    def _names(self, ranks: Sequence[int]) -> str:
        """Return the workers with their machines, in words."""
        names = []
        for rank in ranks:
            _, _, host = self._heard[rank].partition(" ")
            names.append(f"worker {rank}{f' on {host}' if host else ''}")
        return " and ".join(names)


def _describe_seconds(seconds: float) -> str:
    """Return a length of time in words.

    >>> _describe_seconds(7.4), _describe_seconds(61), _describe_seconds(240)
    ('7 seconds', '1 minute', '4 minutes')
    """
    if seconds < 60:
        return f"{seconds:.0f} seconds"
    return "1 minute" if seconds < 120 else f"{seconds / 60:.0f} minutes"


@contextmanager
def name_silent_workers(
    store: Any,
    ranks: Sequence[int],
    world_size: int,
    timeout: timedelta,
    say: Callable[[str], object],
) -> Iterator[None]:
    """Say, until the block ends, which workers of these ranks are silent and when they are back."""
    heartbeats: dict[int, str] = {}
    stop = Event()
    # Two threads: the store may be in the worker that is silent, and whoever asks it for a
    # heartbeat waits then, too.
    threads: list[Thread] = []
    if ranks:
        counter = SilenceCounter(ranks, world_size, timeout)
        threads = [
            Thread(target=_hear_heartbeats, args=(store, ranks, heartbeats, stop), daemon=True),
            Thread(target=_say_silence, args=(counter, heartbeats, say, stop), daemon=True),
        ]

    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=2 * _SECONDS_BETWEEN_HEARTBEATS)


def _hear_heartbeats(
    store: Any, ranks: Sequence[int], heartbeats: dict[int, str], stop: Event
) -> None:
    """Keep the newest heartbeats of the workers, until `stop` is set or the store is gone."""
    with suppress(RuntimeError):
        while not stop.is_set():
            for rank in ranks:
                # Asking for one that was never sent would wait for it.
                if store.check([heartbeat_key(rank)]):
                    heartbeats[rank] = store.get(heartbeat_key(rank)).decode()
            stop.wait(_SECONDS_BETWEEN_HEARTBEATS)


def _say_silence(
    counter: SilenceCounter,
    heartbeats: Mapping[int, str],
    say: Callable[[str], object],
    stop: Event,
) -> None:
    """Say what the counter finds, once a second, until `stop` is set."""
    looked = monotonic()
    while not stop.wait(_SECONDS_BETWEEN_HEARTBEATS):
        now = monotonic()
        # If this process was stopped itself, it did not listen either: a long pause is not the
        # silence of others.
        seconds, looked = min(now - looked, 2 * _SECONDS_BETWEEN_HEARTBEATS), now
        for sentence in counter.listen(dict(heartbeats), seconds):
            say(sentence)
