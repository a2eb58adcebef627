"""Moved."""
from pellucid.trace.trace import *  # noqa
from pellucid.trace import trace as _m
globals().update({k: v for k, v in vars(_m).items() if not k.startswith("__")})
