"""Pads pruned models: removed heads come back as zeros, for formats with equally many heads in every attention."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.model import ModelConfig, Transformer
from pellucid.weights import model_without_storage

NOTE = (
    "{count} removed heads are stored as zeros, because this format has equally many heads in every attention: the "
    "translations are the same, but the files are no smaller and no faster for it"
)


def with_all_heads(model: Transformer) -> Transformer:
    """Return a model of the same function with `heads` heads in every attention; one that lacks none as it is.

    The heads put back come last; all other weights are shared with the model.
    """
    c = model.config
    if not c.fewer_heads:
        return model
    full_config = replace(c, fewer_heads="")
    padded = model_without_storage(full_config, tensors=c.encoder_layers + c.decoder_layers)
    for name, weight in model.named_parameters():
        owner, _, leaf = name.rpartition(".")
        attention, _, linear = owner.rpartition(".")
        value = weight.detach()
        if linear in ("qkv", "output"):
            value = pad_heads(value, linear, leaf, c.heads_in(attention), c)
        setattr(padded.get_submodule(owner), leaf, nn.Parameter(value))
    return padded.to(model.output_embedding.weight.dtype).train(model.training)


def pad_heads(value: Tensor, linear: str, leaf: str, heads: int, c: ModelConfig) -> Tensor:
    """Return a weight or bias of an attention with zeros behind the rows or columns of its heads."""
    missing = (c.heads - heads) * c.head_width
    # The bias of the output is added once for all heads.
    if not missing or (linear, leaf) == ("output", "bias"):
        return value
    if linear == "output":
        return F.pad(value, (0, missing))
    zeros = value.new_zeros(missing, *value.shape[1:])
    # With queries and keys of zeros a head attends everywhere alike, and its values of zeros add nothing.
    return torch.cat([rows for block in value.chunk(3) for rows in (block, zeros)])


def count_removed_heads(c: ModelConfig) -> int:
    """Return how many heads were removed from the attentions of a model with this config."""
    names = [f"encoder.{n}.self" for n in range(c.encoder_layers)]
    names += [f"decoder.{n}.{kind}" for n in range(c.decoder_layers) for kind in ("self", "cross")]
    return sum(c.heads - c.heads_in(name) for name in names)
