"""Multi-head attention, written out for watching and fused for speed (paper, 3.2)."""

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from pellucid.model.cache import LayerCache
from pellucid.model.dropout import Dropout
from pellucid.model.positions import Positions
from pellucid.model.watch import Watch, unseen

# The kernels that a GPU may use: all but cuDNN's, which takes half a second for every new shape of
# batch, and gives other numbers than zeros where a query may read no key
# (benchmarks/results/gpu.md).
_GPU_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def attend(
    q: Float[Tensor, "B H Q E"],
    k: Float[Tensor, "B H K E"],
    v: Float[Tensor, "B H K E"],
    allowed: Bool[Tensor, "#B 1 #Q K"] | None,
    bias: Float[Tensor, "1 H Q K"] | None = None,
    dropout: Dropout | nn.Identity | None = None,
    watch: Watch = unseen,
) -> Float[Tensor, "B H Q E"]:
    """Return softmax(q k^T / sqrt(E)) v for all heads at once (paper, 3.2.1, equation 1).

    `allowed` says which keys each query may read, None that it may read all. A query that may read
    none gets zeros. A `dropout` that is an nn.Identity, as in the copies that searches run, drops
    nothing.
    """
    # The fused kernel never forms the scores and the pattern: it has nothing to watch, to add a
    # bias to, or to drop.
    dropping = dropout is not None and not isinstance(dropout, nn.Identity) and dropout.active
    if not watch.seeing and bias is None and not dropping and fused_is_faster(q):
        # True means "may be read" here; the masks of nn.MultiheadAttention say True for what is
        # forbidden.
        with sdpa_kernel(_GPU_KERNELS) if q.is_cuda else nullcontext():
            return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)

    if allowed is None:
        allowed = torch.ones(1, 1, q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
    products = watch("products", q @ k.transpose(-1, -2))
    scaled = products / q.shape[-1] ** 0.5
    scores = watch("scores", scaled if bias is None else scaled + watch("position_bias", bias))
    pattern = watch("pattern", masked_softmax(scores, watch("allowed", allowed)))

    dropped = pattern if dropout is None else dropout(pattern)
    # The pattern is float32 at least; the values are bfloat16 where the weights are.
    return watch("head_output", dropped.to(v.dtype) @ v)


def masked_softmax(scores: Float[Tensor, "B H Q K"], allowed: Bool[Tensor, "#B 1 #Q K"]) -> Float[Tensor, "B H Q K"]:
    """Return the softmax over the allowed keys of each query, with exact zeros on all other keys.

    A query with no allowed key gets zeros everywhere.
    """
    # Sums of exponentials want float32 at least, even if the products were computed in less.
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))

    forbidden = ~allowed
    # The lowest finite number instead of -inf: a row without any allowed key would be 0 / 0, and
    # its gradient NaN. Such a row comes out of the softmax uniform, and only the second masked_fill
    # makes it zeros.
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(forbidden, lowest).softmax(dim=-1).masked_fill(forbidden, 0.0)


def fused_is_faster(q: Float[Tensor, "B H Q E"]) -> bool:
    """Whether the fused kernel beats the written-out formula; the results are equal (tests/laws)."""
    # On a CPU the kernel's backward pass takes several times as long in bfloat16:
    # benchmarks/results/attention.md
    return q.is_cuda or q.dtype != torch.bfloat16 or not torch.is_grad_enabled()


class Attention(nn.Module):
    """Multi-head attention (paper, 3.2.2), with all projections of its input in one matrix, `qkv`.

    Head h owns columns h * E to (h + 1) * E of the queries, of the keys and of the values, and the
    same rows of the output projection. All heads together are as wide as the model.
    """

    def __init__(self, d_model: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.width = d_model // heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.output = nn.Linear(d_model, d_model)
        self.dropout = Dropout(dropout)

        # Xavier over Q, K and V as one matrix: each starts smaller by sqrt(2) than on its own, and
        # learns sooner.
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.output.bias)

    def split(self, x: Float[Tensor, "B Q many"], parts: int) -> tuple[Float[Tensor, "B H Q E"], ...]:
        """Cut the width of `x` into projections and these into heads; put heads before positions."""
        return x.view(*x.shape[:2], parts, self.heads, self.width).permute(2, 0, 3, 1, 4).unbind()

    def merge(self, z: Float[Tensor, "B H Q E"], watch: Watch) -> Float[Tensor, "B Q D"]:
        """Put the heads side by side again and mix them with the output projection."""
        return watch("output", self.output(z.transpose(1, 2).flatten(2)))


class SelfAttention(Attention):
    """Attention with queries, keys and values all projected from one sequence."""

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        allowed: Bool[Tensor, "#B 1 #Q K"] | None,
        position_ids: Int[Tensor, " Q"],
        positions: Positions,
        cache: LayerCache | None = None,
        watch: Watch = unseen,
    ) -> Float[Tensor, "B Q D"]:
        """Attend from the vectors `x`, at `position_ids`, to themselves and to what `cache` holds."""
        q, k, v = self.split(self.qkv(x), 3)
        # Before the cache: a key is rotated by its own position alone, so it is cached rotated and
        # never again touched.
        q, k = positions.rotate(q, k, position_ids)
        q, k, v = watch("q", q), watch("k", k), watch("v", v)

        key_ids = position_ids
        if cache is not None:
            k, v = cache.append(k, v)
            key_ids = cache.key_ids

        bias = positions.bias(position_ids, key_ids)
        return self.merge(attend(q, k, v, allowed, bias, self.dropout, watch), watch)


class CrossAttention(Attention):
    """Attention with queries from the decoder, and keys and values from the encoder's output."""

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        memory: Float[Tensor, "B K D"],
        allowed: Bool[Tensor, "B 1 1 K"] | None,
        cache: LayerCache | None = None,
        watch: Watch = unseen,
    ) -> Float[Tensor, "B Q D"]:
        """Attend from the decoder's vectors `x` to `memory`; its keys and values are cached."""
        # One matrix as in self-attention, but its first third is multiplied by x and the rest by
        # memory.
        third, weight, bias = self.heads * self.width, self.qkv.weight, self.qkv.bias
        (q,) = self.split(F.linear(x, weight[:third], bias[:third]), 1)
        q = watch("q", q)

        if cache is not None and cache.source is not None:
            k, v = cache.source
        else:
            k, v = self.split(F.linear(memory, weight[third:], bias[third:]), 2)
            if cache is not None:
                k, v = cache.keep_source(k, v)
        k, v = watch("k", k), watch("v", v)

        # No position bias: source and target positions have no distance to each other.
        return self.merge(attend(q, k, v, allowed, None, self.dropout, watch), watch)
