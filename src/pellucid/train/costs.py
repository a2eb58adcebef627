"""Costs of training, computed from formulas: floating-point operations of a pair, parameters, and bytes of memory."""

from dataclasses import dataclass

import torch

from pellucid.model import ModelConfig, Transformer
from pellucid.train.loss import CHUNK

FLOAT_BYTES = 4
"""Bytes of a weight, of its gradient and of each of Adam's two means, in every precision."""


def training_flops(c: ModelConfig, s: int, t: int) -> float:
    """Return the floating-point operations of one update for a pair of `s` source and `t` target tokens, EOS included.

    Only matrix products count, an addition and a multiplication as two; the backward pass is twice the forward pass:

        3 x [ encoder  s layers of (8 d d + 2 m d f + 4 s d)
              cross    s layers of 4 d d
              decoder  t layers of (12 d d + 2 t d + 4 s d + 2 m d f)
              logits   t 2 d V ]

    d is d_model, f is d_ff, V the target vocabulary, m the matrices of a feed-forward: 2, with swiglu 3. Padding is not
    counted.
    """
    d = c.d_model
    ffn = 2 * (3 if c.activation == "swiglu" else 2) * d * c.d_ff
    encoder = s * (8 * d * d + ffn + 4 * s * d)
    # Keys and values of the memory; the queries are part of the decoder's work.
    cross = s * 4 * d * d
    # Half of 4 t d: with the causal mask, a position reads half of the target on average.
    decoder = t * (12 * d * d + 2 * t * d + 4 * s * d + ffn)
    return 3.0 * (c.encoder_layers * encoder + c.decoder_layers * (cross + decoder) + t * 2 * d * c.target_vocabulary)


@dataclass(frozen=True)
class ParameterCounts:
    """Numbers of learned parameters; a matrix that is shared counts once."""

    embeddings: int
    encoder: int
    decoder: int

    @property
    def total(self) -> int:
        """Parameters of the whole model."""
        return self.embeddings + self.encoder + self.decoder


def count_parameters(c: ModelConfig) -> ParameterCounts:
    """Return the parameter counts of a model without allocating it."""
    counts = {"embeddings": 0, "encoder": 0, "decoder": 0}
    # Tensors on the meta device have shapes and no memory.
    with torch.device("meta"):
        model = Transformer(c)
    for name, parameter in model.named_parameters():
        # Whatever belongs to neither stack are embeddings, the output bias among them.
        group = next((group for group in ("encoder", "decoder") if name.startswith(group)), "embeddings")
        counts[group] += parameter.numel()
    return ParameterCounts(**counts)


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that training holds at once, without the corpus and the libraries."""

    weights: int
    gradients: int
    adam: int
    activations: int
    """Estimate for the largest batch, with logits and the gradient of the loss."""

    @property
    def shared(self) -> int:
        """Bytes that train.shard_model divides among the workers."""
        return self.weights + self.gradients + self.adam

    @property
    def total(self) -> int:
        """Bytes of everything together."""
        return self.shared + self.activations


def estimate_memory(c: ModelConfig, parameters: int, rows: int, s: int, t: int) -> MemoryEstimate:
    """Estimate the memory of an update whose largest batch is `rows` pairs of `s` source and `t` target positions.

    The backward pass needs each sublayer's input, its normalised input, its dropout mask and the operands of its
    products. The factors are rounded up for what the backward pass allocates itself.
    """
    d = c.d_model
    ffn = 3 * d + (4 if c.activation == "swiglu" else 2) * c.d_ff
    encoder = rows * s * (2 * d + c.encoder_layers * (8 * d + ffn + 2 * c.heads * s))
    decoder = rows * t * (2 * d + c.decoder_layers * (14 * d + ffn + 2 * c.heads * (t + s)))
    # Every decoder layer projects the encoder's output to keys and values of its own.
    memory_keys_and_values = rows * s * c.decoder_layers * 2 * d
    # Logits exist in chunks of rows only (`loss.CHUNK`); the last term is the gradient of the output embedding.
    logits = 3 * min(CHUNK, rows * t) * c.target_vocabulary + c.target_vocabulary * d
    return MemoryEstimate(
        FLOAT_BYTES * parameters,
        FLOAT_BYTES * parameters,
        2 * FLOAT_BYTES * parameters,
        FLOAT_BYTES * (encoder + decoder + memory_keys_and_values + logits),
    )
