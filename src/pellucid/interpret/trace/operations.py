"""The operation that makes each visible tensor, and its formula in NumPy, which shares nothing with the model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import erf
from typing import Any, Literal

import numpy as np

from pellucid.model import ModelConfig
from pellucid.model.layers import EPSILON
from pellucid.model.positions import adds_bias


@dataclass(frozen=True)
class Operation:
    """Operation that makes one tensor: its kind, the tensors it takes, and the numbers and weights that it uses.

    Weights are named as in `Transformer.named_parameters`. Fields that a kind does not use keep
    their defaults.
    """

    # One of `FIELDS_OF_KIND`; `recompute` has a formula for
    # each but "given", which only the model itself can make.
    kind: str
    inputs: tuple[str, ...] = ()
    table: str = ""
    scale: float = 1.0
    side: Literal["source", "target"] = "source"
    weight: str = ""
    bias: str | None = None
    first: int = 0
    split: bool = False
    merged: bool = False
    turned: bool = False
    divisor: float = 1.0
    eps: float = EPSILON
    rms: bool = False
    function: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the fields that belong to the kind, as `Op` of web/src/types.ts has them.

        >>> Operation("softmax", ("scores", "allowed")).as_json()
        {'kind': 'softmax', 'inputs': ['scores', 'allowed']}
        """
        table: dict[str, Any] = {"kind": self.kind}
        for field in FIELDS_OF_KIND[self.kind].split():
            value = getattr(self, field)
            if value is not False:  # flags that are off are left out
                table[field] = list(value) if field == "inputs" else value
        return table


# Fields that belong to each kind of operation; `Op` of web/src/types.ts says each kind in words.
FIELDS_OF_KIND = {
    "lookup": "table scale side",
    "sinusoid": "",
    "row": "table",
    "add": "inputs",
    "norm": "inputs weight bias eps rms",
    "linear": "inputs weight bias first split merged turned",
    "dot": "inputs",
    "scale": "inputs divisor",
    "present": "",
    "causal": "",
    "softmax": "inputs",
    "mix": "inputs",
    "activation": "inputs function",
    "same": "inputs",
    "given": "",
}

_NamedOperation = tuple[str, Operation]


def operations(config: ModelConfig) -> dict[str, Operation]:
    """Return an operation for every tensor that a model of this config shows, in the order of computation.

    >>> config = ModelConfig(8000, 8000, d_model=128, d_ff=256, heads=4, encoder_layers=4, decoder_layers=4)
    >>> operations(config)["decoder.3.cross.pattern"].inputs
    ('decoder.3.cross.scores', 'decoder.3.cross.allowed')
    """
    c = config

    # Tied weights are one parameter, which named_parameters lists under its first name only.
    target = "source_embedding.weight" if c.tie == "all" else "target_embedding.weight"
    output = "output_embedding.weight" if c.tie == "none" else target
    output_bias = "output_bias" if c.output_bias else None
    return dict(
        [
            *_stack_operations(
                c,
                "encoder",
                "source",
                c.encoder_layers,
                "source_embedding.weight",
                "memory",
            ),
            *_stack_operations(c, "decoder", "target", c.decoder_layers, target, "states"),
            ("logits", Operation("linear", ("states",), weight=output, bias=output_bias)),
        ]
    )


