"""A matrix as bytes; what CTranslate2's int8 does to the parts of a model, and what each part loses by it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from pellucid.model import Transformer

LARGEST_BYTE = 127
"""The bytes of vectors go from minus to plus this."""

LARGEST_WEIGHT_BYTE = 63
"""Those of weights, so that every processor gives the same sums.

One without VNNI adds products of bytes in pairs, in 16 bits: what does not fit is cut off there, and nothing says so.
CTranslate2 hands it vectors as 0 to 255, and 2 x 255 x 64 is the most that fits.
"""


@dataclass(frozen=True)
class QuantizedPart:
    """Matrices under one name, and the operation they are used in: a product, or a look-up."""

    name: str
    operation: Callable[..., Tensor]
    weights: tuple[Tensor, ...]


def rank_int8_losses(model: Transformer, loss: Callable[[], float]) -> list[tuple[str, float]]:
    """Each part of the model with the rise of `loss` when that part alone is int8, the highest first.

    `loss` is to run the model, and nothing but it.
    """
    before = loss()
    costs = []
    for part in list_quantized_parts(model):
        with Int8Mode([part]):
            costs.append((part.name, loss() - before))
    return sorted(costs, key=lambda cost: -cost[1])


def list_quantized_parts(model: Transformer) -> list[QuantizedPart]:
    """What CTranslate2 keeps in int8: sublayers, embeddings and the output; not norms, biases and positions.

    A matrix that serves as both embeddings is one part, and another one as output.
    """
    sublayers = [
        QuantizedPart(f"{stack}.{number}.{name}", F.linear, linear_weights(sublayer))
        for stack in ("encoder", "decoder")
        for number, layer in enumerate(getattr(model, stack))
        for name in ("self", "cross", "ffn")
        if (sublayer := getattr(layer, name, None)) is not None
    ]
    read, written = model.source_embedding.weight, model.target_embedding.weight
    if read is written:
        embeddings = [QuantizedPart("source_embedding and target_embedding", F.embedding, (read,))]
    else:
        embeddings = [
            QuantizedPart("source_embedding", F.embedding, (read,)),
            QuantizedPart("target_embedding", F.embedding, (written,)),
        ]
    return [*sublayers, *embeddings, QuantizedPart("output_embedding", F.linear, (model.output_embedding.weight,))]


def linear_weights(module: nn.Module) -> tuple[Tensor, ...]:
    """The matrices of all linear layers inside."""
    return tuple(each.weight for each in module.modules() if isinstance(each, nn.Linear))


class Int8Mode(TorchFunctionMode):
    """While it lasts, the parts compute what they would in CTranslate2's int8; the model itself is not touched.

    In a product the vectors that come in are rounded as well, for there both sides are bytes.
    """

    def __init__(self, parts: Iterable[QuantizedPart]):
        super().__init__()
        # A slice of a matrix, as cross-attention takes, shares its storage.
        self.used = {(part.operation, each.untyped_storage().data_ptr()) for part in parts for each in part.weights}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (F.linear, F.embedding) and (func, args[1].untyped_storage().data_ptr()) in self.used:
            vectors = round_through_int8(args[0]) if func is F.linear else args[0]
            args = (vectors, round_through_int8(args[1], LARGEST_WEIGHT_BYTE), *args[2:])
        return func(*args, **(kwargs or {}))


def round_through_int8(rows: Tensor, largest: int = LARGEST_BYTE) -> Tensor:
    """Each row as it comes back from its bytes.

    >>> import torch
    >>> round_through_int8(torch.tensor([[127.0, 1.4, -0.6], [0.0, 0.0, 0.0]])).tolist()
    [[127.0, 1.0, -1.0], [0.0, 0.0, 0.0]]
    """
    numbers, scale = quantize_rows(rows, largest)
    return numbers / scale


def quantize_rows(rows: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """Each row (the last dimension) times a number that brings its farthest from zero to `largest`, rounded; these."""
    least = largest / 1e38  # the scale of smaller rows, or of zeros, would be infinite
    scale = largest / rows.abs().amax(dim=-1, keepdim=True).clamp(min=least)
    return (rows * scale).round(), scale
