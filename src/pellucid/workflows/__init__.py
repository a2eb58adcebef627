"""Work around a training: text is checked, a run planned, a model distilled, improved and calibrated."""
