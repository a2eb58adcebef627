"""Figures: arrays in, files out. Nothing of the rest of the package is needed to draw one again."""
