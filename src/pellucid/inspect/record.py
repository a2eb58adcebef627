"""Moved."""
from pellucid.trace.record import *  # noqa
from pellucid.trace import record as _m
globals().update({k: v for k, v in vars(_m).items() if not k.startswith("__")})
