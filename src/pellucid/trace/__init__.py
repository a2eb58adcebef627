"""One translation looked into: watchers, everything that was computed, the search, edits; a page in waiting."""

from pellucid.trace.edits import Hide, Pattern, Prefix, Silence
from pellucid.trace.named_array import Named
from pellucid.trace.record import Chain, Edit, Record
from pellucid.trace.trace import Trace

__all__ = ["Chain", "Edit", "Hide", "Named", "Pattern", "Prefix", "Record", "Silence", "Trace"]
