"""Quantization to int8 as in CTranslate2, and how much the loss rises by it in each part of a model."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from pellucid.model import Transformer

LARGEST_BYTE = 127
"""Largest byte of a vector; the smallest is minus this."""

# A processor without VNNI adds products of bytes in pairs, in 16 bits: what does not fit is cut off, in silence.
# CTranslate2 hands it vectors as 0 to 255, and 2 x 255 x 64 is the most that fits.
LARGEST_WEIGHT_BYTE = 63
"""Largest byte of a weight, small enough that every processor computes the same sums."""


@dataclass(frozen=True)
class QuantizedPart:
    """Matrices under one name, and the operation that uses them: a product or a look-up."""

    name: str
    operation: Callable[..., Tensor]
    weights: tuple[Tensor, ...]


def rank_int8_losses(model: Transformer, loss: Callable[[], float]) -> list[tuple[str, float]]:
    """Return each part of the model with the rise of `loss` when that part alone is int8, the highest first.

    `loss` must run the model, and no other torch code.
    """
    before = loss()
    costs = []
    for part in list_quantized_parts(model):
        with Int8Mode([part]):
            costs.append((part.name, loss() - before))
    return sorted(costs, key=lambda cost: -cost[1])


def list_quantized_parts(model: Transformer) -> list[QuantizedPart]:
    """Return the parts that CTranslate2 stores in int8: sublayers, embeddings and the output.

    Norms, biases and positions are not among them. A matrix that serves as both embeddings is one part, and as the
    output another.
    """
    sublayers = [
        QuantizedPart(f"{stack}.{number}.{name}", F.linear, linear_weights(sublayer))
        for stack in ("encoder", "decoder")
        for number, layer in enumerate(getattr(model, stack))
        for name in ("self", "cross", "ffn")
        if (sublayer := getattr(layer, name, None)) is not None
    ]
    source, target = model.source_embedding.weight, model.target_embedding.weight
    if source is target:
        embeddings = [QuantizedPart("source_embedding and target_embedding", F.embedding, (source,))]
    else:
        embeddings = [
            QuantizedPart("source_embedding", F.embedding, (source,)),
            QuantizedPart("target_embedding", F.embedding, (target,)),
        ]
    return [*sublayers, *embeddings, QuantizedPart("output_embedding", F.linear, (model.output_embedding.weight,))]


def linear_weights(module: nn.Module) -> tuple[Tensor, ...]:
    """Return the matrices of all linear layers inside a module."""
    return tuple(layer.weight for layer in module.modules() if isinstance(layer, nn.Linear))


class Int8Mode(TorchFunctionMode):
    """Mode in which the given parts compute as in CTranslate2's int8; the model itself is not changed."""

    def __init__(self, parts: Iterable[QuantizedPart]):
        super().__init__()
        # By storage, because a slice of a matrix, as cross-attention takes, shares it. By operation too, because one
        # matrix may be an embedding and the output.
        self.quantized = {
            (part.operation, weight.untyped_storage().data_ptr()) for part in parts for weight in part.weights
        }

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (F.linear, F.embedding) and (func, args[1].untyped_storage().data_ptr()) in self.quantized:
            # In a product both sides are bytes, so the vectors are rounded too.
            vectors = round_through_int8(args[0]) if func is F.linear else args[0]
            args = (vectors, round_through_int8(args[1], LARGEST_WEIGHT_BYTE), *args[2:])
        return func(*args, **(kwargs or {}))


def round_through_int8(rows: Tensor, largest: int = LARGEST_BYTE) -> Tensor:
    """Return each row as it comes back from its bytes.

    >>> import torch
    >>> round_through_int8(torch.tensor([[127.0, 1.4, -0.6], [0.0, 0.0, 0.0]])).tolist()
    [[127.0, 1.0, -1.0], [0.0, 0.0, 0.0]]
    """
    quantized, scale = quantize_rows(rows, largest)
    return quantized / scale


def quantize_rows(rows: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """Return each row (last dimension) scaled so that its farthest from 0 is `largest` and rounded, and the scales."""
    smallest_maximum = largest / 1e38  # the scale of smaller rows, or of zeros, would be infinite
    scale = largest / rows.abs().amax(dim=-1, keepdim=True).clamp(min=smallest_maximum)
    return (rows * scale).round(), scale
