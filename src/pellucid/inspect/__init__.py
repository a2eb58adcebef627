"""Looking inside: watchers that record what a model computes, or change it on the way, and traces of a translation."""

from pellucid.inspect.edits import Hide, Pattern, Prefix, Silence
from pellucid.inspect.named import Named
from pellucid.inspect.record import Chain, Edit, Record
from pellucid.inspect.trace import Trace

__all__ = ["Chain", "Edit", "Hide", "Named", "Pattern", "Prefix", "Record", "Silence", "Trace"]
