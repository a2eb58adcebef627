"""Traces: one translation with everything computed for it, its search, edits of its run, and the watchers they use."""

from pellucid.interpret.trace.edits import (
    Chain,
    Edit,
    Hide,
    Pattern,
    Prefix,
    Record,
    Silence,
    Without,
)
from pellucid.interpret.trace.session import Drawing, Trace
from pellucid.interpret.trace.trace import Named

__all__ = [
    "Chain",
    "Drawing",
    "Edit",
    "Hide",
    "Named",
    "Pattern",
    "Prefix",
    "Record",
    "Silence",
    "Trace",
    "Without",
]
