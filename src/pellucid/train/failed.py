"""Failure of a run."""


class TrainingFailed(RuntimeError):
    """Error of a run that cannot continue; the message says why, and what to do."""
