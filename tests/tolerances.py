"""How far two computations of one number may lie apart where they differ in nothing but rounding.

A processor adds the terms of a sum in an order of its own, and so do the kernels of two libraries. Each addition
rounds its result by at most half of the type's epsilon, up or down, so what the orders differ by is a share of the
size of what is added, and grows like the square root of how many terms there are. A bound that is one number for
every type and size is too narrow for some processor, or too wide to find a fault.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

MODEL_TERMS = 1000
"""About how many numbers are summed, layer after layer, on the way from a token to a logit of a small model."""


def relative_rounding(dtype: torch.dtype = torch.float32, terms: int = MODEL_TERMS) -> float:
    """Return how far two sums of some terms, added in different orders, may lie apart, as a share of their size.

    Eight times the standard deviation that the roundings of random sums would have, were each as large as it can be.
    """
    return 4 * torch.finfo(dtype).eps * math.sqrt(terms)


def approx_sum(
    expected: Any, terms: int = MODEL_TERMS, dtype: torch.dtype = torch.float32, size: float | None = None
) -> Any:
    """Return what equals a number, or a list or dictionary of numbers, but for the rounding of sums of some terms.

    The rounding is a share of `size`, the size of what was added: that of the largest number where it is not given.
    """
    numbers = list(expected.values()) if isinstance(expected, dict) else expected
    largest = float(np.abs(np.asarray(numbers, dtype=np.float64)).max(initial=0.0)) if size is None else size
    return pytest.approx(expected, rel=0.0, abs=relative_rounding(dtype, terms) * largest)


def approx_log_prob(expected: Any, dtype: torch.dtype = torch.float32) -> Any:
    """Return what equals log-probabilities, or scores made of them, but for the rounding of a small model.

    A log-probability near 0 is the difference of a logit and of the logarithm of a sum, which are not: the size of
    what was added is at least 1.
    """
    largest = np.abs(np.asarray(expected, dtype=np.float64)).max(initial=1.0)
    return approx_sum(expected, dtype=dtype, size=float(largest))


def assert_same_sums(actual: Any, expected: Any, terms: int = MODEL_TERMS, size: float | None = None) -> None:
    """Assert that two tensors or arrays are equal but for the rounding of sums of some terms in their type."""
    # A copy: torch warns of arrays that cannot be written to.
    first, second = (torch.as_tensor(np.array(x) if isinstance(x, np.ndarray) else x) for x in (actual, expected))
    assert first.dtype == second.dtype, f"{first.dtype} is compared with {second.dtype}"
    largest = largest_size(second) if size is None else size
    torch.testing.assert_close(first, second, rtol=0.0, atol=relative_rounding(second.dtype, terms) * largest)


def largest_size(numbers: Tensor) -> float:
    """Return the largest finite size among numbers; 0 where there are none."""
    finite = numbers.detach().double().abs()[numbers.isfinite()]
    return finite.max().item() if finite.numel() else 0.0
