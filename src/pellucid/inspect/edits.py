"""Moved."""
from pellucid.trace.edits import *  # noqa
from pellucid.trace import edits as _m
globals().update({k: v for k, v in vars(_m).items() if not k.startswith("__")})
