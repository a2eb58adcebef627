"""Evaluation: scores of translations, and comparison of two sets of them."""
