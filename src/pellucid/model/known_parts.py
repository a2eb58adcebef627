"""Which parts a model consists of: what was written for the known ones must not be used for a model that has others."""

import torch.nn.functional as F
from torch import nn

from pellucid.model.attention import CrossAttention, Linear, SelfAttention
from pellucid.model.dropout import Dropout
from pellucid.model.layers import EPSILON, DecoderLayer, EncoderLayer, FeedForward, Residual, swiglu
from pellucid.model.positions import Learned, Rotary, Sinusoidal, Unordered
from pellucid.model.transformer import Transformer
from pellucid.sizes import ModelConfig

KNOWN_CLASSES = {
    "": Transformer,
    "source_embedding": nn.Embedding,
    "target_embedding": nn.Embedding,
    "output_embedding": nn.Embedding,
    "encoder": nn.ModuleList,
    "decoder": nn.ModuleList,
    "encoder.#": EncoderLayer,
    "decoder.#": DecoderLayer,
    "self": SelfAttention,
    "cross": CrossAttention,
    "qkv": Linear,
    "output": Linear,
    "ffn": FeedForward,
    "inner": nn.Linear,
    "outer": nn.Linear,
    "self_residual": Residual,
    "cross_residual": Residual,
    "ffn_residual": Residual,
    "dropout": Dropout,
}
"""The class of each part by the last word of its name. The tables below are not those that the model is built from:
what is added there is unknown here."""

NORMS = {"pre": nn.LayerNorm, "post": nn.LayerNorm, "rms": nn.RMSNorm}
POSITIONS = {"sinusoidal": Sinusoidal, "learned": Learned, "rotary": Rotary, "none": Unordered}
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "swiglu": swiglu}


def unknown_parts(model: Transformer) -> list[str]:
    """Name every part of a model that is not exactly of the known class, or of which something was replaced.

    A subclass is unknown, too: it may compute anything. Of parts within an unknown one, nothing is said.
    """
    found: dict[str, str] = {}
    for name, part in model.named_modules():
        if any(not outer or name.startswith(f"{outer}.") for outer in found):
            continue
        problem = describe_difference(part, known_class(name, model.config), model.config)
        if problem:
            found[name] = f"{name or 'the model'} {problem}"
    return list(found.values())


def known_class(name: str, c: ModelConfig) -> type[nn.Module] | None:
    """The class that a part of this name has in a model of this config; None for a name that no part has."""
    stack, _, last = name.rpartition(".")
    if last in ("source_positions", "target_positions"):
        return POSITIONS.get(c.positions)
    if last in ("encoder_norm", "decoder_norm") and not c.norm_first:
        return nn.Identity
    if last in ("norm", "encoder_norm", "decoder_norm"):
        return NORMS.get(c.norm)
    return KNOWN_CLASSES.get(f"{stack}.#" if last.isdecimal() else last)


def describe_difference(part: nn.Module, known: type[nn.Module] | None, c: ModelConfig) -> str:
    """What makes a part another one than this class says, in words after its name; nothing if it is the same."""
    if type(part) is not known:
        return f"is {type(part).__name__}"
    replaced = [name for name in vars(part) if callable(getattr(type(part), name, None))]
    if replaced:
        return f"has a {replaced[0]} of its own"
    if part._forward_hooks or part._forward_pre_hooks:
        return "is changed by a hook"
    if isinstance(part, FeedForward) and part.activation is not ACTIVATIONS.get(c.activation):
        return f"has the activation {getattr(part.activation, '__name__', type(part.activation).__name__)}"
    if isinstance(part, nn.LayerNorm | nn.RMSNorm) and part.eps != EPSILON:
        return f"has an epsilon of {part.eps}"
    return ""
