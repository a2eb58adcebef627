"""The traces that are kept for those who look at them: so many, so many bytes, so long."""

import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import RLock

from pellucid.serve.limits import Limits
from pellucid.trace.trace import Trace


@dataclass(frozen=True)
class StoredTrace:
    """A trace, its manifest as JSON, the bytes both take, and when somebody last looked at it."""

    trace: Trace
    manifest: bytes
    bytes: int
    last_seen: float


class TraceStore:
    """Traces by their ids; the one not looked at for longest goes first, and each after some time."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic):
        self._limits = limits
        self._clock = clock
        self._kept: OrderedDict[str, StoredTrace] = OrderedDict()
        self._lock = RLock()

    def __len__(self) -> int:
        with self._lock:
            self._forget()
            return len(self._kept)

    @property
    def bytes(self) -> int:
        """Of all of them."""
        with self._lock:
            return sum(each.bytes for each in self._kept.values())

    def store(self, trace: Trace) -> StoredTrace:
        """Keep one more, and let others go; ValueError for one that is larger than all may be."""
        manifest = trace.manifest()
        encoded = json.dumps(manifest, ensure_ascii=False, allow_nan=False).encode()
        size = manifest["run"]["bytes"] + len(encoded)
        if size > self._limits.trace_bytes:
            raise ValueError(
                f"this trace takes {size:,} bytes, this server keeps {self._limits.trace_bytes:,}; "
                "take a shorter sentence, or serve with a larger --trace-bytes"
            )
        with self._lock:
            kept = StoredTrace(trace, encoded, size, self._clock())
            self._kept.pop(manifest["id"], None)
            self._kept[manifest["id"]] = kept
            self._forget()
        return kept

    def get(self, identity: str) -> StoredTrace | None:
        """The trace of that id, if it is still there; it counts as looked at."""
        with self._lock:
            self._forget()
            kept = self._kept.get(identity)
            if kept is None:
                return None
            self._kept[identity] = replace(kept, last_seen=self._clock())
            self._kept.move_to_end(identity)
            return kept

    def _forget(self) -> None:
        oldest = self._clock() - 60 * self._limits.trace_minutes
        while self._kept and (
            next(iter(self._kept.values())).last_seen < oldest
            or len(self._kept) > self._limits.traces
            or self.bytes > self._limits.trace_bytes
        ):
            self._kept.popitem(last=False)
