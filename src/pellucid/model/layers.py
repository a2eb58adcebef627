"""Feed-forward network, residual connection, encoder layer and decoder layer (paper, 3.1, 3.3)."""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pellucid.model.attention import CrossAttention, SelfAttention
from pellucid.model.cache import LayerCache
from pellucid.model.config import ModelConfig
from pellucid.model.dropout import Dropout
from pellucid.model.positions import Positions
from pellucid.model.watch import Watch, unseen


class FeedForward(nn.Module):
    """Two linear layers at each position by itself: max(0, x W1 + b1) W2 + b2 (paper, equation 2).

    Other activations may take the place of max(0, ...). With "swiglu" (Shazeer 2020) W1 is twice as
    wide, at the same d_ff: its two halves a and b give silu(a) * b.
    """

    def __init__(self, d_model: int, d_ff: int, activation: str, dropout: float):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        # swiglu halves what comes in, so W1 gives it twice d_ff.
        self.inner = nn.Linear(d_model, 2 * d_ff if activation == "swiglu" else d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)

        # Each half of a doubled W1 is initialised by itself: Xavier over both at once would start
        # them smaller.
        for block in (*self.inner.weight.split(d_ff), self.outer.weight):
            nn.init.xavier_uniform_(block)
        nn.init.zeros_(self.inner.bias)
        nn.init.zeros_(self.outer.bias)

    def forward(self, x: Float[Tensor, "B Q D"], watch: Watch = unseen) -> Float[Tensor, "B Q D"]:
        inner = watch("inner", self.inner(x))
        active = watch("active", self.activation(inner))
        return watch("output", self.outer(self.dropout(active)))


def swiglu(x: Float[Tensor, "... twice"]) -> Float[Tensor, "... once"]:
    """Return silu(gate) * value, where x = [gate, value] and silu(y) = y * sigmoid(y)."""
    gate, value = x.chunk(2, dim=-1)
    return F.silu(gate) * value


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "swiglu": swiglu,
}


EPSILON = 1e-5  # the number that every norm adds under its square root


def make_norm(d_model: int, kind: str) -> nn.Module:
    """Return a LayerNorm, or for "rms" the RMSNorm of Zhang and Sennrich (2019).

    RMSNorm is x / sqrt(mean of x^2 + epsilon) * weight.
    """
    return nn.RMSNorm(d_model, EPSILON) if kind == "rms" else nn.LayerNorm(d_model, EPSILON)


class Residual(nn.Module):
    """A residual connection around a sublayer f: x + f(norm(x)), or the paper's norm(x + f(x))."""

    def __init__(self, d_model: int, dropout: float, kind: str):
        super().__init__()
        self.norm_first = kind != "post"
        self.norm = make_norm(d_model, kind)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B Q D"], sublayer: Callable[[Tensor], Tensor], watch: Watch = unseen
    ) -> Float[Tensor, "B Q D"]:
        # Dropout before the sum in both (paper, 5.4). With the norm first, x itself passes through
        # the layer unchanged.
        if self.norm_first:
            return watch("sum", x + self.dropout(sublayer(watch("norm", self.norm(x)))))
        return watch("norm", self.norm(watch("sum", x + self.dropout(sublayer(x)))))


class EncoderLayer(nn.Module):
    """One layer of the encoder: self-attention and feed-forward, each in a residual connection."""

    def __init__(self, c: ModelConfig):
        super().__init__()
        # Called `self` because module names are the names of parameters and visible tensors:
        # encoder.0.self.pattern.
        self.self = SelfAttention(c.d_model, c.heads, c.attention_dropout)
        self.self_residual = Residual(c.d_model, c.dropout, c.norm)
        self.ffn = FeedForward(c.d_model, c.d_ff, c.activation, c.activation_dropout)
        self.ffn_residual = Residual(c.d_model, c.dropout, c.norm)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        allowed: Bool[Tensor, "B 1 1 S"] | None,
        position_ids: Int[Tensor, " S"],
        positions: Positions,
        watch: Watch = unseen,
    ) -> Float[Tensor, "B S D"]:
        # No cache: the encoder reads the whole source at once.
        where = {"allowed": allowed, "position_ids": position_ids, "positions": positions}
        attention = partial(self.self, **where, watch=watch.within("self"))
        x = self.self_residual(x, attention, watch.within("self_residual"))

        ffn = partial(self.ffn, watch=watch.within("ffn"))
        return self.ffn_residual(x, ffn, watch.within("ffn_residual"))


class DecoderLayer(nn.Module):
    """One layer of the decoder: self-attention, cross-attention to the source, and feed-forward.

    Each is inside a residual connection of its own.
    """

    def __init__(self, c: ModelConfig):
        super().__init__()
        self.self = SelfAttention(c.d_model, c.heads, c.attention_dropout)
        self.self_residual = Residual(c.d_model, c.dropout, c.norm)
        self.cross = CrossAttention(c.d_model, c.heads, c.attention_dropout)
        self.cross_residual = Residual(c.d_model, c.dropout, c.norm)
        self.ffn = FeedForward(c.d_model, c.d_ff, c.activation, c.activation_dropout)
        self.ffn_residual = Residual(c.d_model, c.dropout, c.norm)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        allowed: Bool[Tensor, "#B 1 T K"] | None,
        position_ids: Int[Tensor, " T"],
        positions: Positions,
        memory: Float[Tensor, "B S D"],
        memory_allowed: Bool[Tensor, "B 1 1 S"] | None,
        cache: LayerCache | None = None,
        watch: Watch = unseen,
    ) -> Float[Tensor, "B T D"]:
        # The residual decides what a sublayer is given: x, or its norm where the norm comes first.
        where = {"allowed": allowed, "position_ids": position_ids, "positions": positions}
        attention = partial(self.self, **where, cache=cache, watch=watch.within("self"))
        x = self.self_residual(x, attention, watch.within("self_residual"))

        # Queries come from the target; no position encoding takes part here.
        source = {"memory": memory, "allowed": memory_allowed}
        cross_attention = partial(self.cross, **source, cache=cache, watch=watch.within("cross"))
        x = self.cross_residual(x, cross_attention, watch.within("cross_residual"))

        ffn = partial(self.ffn, watch=watch.within("ffn"))
        return self.ffn_residual(x, ffn, watch.within("ffn_residual"))
