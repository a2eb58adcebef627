"""Looks inside a model: traces of a run, studies, what training text did, the page, figures."""
