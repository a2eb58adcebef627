"""Attention written twice, fused and visible, and the layer around it (paper, 3.2)."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pellucid.model.cache import LayerCache
from pellucid.model.dropout import Dropout
from pellucid.model.positions import Positions
from pellucid.model.watch import Watch, unseen


def attend(
    q: Float[Tensor, "B H Q E"],
    k: Float[Tensor, "B H K E"],
    v: Float[Tensor, "B H K E"],
    allowed: Bool[Tensor, "#B 1 #Q K"],
    bias: Float[Tensor, "1 H Q K"] | None = None,
    dropout: Dropout | None = None,
    watch: Watch = unseen,
) -> Float[Tensor, "B H Q E"]:
    """softmax(q k^T / sqrt(E)) v, for all heads at once (paper, 3.2.1, equation 1).

    A query that may read nothing gets zeros.
    """
    dropping = dropout is not None and dropout.active
    if not watch.seeing and bias is None and not dropping and fused_is_faster(q):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    products = watch("products", q @ k.transpose(-1, -2))
    scaled = products / q.shape[-1] ** 0.5
    scores = watch("scores", scaled if bias is None else scaled + bias)
    pattern = watch("pattern", masked_softmax(scores, watch("allowed", allowed)))
    return watch("head_output", (pattern if dropout is None else dropout(pattern)).to(v.dtype) @ v)


def masked_softmax(scores: Float[Tensor, "B H Q K"], allowed: Bool[Tensor, "#B 1 #Q K"]) -> Float[Tensor, "B H Q K"]:
    """Softmax over the keys a query may read; exactly zero on the others, and on all of them if it may read none.

    Taken in float32 at least, whatever the products were taken in.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    forbidden = ~allowed
    return scores.masked_fill(forbidden, torch.finfo(scores.dtype).min).softmax(dim=-1).masked_fill(forbidden, 0.0)


def fused_is_faster(q: Float[Tensor, "B H Q E"]) -> bool:
    """Whether the fused kernel beats the written-out formula here; both give the same numbers (tests/laws).

    It does but for bfloat16 on a CPU when a gradient is wanted: its backward pass takes several times as long there
    (benchmarks/results/attention.md).
    """
    return q.is_cuda or q.dtype != torch.bfloat16 or not torch.is_grad_enabled()


class Attention(nn.Module):
    """Multi-head attention (paper, 3.2.2): one matrix holds what makes the queries, keys and values of all heads.

    Head h owns columns h * E to (h + 1) * E of each, and the same rows of the output projection. All heads together
    are as wide as the model, unless some were removed: then a `width` is given, and those left keep theirs. With no
    head left, only the output's bias is added.
    """

    def __init__(self, d_model: int, heads: int, dropout: float, width: int | None = None):
        super().__init__()
        self.heads = heads
        self.width = d_model // heads if width is None else width
        self.qkv = Linear(d_model, 3 * heads * self.width)
        self.output = Linear(heads * self.width, d_model)
        self.dropout = Dropout(dropout)
        # Xavier over all three as one matrix: each begins smaller by sqrt(2) than by itself, and learns sooner.
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.output.bias)

    def split(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B H Q E"]:
        """Each head's share of the width, heads before positions."""
        return x.unflatten(-1, (self.heads, self.width)).transpose(1, 2)

    def merge(self, z: Float[Tensor, "B H Q E"], watch: Watch) -> Float[Tensor, "B Q D"]:
        """The heads side by side again, mixed by the output projection."""
        return watch("output", self.output(z.transpose(1, 2).flatten(2)))


class Linear(nn.Linear):
    """x W^T + b; where there are no numbers to draw, torch need not warn that it drew none."""

    def reset_parameters(self) -> None:
        if self.weight.numel():
            super().reset_parameters()


class SelfAttention(Attention):
    """Queries, keys and values of one sequence."""

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        allowed: Bool[Tensor, "#B 1 #Q K"],
        bias: Float[Tensor, "1 H Q K"] | None,
        at: Int[Tensor, " Q"],
        positions: Positions,
        cache: LayerCache | None = None,
        watch: Watch = unseen,
    ) -> Float[Tensor, "B Q D"]:
        """`x` stands at the positions `at`; keys and values of the tokens decoded before are in `cache`."""
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, dim=-1))
        q, k = positions.rotate(q, k, at)
        q, k, v = watch("q", q), watch("k", k), watch("v", v)
        if cache is not None:
            k, v = cache.append(k, v)
        return self.merge(attend(q, k, v, allowed, bias, self.dropout, watch), watch)


class CrossAttention(Attention):
    """Queries of the decoder, keys and values of the encoder's output."""

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        memory: Float[Tensor, "B K D"],
        allowed: Bool[Tensor, "B 1 1 K"],
        cache: LayerCache | None = None,
        watch: Watch = unseen,
    ) -> Float[Tensor, "B Q D"]:
        """Keys and values are made once a sentence and stay in `cache`."""
        width = self.heads * self.width
        into_q, into_kv = self.qkv.weight.split([width, 2 * width])
        bias_q, bias_kv = self.qkv.bias.split([width, 2 * width])
        q = watch("q", self.split(F.linear(x, into_q, bias_q)))
        if cache is not None and cache.source is not None:
            k, v = cache.source
        else:
            k, v = (self.split(part) for part in F.linear(memory, into_kv, bias_kv).chunk(2, dim=-1))
            if cache is not None:
                k, v = cache.keep_source(k, v)
        k, v = watch("k", k), watch("v", v)
        return self.merge(attend(q, k, v, allowed, None, self.dropout, watch), watch)
