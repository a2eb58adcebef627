"""Import and export: models in the formats of other programs."""
