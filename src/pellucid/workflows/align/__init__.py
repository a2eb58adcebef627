"""Alignment of two books, sentence by sentence: evidence from lengths and words, and the best path through it."""
