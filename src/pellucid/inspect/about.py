"""Moved."""
from pellucid.trace.about import *  # noqa
from pellucid.trace import about as _m
globals().update({k: v for k, v in vars(_m).items() if not k.startswith("__")})
