"""Training: from sentence pairs to a translation model."""
