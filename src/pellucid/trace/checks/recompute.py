"""Recomputes every operation in NumPy and float64: a small function for each kind, sharing nothing with the model."""

from collections.abc import Callable, Mapping, Sequence
from math import erf

import numpy as np

from pellucid.trace.checks.graph import Operation

Parameter = Callable[[str], np.ndarray]
"""Function that returns a weight of the model by its name."""


def recompute(
    operation: Operation,
    inputs: Sequence[np.ndarray],
    parameter: Parameter,
    ids: Mapping[str, Sequence[int]],
    shape: Sequence[int],
) -> np.ndarray:
    """Return what `operation` makes of its inputs, in float64 and of this shape.

    Arrays have no batch axis; `ids` are the tokens read on the sides "source" and "target".
    """
    x = [as_float64(array) for array in inputs]
    match operation.kind:
        case "lookup":
            result = operation.scale * as_float64(parameter(operation.table)[np.asarray(ids[operation.side])])
        case "sinusoid":
            result = recompute_sinusoids(*shape)
        case "row":
            result = as_float64(parameter(operation.table)[: shape[0]])
        case "add":
            result = np.sum(x, axis=0)
        case "norm":
            result = recompute_norm(x[0], operation.eps, operation.rms) * as_float64(
                parameter(operation.weight)
            ) + operation_bias(operation, parameter)
        case "linear":
            result = recompute_linear(operation, x[0], parameter, shape)
        case "dot":
            result = x[0] @ x[1].swapaxes(1, 2)
        case "scale":
            result = x[0] / operation.divisor
        case "present":
            # A trace is of one sentence, which has no padding.
            result = np.ones(shape)
        case "causal":
            result = np.tri(shape[-2], shape[-1])
        case "softmax":
            result = recompute_softmax(x[0], x[1] != 0)
        case "mix":
            result = x[0] @ x[1]
        case "activation":
            result = ACTIVATIONS[operation.function](x[0])
        case "same":
            result = x[0]
    return result.reshape(shape)


def as_float64(x: np.ndarray) -> np.ndarray:
    """Return the numbers in 64 bits."""
    return np.asarray(x, dtype=np.float64)


def operation_bias(operation: Operation, parameter: Parameter) -> np.ndarray:
    """Return the bias of an operation, or 0."""
    return as_float64(parameter(operation.bias)) if operation.bias else np.zeros(1)


def recompute_norm(x: np.ndarray, eps: float, rms: bool) -> np.ndarray:
    """Return each vector with mean 0 and variance 1 (Ba et al. 2016, equation 4); with `rms`, with mean square 1."""
    centred = x if rms else x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)


def recompute_linear(operation: Operation, x: np.ndarray, parameter: Parameter, shape: Sequence[int]) -> np.ndarray:
    """Return x times a block of rows of a matrix, plus the same block of its bias, with heads split or merged."""
    width = shape[0] * shape[2] if operation.split else shape[-1]
    rows = slice(operation.first, operation.first + width)
    if operation.merged:  # (H T E) -> (T H*E)
        x = x.swapaxes(0, 1).reshape(x.shape[1], -1)
    y = x @ as_float64(parameter(operation.weight)[rows]).T
    if operation.bias:
        y += as_float64(parameter(operation.bias)[rows])
    if operation.split:  # (T H*E) -> (H T E)
        y = y.reshape(len(y), shape[0], shape[2]).swapaxes(0, 1)
    return rotate_by_position(y) if operation.turned else y


def rotate_by_position(x: np.ndarray) -> np.ndarray:
    """Rotate each pair (2i, 2i + 1) of a head by position / 10000^(2i / E), as complex numbers (Su et al. 2021, 3.2.1).

    The sines and cosines are those of a table in float32.
    """
    table = recompute_sinusoids(*x.shape[1:])
    # The table has sines at even places and cosines at odd ones: cos + i sin is the rotation.
    pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * (table[:, 1::2] + 1j * table[:, 0::2])
    return np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape)


def recompute_sinusoids(positions: int, width: int) -> np.ndarray:
    """Return sin(p / 10000^(2i / width)) at 2i, its cosine at 2i + 1 (paper, 3.5), rounded to float32."""
    angles = np.arange(positions)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    return as_float64(np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(positions, width).astype(np.float32))


def recompute_softmax(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return e^score over the sum of those allowed in its row; 0 elsewhere, and in a row that may read nothing."""
    allowed = np.broadcast_to(allowed, scores.shape)
    largest = np.max(scores, axis=-1, keepdims=True, where=allowed, initial=-np.inf)
    raised = np.exp(scores - largest, where=allowed, out=np.zeros_like(scores))
    # In a row that may read nothing, 0 is divided by the smallest number instead of by 0.
    return raised / np.maximum(raised.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)


def logistic(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + e^-x)."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))  # equal to it, but e^-x would overflow for large negative x


def recompute_gelu(x: np.ndarray) -> np.ndarray:
    """Return x times the normal distribution function at x (Hendrycks and Gimpel 2016, 2)."""
    erfs = [erf(number / 2**0.5) for number in x.ravel().tolist()]  # NumPy has no erf
    return x * 0.5 * (1.0 + np.reshape(erfs, x.shape))


def recompute_swiglu(x: np.ndarray) -> np.ndarray:
    """Return the first half, times the logistic function of it, times the second (Shazeer 2020, equation 5)."""
    gate, value = np.split(x, 2, axis=-1)
    return gate * logistic(gate) * value


ACTIVATIONS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": recompute_gelu,
    "silu": lambda x: x * logistic(x),
    "swiglu": recompute_swiglu,
}
