"""What training costs, counted from the formulas: floating-point operations of a pair, and bytes that are held."""

from dataclasses import dataclass

import torch

from pellucid.model import ModelConfig, Transformer
from pellucid.train.loss import CHUNK

FLOAT_BYTES = 4
"""Bytes of a weight, of its gradient, and of each of Adam's two means, in every precision."""


def training_flops(c: ModelConfig, s: int, t: int) -> float:
    """Floating-point operations of one update for a pair of `s` source and `t` target pieces, end marks counted.

    Matrix products only, an addition and a multiplication each counted; the backward pass is twice the forward pass:

        3 x [ encoder  s sum over layers of (8 d a + 2 m d f + 4 s a)
              cross    s sum over layers of 4 d c
              decoder  t sum over layers of (8 d a + 2 t a + 4 d c + 4 s c + 2 m d f)
              logits   t 2 d V ]

    d is d_model, f is d_ff, a and c are the heads of a layer's self-attention and cross-attention times their width (d
    where no head was removed), V the target vocabulary, m the matrices of a feed-forward: 2, with swiglu 3. A decoder
    position reads on average half of the target, hence 2 t a and not 4 t a. Padding is no work.
    """
    d, layers, decoder_layers = c.d_model, c.encoder_layers, c.decoder_layers
    ffn = 2 * (3 if c.activation == "swiglu" else 2) * d * c.d_ff
    reads, own, crosses = (c.head_width * each for each in count_heads_by_kind(c))
    encoder = s * (8 * d * reads + layers * ffn + 4 * s * reads)
    cross = s * 4 * d * crosses
    decoder = t * (8 * d * own + 2 * t * own + 4 * d * crosses + 4 * s * crosses + decoder_layers * ffn)
    return 3.0 * (encoder + cross + decoder + t * 2 * d * c.target_vocabulary)


def count_heads_by_kind(c: ModelConfig) -> tuple[int, int, int]:
    """All heads of the encoder, of the decoder's self-attention and of its cross-attention."""
    kinds = (("encoder", "self", c.encoder_layers), ("decoder", "self", c.decoder_layers))
    reads, own, crosses = (
        sum(c.heads_in(f"{stack}.{layer}.{part}") for layer in range(depth))
        for stack, part, depth in (*kinds, ("decoder", "cross", c.decoder_layers))
    )
    return reads, own, crosses


@dataclass(frozen=True)
class ParameterCounts:
    """How many numbers a model learns; a matrix that is shared is counted once."""

    embeddings: int
    encoder: int
    decoder: int

    @property
    def total(self) -> int:
        return self.embeddings + self.encoder + self.decoder


def count_parameters(c: ModelConfig) -> ParameterCounts:
    """The parameters of a model that need not be made for it."""
    counts = {"embeddings": 0, "encoder": 0, "decoder": 0}
    with torch.device("meta"):
        model = Transformer(c)
    for name, each in model.named_parameters():
        part = next((part for part in ("encoder", "decoder") if name.startswith(part)), "embeddings")
        counts[part] += each.numel()
    return ParameterCounts(**counts)


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that training holds at once, besides the corpus and the libraries."""

    weights: int
    gradients: int
    adam: int
    activations: int
    """An estimate for the largest batch, logits and the loss's own gradients counted."""

    @property
    def shared(self) -> int:
        """What train.shard_model cuts into as many parts as there are workers."""
        return self.weights + self.gradients + self.adam

    @property
    def total(self) -> int:
        return self.shared + self.activations


def estimate_memory(c: ModelConfig, learned: int, rows: int, s: int, t: int) -> MemoryEstimate:
    """The memory of an update whose largest batch is `rows` pairs of `s` source and `t` target positions.

    What the backward pass needs again is kept: of each sublayer its input, its normalised input, its dropout mask and
    what its products read. Somewhat more is reckoned, for what the backward pass makes on its way. The logits exist in
    chunks of rows (`train/loss.py`).
    """
    d, (reads, own, crosses) = c.d_model, count_heads_by_kind(c)
    ffn = 3 * d + (4 if c.activation == "swiglu" else 2) * c.d_ff
    encoder = rows * s * (2 * d + c.encoder_layers * (8 * d + ffn) + 2 * reads * s)
    decoder = rows * t * (2 * d + c.decoder_layers * (14 * d + ffn) + 2 * (own * t + crosses * s))
    kept = rows * s * c.decoder_layers * 2 * d
    logits = 3 * min(CHUNK, rows * t) * c.target_vocabulary + c.target_vocabulary * d
    return MemoryEstimate(
        FLOAT_BYTES * learned,
        FLOAT_BYTES * learned,
        2 * FLOAT_BYTES * learned,
        FLOAT_BYTES * (encoder + decoder + kept + logits),
    )
