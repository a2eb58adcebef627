"""The model of `pellucid demo`, for the tests that need a model which learned something."""

from pathlib import Path

import pytest

DEMO = Path(__file__).parents[1] / "runs" / "demo"

# A training writes average/ when all else is written: while it runs, best/ may hold a model that has hardly learned.
needs_demo = pytest.mark.skipif(
    not (DEMO / "average").is_dir(), reason="no finished model of `pellucid demo` is here; `make demo` trains it"
)
