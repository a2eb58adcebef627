"""Passes over memory that are fused for training on a processor, where a C compiler is at hand."""