def _stack_operations(
    c: ModelConfig, stack: str, side: Literal["source", "target"], depth: int, table: str, end: str
) -> Iterator[_NamedOperation]:
    x = f"{stack}.input"
    embedding, positions = f"{stack}.embedding", f"{stack}.positions"
    yield embedding, Operation("lookup", table=table, scale=c.d_model**0.5, side=side)
    if c.positions == "sinusoidal":
        yield positions, Operation("sinusoid")
    if c.positions == "learned":
        yield positions, Operation("row", table=f"{side}_positions.table")

    # Rotary positions turn queries and keys inside the attention instead; nothing is added here.
    if c.positions in ("sinusoidal", "learned"):
        yield x, Operation("add", (embedding, positions))
    else:
        yield x, Operation("same", (embedding,))

    for layer in range(depth):
        for sublayer in ("self", "ffn") if stack == "encoder" else ("self", "cross", "ffn"):
            inside, residual = f"{stack}.{layer}.{sublayer}", f"{stack}.{layer}.{sublayer}_residual"
            norm, total = f"{residual}.norm", f"{residual}.sum"
            # Pre-norm: the sublayer reads a normed copy, and the sum goes on. Post-norm: the norm
            # of the sum goes on.
            sublayer_input = norm if c.norm_first else x
            if c.norm_first:
                yield norm, _norm_operation(c, x, norm)
            if sublayer == "ffn":
                yield from _feed_forward_operations(c, inside, sublayer_input)
            else:
                yield from _attention_operations(c, inside, sublayer_input)

            yield total, Operation("add", (x, f"{inside}.output"))
            if not c.norm_first:
                yield norm, _norm_operation(c, total, norm)
            x = total if c.norm_first else norm

    # Post-norm layers end in a norm, so a stack of them has no norm of its own at the end.
    yield end, _norm_operation(c, x, f"{stack}_norm") if c.norm_first else Operation("same", (x,))


def _attention_operations(c: ModelConfig, inside: str, x: str) -> Iterator[_NamedOperation]:
    cross = inside.endswith("cross")
    y = "memory" if cross else x
    # Queries and keys of cross-attention stand in
    # different sentences: their distance means nothing.
    turned = c.positions == "rotary" and not cross
    q, k, v = f"{inside}.q", f"{inside}.k", f"{inside}.v"
    products = f"{inside}.products"
    position_bias = f"{inside}.position_bias"
    scores = f"{inside}.scores"
    allowed = f"{inside}.allowed"
    pattern = f"{inside}.pattern"
    head_output = f"{inside}.head_output"

    # One weight holds the three projections: rows of
    # all queries, then of all keys, then of all values.
    weight, bias = f"{inside}.qkv.weight", f"{inside}.qkv.bias"
    yield q, Operation("linear", (x,), weight=weight, bias=bias, split=True, turned=turned)
    yield (
        k,
        Operation(
            "linear",
            (y,),
            weight=weight,
            bias=bias,
            first=c.d_model,
            split=True,
            turned=turned,
        ),
    )
    yield v, Operation("linear", (y,), weight=weight, bias=bias, first=2 * c.d_model, split=True)
    yield products, Operation("dot", (q, k))

    # The divisor is sqrt(d_k), the width of one head (Vaswani et al. 2017, 3.2.1).
    if adds_bias(c.positions) and not cross:
        yield position_bias, Operation("given")
        yield scores, Operation("scale", (products, position_bias), divisor=c.head_width**0.5)
    else:
        yield scores, Operation("scale", (products,), divisor=c.head_width**0.5)

    yield allowed, Operation("present" if cross or inside.startswith("encoder") else "causal")
    yield pattern, Operation("softmax", (scores, allowed))
    yield head_output, Operation("mix", (pattern, v))
    output = f"{inside}.output"
    weight, bias = f"{output}.weight", f"{output}.bias"
    yield output, Operation("linear", (head_output,), weight=weight, bias=bias, merged=True)


def _feed_forward_operations(c: ModelConfig, inside: str, x: str) -> Iterator[_NamedOperation]:
    inner, active = f"{inside}.inner", f"{inside}.active"
    yield inner, Operation("linear", (x,), weight=f"{inner}.weight", bias=f"{inner}.bias")
    yield active, Operation("activation", (inner,), function=c.activation)
    weight, bias = f"{inside}.outer.weight", f"{inside}.outer.bias"
    yield f"{inside}.output", Operation("linear", (active,), weight=weight, bias=bias)


def _norm_operation(c: ModelConfig, x: str, name: str) -> Operation:
    rms = c.norm == "rms"
    # An RMSNorm has no bias.
    return Operation(
        "norm",
        (x,),
        weight=f"{name}.weight",
        bias=None if rms else f"{name}.bias",
        rms=rms,
    )


