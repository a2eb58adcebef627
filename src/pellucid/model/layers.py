"""Feed-forward, the residual with its norm before or after, one encoder and one decoder layer (paper, 3.1)."""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pellucid.model.attention import CrossAttention, SelfAttention
from pellucid.model.cache import LayerCache
from pellucid.model.dropout import Dropout
from pellucid.model.positions import Positions
from pellucid.model.watch import Watch, unseen
from pellucid.sizes import ModelConfig


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, the same at every position (paper, 3.3, equation 2).

    With "swiglu" the inner layer is doubled: silu(a) * b of its two halves (Shazeer 2020), at the same d_ff.
    """

    def __init__(self, d_model: int, d_ff: int, activation: str, dropout: float):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.inner = nn.Linear(d_model, 2 * d_ff if activation == "swiglu" else d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)
        for block in (*self.inner.weight.split(d_ff), self.outer.weight):
            nn.init.xavier_uniform_(block)
        nn.init.zeros_(self.inner.bias)
        nn.init.zeros_(self.outer.bias)

    def forward(self, x: Float[Tensor, "B Q D"], watch: Watch = unseen) -> Float[Tensor, "B Q D"]:
        inner = watch("inner", self.inner(x))
        active = watch("active", self.activation(inner))
        return watch("output", self.outer(self.dropout(active)))


def swiglu(x: Float[Tensor, "... twice"]) -> Float[Tensor, "... once"]:
    """The first half, through x * sigmoid(x), times the second."""
    gate, value = x.chunk(2, dim=-1)
    return F.silu(gate) * value


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "swiglu": swiglu,
}


EPSILON = 1e-5
"""What every norm adds under its root."""


def make_norm(d_model: int, kind: str) -> nn.Module:
    """A LayerNorm, or for "rms" the RMSNorm of Zhang and Sennrich (2019): x / sqrt(mean of x^2 + epsilon) * weight."""
    return nn.RMSNorm(d_model, EPSILON) if kind == "rms" else nn.LayerNorm(d_model, EPSILON)


class Residual(nn.Module):
    """x + f(norm(x)), or norm(x + f(x)) as the paper has it (3.1)."""

    def __init__(self, d_model: int, dropout: float, kind: str):
        super().__init__()
        self.norm_first = kind != "post"
        self.norm = make_norm(d_model, kind)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B Q D"], sublayer: Callable[[Tensor], Tensor], watch: Watch = unseen
    ) -> Float[Tensor, "B Q D"]:
        if self.norm_first:
            return watch("sum", x + self.dropout(sublayer(watch("norm", self.norm(x)))))
        return watch("norm", self.norm(watch("sum", x + self.dropout(sublayer(x)))))


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each inside a residual."""

    def __init__(self, c: ModelConfig, name: str = "encoder.0"):
        super().__init__()
        self.self = SelfAttention(c.d_model, c.heads_in(f"{name}.self"), c.attention_dropout, c.head_width)
        self.self_residual = Residual(c.d_model, c.dropout, c.norm)
        self.ffn = FeedForward(c.d_model, c.d_ff, c.activation, c.activation_dropout)
        self.ffn_residual = Residual(c.d_model, c.dropout, c.norm)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        allowed: Bool[Tensor, "B 1 1 S"],
        bias: Float[Tensor, "1 H S S"] | None,
        at: Int[Tensor, " S"],
        positions: Positions,
        watch: Watch = unseen,
    ) -> Float[Tensor, "B S D"]:
        x = self.self_residual(
            x,
            lambda y: self.self(y, allowed, bias, at, positions, None, watch.within("self")),
            watch.within("self_residual"),
        )
        return self.ffn_residual(x, lambda y: self.ffn(y, watch.within("ffn")), watch.within("ffn_residual"))


class DecoderLayer(nn.Module):
    """Self-attention over what is written, attention to what was read, feed-forward, each inside a residual."""

    def __init__(self, c: ModelConfig, name: str = "decoder.0"):
        super().__init__()
        self.self = SelfAttention(c.d_model, c.heads_in(f"{name}.self"), c.attention_dropout, c.head_width)
        self.self_residual = Residual(c.d_model, c.dropout, c.norm)
        self.cross = CrossAttention(c.d_model, c.heads_in(f"{name}.cross"), c.attention_dropout, c.head_width)
        self.cross_residual = Residual(c.d_model, c.dropout, c.norm)
        self.ffn = FeedForward(c.d_model, c.d_ff, c.activation, c.activation_dropout)
        self.ffn_residual = Residual(c.d_model, c.dropout, c.norm)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        allowed: Bool[Tensor, "#B 1 T K"],
        bias: Float[Tensor, "1 H T K"] | None,
        at: Int[Tensor, " T"],
        positions: Positions,
        memory: Float[Tensor, "B S D"],
        memory_allowed: Bool[Tensor, "B 1 1 S"],
        cache: LayerCache | None = None,
        watch: Watch = unseen,
    ) -> Float[Tensor, "B T D"]:
        x = self.self_residual(
            x,
            lambda y: self.self(y, allowed, bias, at, positions, cache, watch.within("self")),
            watch.within("self_residual"),
        )
        x = self.cross_residual(
            x,
            lambda y: self.cross(y, memory, memory_allowed, cache, watch.within("cross")),
            watch.within("cross_residual"),
        )
        return self.ffn_residual(x, lambda y: self.ffn(y, watch.within("ffn")), watch.within("ffn_residual"))
