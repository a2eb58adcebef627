"""The graph of operations: how every visible tensor is made from others, in a form that a program can follow."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pellucid.model import ModelConfig
from pellucid.model.layers import EPSILON

Kind = Literal[
    "lookup",
    "sinusoid",
    "row",
    "add",
    "norm",
    "linear",
    "dot",
    "scale",
    "present",
    "causal",
    "softmax",
    "mix",
    "activation",
    "same",
]
"""Kinds of operations; `recompute` has a formula for each, and `Op` of web/src/types.ts says it in words."""


@dataclass(frozen=True)
class Operation:
    """Operation that makes one tensor: its kind, the tensors it takes, and the numbers and weights that it uses.

    Weights are named as in `Transformer.named_parameters`. Fields that a kind does not use keep their defaults.
    """

    kind: Kind
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
        for field in _FIELDS[self.kind].split():
            value = getattr(self, field)
            if value is not False:  # flags that are off are left out
                table[field] = list(value) if field == "inputs" else value
        return table


_FIELDS: dict[Kind, str] = {
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
}

NamedOperation = tuple[str, Operation]


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
            *_stack_operations(c, "encoder", "source", c.encoder_layers, "source_embedding.weight", "memory"),
            *_stack_operations(c, "decoder", "target", c.decoder_layers, target, "states"),
            ("logits", Operation("linear", ("states",), weight=output, bias=output_bias)),
        ]
    )


def _stack_operations(
    c: ModelConfig, stack: str, side: Literal["source", "target"], depth: int, table: str, end: str
) -> Iterator[NamedOperation]:
    x = f"{stack}.input"
    embedding, positions = f"{stack}.embedding", f"{stack}.positions"
    yield embedding, Operation("lookup", table=table, scale=c.d_model**0.5, side=side)
    if c.positions == "sinusoidal":
        yield positions, Operation("sinusoid")
    if c.positions == "learned":
        yield positions, Operation("row", table=f"{side}_positions.table")
    # Rotary positions turn queries and keys inside the attention instead; nothing is added here.
    adds_positions = c.positions in ("sinusoidal", "learned")
    yield x, Operation("add", (embedding, positions)) if adds_positions else Operation("same", (embedding,))
    for layer in range(depth):
        for sublayer in ("self", "ffn") if stack == "encoder" else ("self", "cross", "ffn"):
            inside, residual = f"{stack}.{layer}.{sublayer}", f"{stack}.{layer}.{sublayer}_residual"
            norm, total = f"{residual}.norm", f"{residual}.sum"
            # Pre-norm: the sublayer reads a normed copy, and the sum goes on. Post-norm: the norm of the sum goes on.
            sublayer_input = norm if c.norm_first else x
            if c.norm_first:
                yield norm, _norm_operation(c, x, norm)
            yield from (
                _feed_forward_operations(c, inside, sublayer_input)
                if sublayer == "ffn"
                else _attention_operations(c, inside, sublayer_input)
            )
            yield total, Operation("add", (x, f"{inside}.output"))
            if not c.norm_first:
                yield norm, _norm_operation(c, total, norm)
            x = total if c.norm_first else norm
    # Post-norm layers end in a norm, so a stack of them has no norm of its own at the end.
    yield end, _norm_operation(c, x, f"{stack}_norm") if c.norm_first else Operation("same", (x,))


def _attention_operations(c: ModelConfig, inside: str, x: str) -> Iterator[NamedOperation]:
    cross = inside.endswith("cross")
    y = "memory" if cross else x
    # Queries and keys of cross-attention stand in different sentences: their distance means nothing.
    turned = c.positions == "rotary" and not cross
    q, k, v, products, scores, allowed, pattern, head_output = (
        f"{inside}.{last}" for last in ("q", "k", "v", "products", "scores", "allowed", "pattern", "head_output")
    )
    # One weight holds the three projections: rows of all queries, then of all keys, then of all values.
    weight, bias = f"{inside}.qkv.weight", f"{inside}.qkv.bias"
    yield q, Operation("linear", (x,), weight=weight, bias=bias, split=True, turned=turned)
    yield k, Operation("linear", (y,), weight=weight, bias=bias, first=c.d_model, split=True, turned=turned)
    yield v, Operation("linear", (y,), weight=weight, bias=bias, first=2 * c.d_model, split=True)
    yield products, Operation("dot", (q, k))
    # The divisor is sqrt(d_k), the width of one head (Vaswani et al. 2017, 3.2.1).
    yield scores, Operation("scale", (products,), divisor=c.head_width**0.5)
    yield allowed, Operation("present" if cross or inside.startswith("encoder") else "causal")
    yield pattern, Operation("softmax", (scores, allowed))
    yield head_output, Operation("mix", (pattern, v))
    yield (
        f"{inside}.output",
        Operation(
            "linear", (head_output,), weight=f"{inside}.output.weight", bias=f"{inside}.output.bias", merged=True
        ),
    )


def _feed_forward_operations(c: ModelConfig, inside: str, x: str) -> Iterator[NamedOperation]:
    inner, active = f"{inside}.inner", f"{inside}.active"
    yield inner, Operation("linear", (x,), weight=f"{inner}.weight", bias=f"{inner}.bias")
    yield active, Operation("activation", (inner,), function=c.activation)
    yield (
        f"{inside}.output",
        Operation("linear", (active,), weight=f"{inside}.outer.weight", bias=f"{inside}.outer.bias"),
    )


def _norm_operation(c: ModelConfig, x: str, name: str) -> Operation:
    rms = c.norm == "rms"
    # An RMSNorm has no bias.
    return Operation("norm", (x,), weight=f"{name}.weight", bias=None if rms else f"{name}.bias", rms=rms)
