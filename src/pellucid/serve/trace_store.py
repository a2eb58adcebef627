"""Store of traces for clients that look at them: bounded in number, bytes and time."""

import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import RLock

from pellucid.serve.limits import Limits
from pellucid.trace.session import Trace


@dataclass(frozen=True)
class StoredTrace:
    """A trace, its manifest as JSON, the bytes of both, and when somebody last looked at it."""

    trace: Trace
    manifest: bytes
    bytes: int
    last_seen: float


class TraceStore:
    """Traces by their ids; the one not looked at for longest goes first, and each after some time."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic):
        self._limits = limits
        self._clock = clock
        self._traces: OrderedDict[str, StoredTrace] = OrderedDict()
        # Reentrant, since the methods that hold it read `bytes`.
        self._lock = RLock()

    def __len__(self) -> int:
        with self._lock:
            self._forget()
            return len(self._traces)

    @property
    def bytes(self) -> int:
        """Bytes of all stored traces."""
        with self._lock:
            return sum(stored.bytes for stored in self._traces.values())

    def store(self, trace: Trace) -> StoredTrace:
        """Store one more trace and let old ones go; raise ValueError for one larger than the whole store may be."""
        manifest = trace.manifest()
        # Written once here; the page fetches it as it is.
        encoded = json.dumps(manifest, ensure_ascii=False, allow_nan=False).encode()
        size = manifest["run"]["bytes"] + len(encoded)
        if size > self._limits.trace_bytes:
            raise ValueError(
                f"this trace takes {size:,} bytes, this server keeps {self._limits.trace_bytes:,}; "
                "take a shorter sentence, or serve with a larger --trace-bytes"
            )
        with self._lock:
            stored = StoredTrace(trace, encoded, size, self._clock())
            # A trace that is stored again moves to the end, which is the newest.
            self._traces.pop(manifest["id"], None)
            self._traces[manifest["id"]] = stored
            self._forget()
        return stored

    def get(self, identity: str) -> StoredTrace | None:
        """Return the trace with that id, if it is still stored; it counts as looked at."""
        with self._lock:
            self._forget()
            stored = self._traces.get(identity)
            if stored is None:
                return None
            self._traces[identity] = replace(stored, last_seen=self._clock())
            self._traces.move_to_end(identity)
            return stored

    def _forget(self) -> None:
        # The first of the table was looked at longest ago, as `get` moves a trace to the end.
        oldest = self._clock() - 60 * self._limits.trace_minutes
        while self._traces and (
            next(iter(self._traces.values())).last_seen < oldest
            or len(self._traces) > self._limits.traces
            or self.bytes > self._limits.trace_bytes
        ):
            self._traces.popitem(last=False)
