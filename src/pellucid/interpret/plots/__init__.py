"""Figures: functions that take arrays and write files, and need nothing else of the package but atomic writes."""
