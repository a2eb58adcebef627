"""Looking inside: watchers that record what a model computes, or change it on the way."""

from pellucid.inspect.record import Chain, Edit, Record

__all__ = ["Chain", "Edit", "Record"]