Parameter = Callable[[str], np.ndarray]  # function that returns a weight of the model by its name


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
    x = [_as_float64(array) for array in inputs]
    match operation.kind:
        case "lookup":
            rows = parameter(operation.table)[np.asarray(ids[operation.side])]
            result = operation.scale * _as_float64(rows)
        case "sinusoid":
            result = recompute_sinusoids(*shape)
        case "row":
            result = _as_float64(parameter(operation.table)[: shape[0]])
        case "add":
            result = np.sum(x, axis=0)
        case "norm":
            # Mean 0 and variance 1 (Ba et al. 2016, equation 4); of an RMSNorm, mean square 1.
            centred = x[0] if operation.rms else x[0] - x[0].mean(axis=-1, keepdims=True)
            normed = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + operation.eps)
            result = normed * _as_float64(parameter(operation.weight))
            if operation.bias:
                result += _as_float64(parameter(operation.bias))
        case "linear":
            result = _recompute_linear(operation, x[0], parameter, shape)
        case "dot":
            result = x[0] @ x[1].swapaxes(1, 2)
        case "scale":
            result = sum(x[1:], x[0] / operation.divisor)
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
        case _:
            raise ValueError("a tensor that is given has no formula to recompute it by")
    return result.reshape(shape)


def _as_float64(x: np.ndarray) -> np.ndarray:
    """Return the numbers in 64 bits."""
    return np.asarray(x, dtype=np.float64)


def _recompute_linear(
    operation: Operation,
    x: np.ndarray,
    parameter: Parameter,
    shape: Sequence[int],
) -> np.ndarray:
    """Return x times a block of rows of a matrix, plus the same block of its bias, with heads split or merged."""
    width = shape[0] * shape[2] if operation.split else shape[-1]
    rows = slice(operation.first, operation.first + width)
    if operation.merged:  # (H T E) -> (T H*E)
        x = x.swapaxes(0, 1).reshape(x.shape[1], -1)
    y = x @ _as_float64(parameter(operation.weight)[rows]).T
    if operation.bias:
        y += _as_float64(parameter(operation.bias)[rows])
    if operation.split:  # (T H*E) -> (H T E)
        y = y.reshape(len(y), shape[0], shape[2]).swapaxes(0, 1)
    if operation.turned:
        # Each pair (2i, 2i + 1) of a head is rotated by position / 10000^(2i / E), as complex
        # numbers (Su et al. 2021, 3.2.1). The table, in float32, has sines at even places and
        # cosines at odd ones: cos + i sin is the rotation.
        table = recompute_sinusoids(*y.shape[1:])
        pairs = (y[..., 0::2] + 1j * y[..., 1::2]) * (table[:, 1::2] + 1j * table[:, 0::2])
        y = np.stack([pairs.real, pairs.imag], axis=-1).reshape(y.shape)

    return y


def recompute_sinusoids(positions: int, width: int) -> np.ndarray:
    """Return sin(p / 10000^(2i / width)) at 2i, its cosine at 2i + 1 (paper, 3.5), rounded to float32."""
    angles = np.arange(positions)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(positions, width)
    return _as_float64(table.astype(np.float32))


def recompute_softmax(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return e^score over the sum of those allowed in its row.

    It is 0 elsewhere, and in a row that may read nothing.
    """
    allowed = np.broadcast_to(allowed, scores.shape)
    largest = np.max(scores, axis=-1, keepdims=True, where=allowed, initial=-np.inf)
    raised = np.exp(scores - largest, where=allowed, out=np.zeros_like(scores))
    # In a row that may read nothing, 0 is divided by the smallest number instead of by 0.
    return raised / np.maximum(raised.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)


def _logistic(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + e^-x)."""
    # Equal to it, but e^-x would overflow for large negative x.
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def _recompute_gelu(x: np.ndarray) -> np.ndarray:
    """Return x times the normal distribution function at x (Hendrycks and Gimpel 2016, 2)."""
    erfs = [erf(number / 2**0.5) for number in x.ravel().tolist()]  # NumPy has no erf
    return x * 0.5 * (1.0 + np.reshape(erfs, x.shape))


def _recompute_swiglu(x: np.ndarray) -> np.ndarray:
    """Return the first half, times the logistic function of it, times the second (Shazeer 2020, equation 5)."""
    gate, value = np.split(x, 2, axis=-1)
    return gate * _logistic(gate) * value


ACTIVATIONS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": _recompute_gelu,
    "silu": lambda x: x * _logistic(x),
    "swiglu": _recompute_swiglu,
}
