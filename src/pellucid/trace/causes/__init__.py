"""Causes of a translation: exact accounts of logits, effects of erasure, and possible faults of the translation."""
