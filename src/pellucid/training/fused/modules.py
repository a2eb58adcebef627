"""Runs the layers of a model with fused operations for a while; the model stays as it is written."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pellucid.model import Transformer
from pellucid.model.attention import CrossAttention, SelfAttention
from pellucid.model.layers import EPSILON, DecoderLayer, EncoderLayer, FeedForward, Residual
from pellucid.training.fused import functions
from pellucid.training.fused.compiler import Kernels
from pellucid.training.fused.products import multiply, product_type

# What a sublayer returns: its output without the bias of its last product, and that bias, which is
# added together with the residual.
Sublayer = Callable[[Tensor], tuple[Tensor, Tensor]]


@contextmanager
def fused_operations(model: Transformer, kernels: Kernels | None) -> Iterator[None]:
    """Run the layers of `model` with fused operations until the block ends; without kernels, as ever.

    Same weights, same formulas (model/layers.py): the gradients are the same but for rounding, and
    the masks of dropout are others.
    """
    replaced: dict[nn.Module, Callable[..., Tensor]] = {}
    if kernels is not None:
        layers = _FusedLayers(kernels)
        for module in (*model.encoder, model.encoder_norm, *model.decoder, model.decoder_norm):
            if (forward := layers.forward_of(module)) is not None:
                replaced[module] = forward

    for module, forward in replaced.items():
        module.forward = forward
    try:
        yield
    finally:
        for module in replaced:
            del module.forward  # the class's own is there again


class _FusedLayers:
    """The layers of model/layers.py and model/attention.py, with passes over memory fused."""

    def __init__(self, kernels: Kernels):
        self.kernels = kernels

    def forward_of(self, module: nn.Module) -> Callable[..., Tensor] | None:
        """Return what runs in the place of a module's forward; None for one that does nothing."""
        if isinstance(module, EncoderLayer):
            return lambda x, allowed, *_: self.encode(module, x, allowed)
        if isinstance(module, DecoderLayer):
            return lambda x, allowed, ids, positions, memory, memory_allowed, *_: self.decode(
                module, x, allowed, memory, memory_allowed
            )
        if isinstance(module, nn.Identity):
            return None
        return lambda x: self.normalize(module, x, product_type(x))[0]

    def encode(
        self,
        layer: EncoderLayer,
        x: Float[Tensor, "B S D"],
        allowed: Bool[Tensor, "B 1 1 S"] | None,
    ) -> Float[Tensor, "B S D"]:
        x = self.add_sublayer(
            layer.self_residual, x, lambda y: self.attend_to_itself(layer.self, y, allowed)
        )
        return self.add_sublayer(layer.ffn_residual, x, lambda y: self.feed_forward(layer.ffn, y))

    def decode(
        self,
        layer: DecoderLayer,
        x: Float[Tensor, "B T D"],
        allowed: Bool[Tensor, "#B 1 T T"] | None,
        memory: Float[Tensor, "B S D"],
        memory_allowed: Bool[Tensor, "B 1 1 S"] | None,
    ) -> Float[Tensor, "B T D"]:
        x = self.add_sublayer(
            layer.self_residual, x, lambda y: self.attend_to_itself(layer.self, y, allowed)
        )
        x = self.add_sublayer(
            layer.cross_residual,
            x,
            lambda y: self.attend_across(layer.cross, y, memory, memory_allowed),
        )
        return self.add_sublayer(layer.ffn_residual, x, lambda y: self.feed_forward(layer.ffn, y))

    def add_sublayer(self, residual: Residual, x: Tensor, sublayer: Sublayer) -> Tensor:
        rate = residual.dropout.rate
        if residual.norm_first:
            normed, x = self.normalize(residual.norm, x, product_type(x))
            return functions.add_dropped(self.kernels, x, *sublayer(normed), rate)

        # The next residual adds to this norm, so it keeps all its digits.
        total = functions.add_dropped(self.kernels, x, *sublayer(x), rate)
        return self.normalize(residual.norm, total, torch.float32)[0]

    def normalize(self, norm: Any, x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        # An RMSNorm has no bias.
        bias = getattr(norm, "bias", None)
        return functions.apply_norm(self.kernels, x, norm.weight, bias, EPSILON, dtype)

    def attend_to_itself(
        self, a: SelfAttention, x: Tensor, allowed: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        qkv = multiply(x, a.qkv.weight)
        heads = functions.attend_to_itself(
            self.kernels, qkv, a.qkv.bias, allowed, a.heads, a.dropout.rate
        )
        return multiply(heads, a.output.weight), a.output.bias

    def attend_across(
        self, a: CrossAttention, x: Tensor, memory: Tensor, allowed: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        third = a.heads * a.width
        q_weight, kv_weight = a.qkv.weight.split([third, 2 * third])

        q, kv = multiply(x, q_weight), multiply(memory, kv_weight)
        heads = functions.attend_across(
            self.kernels, q, kv, a.qkv.bias, allowed, a.heads, a.dropout.rate
        )
        return multiply(heads, a.output.weight), a.output.bias

    def feed_forward(self, f: FeedForward, x: Tensor) -> tuple[Tensor, Tensor]:
        inner = multiply(x, f.inner.weight)

        if f.activation is F.relu:
            active = functions.relu_dropped(self.kernels, inner, f.inner.bias, f.dropout.rate)
        else:
            active = f.dropout(f.activation(inner + f.inner.bias))
        return multiply(active, f.outer.weight), f.outer.bias
