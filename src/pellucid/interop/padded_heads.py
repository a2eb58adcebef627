"""A pruned model with its removed heads back as zeros, for formats in which every attention has as many heads."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.model import ModelConfig, Transformer
from pellucid.weights import model_without_storage

NOTE = (
    "{count} removed heads stand there as zeros, because that format gives every attention as many heads: the "
    "translations are the same, the files no smaller and no faster for it"
)


def with_all_heads(model: Transformer) -> Transformer:
    """The same function with `heads` heads in every attention; a model that lacks none is returned as it is.

    The queries, keys and values of the heads put back are zeros, and so is what they add. The others come first, and
    all other weights are shared.
    """
    c = model.config
    if not c.fewer_heads:
        return model
    whole = replace(c, fewer_heads="")
    found = model_without_storage(whole, tensors=c.encoder_layers + c.decoder_layers)
    for name, weight in model.named_parameters():
        owner, _, leaf = name.rpartition(".")
        attention, _, part = owner.rpartition(".")
        value = weight.detach()
        if part in ("qkv", "output"):
            value = pad_heads(value, part, leaf, c.heads_in(attention), c)
        setattr(found.get_submodule(owner), leaf, nn.Parameter(value))
    return found.to(model.output_embedding.weight.dtype).train(model.training)


def pad_heads(value: Tensor, part: str, leaf: str, heads: int, c: ModelConfig) -> Tensor:
    """A weight or bias of an attention, with zeros behind what its heads have of it."""
    missing = (c.heads - heads) * c.head_width
    if not missing or (part, leaf) == ("output", "bias"):
        return value
    if part == "output":
        return F.pad(value, (0, missing))
    zeros = value.new_zeros(missing, *value.shape[1:])
    return torch.cat([part for block in value.chunk(3) for part in (block, zeros)])


def count_removed_heads(c: ModelConfig) -> int:
    """How many heads a model of this config has fewer than `heads` in every attention."""
    names = [f"encoder.{n}.self" for n in range(c.encoder_layers)]
    names += [f"decoder.{n}.{part}" for n in range(c.decoder_layers) for part in ("self", "cross")]
    return sum(c.heads - c.heads_in(name) for name in names)
