"""Looks inside a model: traces of a run, studies of its parts, influences of its training text, the page and figures."""
