"""The layers of model/ for fast translation: packed matrices, no watching, no dropout."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from pellucid.decode.packed_linear import PackedLinear
from pellucid.model.attention import Attention
from pellucid.model.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from pellucid.model.positions import Positions


class PackedResidual:
    """x + f(norm(x)), or norm(x + f(x)): `model.layers.Residual` without its dropout."""

    def __init__(self, residual: Residual):
        self.norm_first = residual.norm_first
        self.norm = pack_norm(residual.norm)

    def __call__(self, x: Float[Tensor, "R D"], part: Callable[[Tensor], Tensor]) -> Float[Tensor, "R D"]:
        if self.norm_first:
            return part(self.norm(x)).add_(x)
        return self.norm(part(x).add_(x))


class PackedEncoderLayer:
    """Encoder layer over all positions of all sentences, which stand as rows."""

    def __init__(self, layer: EncoderLayer):
        self.heads = head_shape(layer.self)
        self.around_self, self.around_ffn = PackedResidual(layer.self_residual), PackedResidual(layer.ffn_residual)
        self.qkv, self.output = pack_linear(layer.self.qkv), pack_linear(layer.self.output)
        self.ffn = pack_feed_forward(layer.ffn)

    def __call__(
        self,
        x: Float[Tensor, "R D"],
        absent: Float[Tensor, "B 1 1 S"] | None,
        at: Int[Tensor, " S"],
        positions: Positions,
    ) -> Float[Tensor, "R D"]:
        def attention(y):
            q, k, v = split_heads(self.qkv(y), len(y) // len(at), 3, *self.heads)
            q, k = positions.rotate(q, k, at)
            return self.output(merge_heads(F.scaled_dot_product_attention(q, k, v, absent)))

        return self.around_ffn(self.around_self(x, attention), self.ffn)


class PackedDecoderLayer:
    """Decoder layer for the newest position of each row."""

    def __init__(self, layer: DecoderLayer):
        self.heads, self.cross_heads = head_shape(layer.self), head_shape(layer.cross)
        self.around_self, self.around_cross = PackedResidual(layer.self_residual), PackedResidual(layer.cross_residual)
        self.around_ffn = PackedResidual(layer.ffn_residual)
        self.qkv, self.output = pack_linear(layer.self.qkv), pack_linear(layer.self.output)
        self.q, self.kv = pack_cross_projections(layer.cross)
        self.cross_output = pack_linear(layer.cross.output)
        self.ffn = pack_feed_forward(layer.ffn)

    def project_source(self, states: Float[Tensor, "R D"], sentences: int) -> Float[Tensor, "two B H S E"]:
        """Return the cross-attention keys and values of the source."""
        return split_heads(self.kv(states), sentences, 2, *self.cross_heads)

    def __call__(
        self,
        x: Float[Tensor, "R D"],
        self_kv: Float[Tensor, "two B H C E"],
        new: slice,
        lineage: Float[Tensor, "B 1 W N"] | None,
        cross_kv: Float[Tensor, "two B H S E"],
        absent: Float[Tensor, "B 1 1 S"] | None,
        at: Int[Tensor, " W"],
        positions: Positions,
    ) -> Float[Tensor, "R D"]:
        sentences = self_kv.shape[1]

        def self_attention(y):
            q, k, v = split_heads(self.qkv(y), sentences, 3, *self.heads)
            q, k = positions.rotate(q, k, at)
            self_kv[0, :, :, new], self_kv[1, :, :, new] = k, v
            keys, values = self_kv[:, :, :, : new.stop]
            return self.output(merge_heads(F.scaled_dot_product_attention(q, keys, values, lineage)))

        def cross_attention(y):
            (q,) = split_heads(
                self.q(y), sentences, 1, *self.cross_heads
            )  # hypotheses side by side, as further queries
            return self.cross_output(merge_heads(F.scaled_dot_product_attention(q, cross_kv[0], cross_kv[1], absent)))

        x = self.around_self(x, self_attention)
        x = self.around_cross(x, cross_attention)
        return self.around_ffn(x, self.ffn)


def pack_linear(linear: nn.Linear) -> PackedLinear:
    """Pack the matrix and the bias of a linear module."""
    return PackedLinear(linear.weight, linear.bias)


def pack_cross_projections(cross: Attention) -> tuple[PackedLinear, PackedLinear]:
    """Pack the projection to queries, and that to keys and values."""
    parts = [cross.heads * cross.width, 2 * cross.heads * cross.width]
    weights, biases = cross.qkv.weight.split(parts), cross.qkv.bias.split(parts)
    return PackedLinear(weights[0], biases[0]), PackedLinear(weights[1], biases[1])


def pack_feed_forward(ffn: FeedForward) -> Callable[[Float[Tensor, "R D"]], Float[Tensor, "R D"]]:
    """Return the feed-forward network max(0, x W1 + b1) W2 + b2, or with another activation, as a function."""
    inner, outer, activation = pack_linear(ffn.inner), pack_linear(ffn.outer), ffn.activation
    if activation is F.relu:
        return lambda y: outer(inner(y).relu_())
    return lambda y: outer(activation(inner(y)))


def pack_norm(layer: nn.Module) -> Callable[[Float[Tensor, "R D"]], Float[Tensor, "R D"]]:
    """Return a LayerNorm as a plain function, which skips the call overhead of nn.Module; others as they are."""
    if type(layer) is not nn.LayerNorm:
        return layer
    shape, weight, bias, epsilon = layer.normalized_shape, layer.weight, layer.bias, layer.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, epsilon)


def head_shape(attention: Attention) -> tuple[int, int]:
    """Return the number of heads and the width of one."""
    return attention.heads, attention.width


def split_heads(
    x: Float[Tensor, "R many"], sentences: int, parts: int, heads: int, width: int
) -> Float[Tensor, "P B H Q E"]:
    """Split rows into sentences, and their width into heads."""
    return x.view(sentences, x.shape[0] // sentences, parts, heads, width).permute(2, 0, 3, 1, 4)


def merge_heads(z: Float[Tensor, "B H Q E"]) -> Float[Tensor, "R D"]:
    """Concatenate the heads again."""
    return z.transpose(1, 2).flatten(2).flatten(0, 1)
