"""Variants of one law: the telling ones run by default, the others with `-m slow`."""

from collections.abc import Mapping
from typing import Any

import pytest


def mark_others_slow(variants: Mapping[str, Any], *telling: str) -> list[Any]:
    """Return the variants for `pytest.mark.parametrize`, by their names; all but the telling ones are marked slow.

    A variant of several arguments is a tuple.
    """
    unknown = sorted({*telling} - {*variants})
    assert not unknown, f"no such variants: {unknown}"
    cases = []
    for name, values in variants.items():
        arguments = values if isinstance(values, tuple) else (values,)
        cases.append(pytest.param(*arguments, id=name, marks=() if name in telling else pytest.mark.slow))
    return cases
