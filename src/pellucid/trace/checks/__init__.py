"""Checks of a trace: how each tensor is made, everything recomputed, and statements that a faulty trace fails."""
