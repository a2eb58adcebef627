"""Looks inside a model: traces of a run, studies of its parts, what training text did, the page, figures."""
