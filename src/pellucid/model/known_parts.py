"""Recognises models that are not built from Pellucid's own layers, for code that copies these."""

import torch.nn.functional as F
from torch import nn

from pellucid.model.attention import CrossAttention, SelfAttention
from pellucid.model.config import ModelConfig
from pellucid.model.dropout import Dropout
from pellucid.model.layers import EPSILON, DecoderLayer, EncoderLayer, FeedForward, Residual, swiglu
from pellucid.model.positions import Learned, Rotary, Sinusoidal, Unordered
from pellucid.model.transformer import Transformer

KNOWN_CLASSES = {  # the class of each module by the last word of its name
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
    "qkv": nn.Linear,
    "output": nn.Linear,
    "ffn": FeedForward,
    "inner": nn.Linear,
    "outer": nn.Linear,
    "self_residual": Residual,
    "cross_residual": Residual,
    "ffn_residual": Residual,
    "dropout": Dropout,
}

# These three tables repeat on purpose the tables that the model is built from: a row that somebody
# adds to the model's tables must stay unknown here, until a converter knows it.
NORMS = {"pre": nn.LayerNorm, "post": nn.LayerNorm, "rms": nn.RMSNorm}
POSITIONS = {"sinusoidal": Sinusoidal, "learned": Learned, "rotary": Rotary, "none": Unordered}
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "swiglu": swiglu}


def unknown_parts(model: Transformer) -> list[str]:
    """List every module of a model that is not of its known class, or is changed inside.

    A subclass is unknown, too: it may compute anything. The modules within an unknown module are
    not listed.
    """
    problems: dict[str, str] = {}
    for name, module in model.named_modules():
        # named_modules() yields a module before its submodules; "" is the model itself, which
        # contains them all.
        if any(not outer or name.startswith(f"{outer}.") for outer in problems):
            continue
        problem = _describe_difference(module, _known_class(name, model.config), model.config)
        if problem:
            problems[name] = f"{name or 'the model'} {problem}"

    return list(problems.values())


def _known_class(name: str, c: ModelConfig) -> type[nn.Module] | None:
    """Return the class that the module `name` has in a model of this config, if it is known."""
    stack, _, last = name.rpartition(".")
    if last in ("source_positions", "target_positions"):
        return POSITIONS.get(c.positions)
    # A post-norm stack ends with the norm of its last residual, and needs no other.
    if last in ("encoder_norm", "decoder_norm") and not c.norm_first:
        return nn.Identity
    if last in ("norm", "encoder_norm", "decoder_norm"):
        return NORMS.get(c.norm)

    # "encoder.3" is looked up as "encoder.#".
    return KNOWN_CLASSES.get(f"{stack}.#" if last.isdecimal() else last)


def _describe_difference(module: nn.Module, known: type[nn.Module] | None, c: ModelConfig) -> str:
    """Say how a module differs from its known class, in words that follow its name; "" if nowhere."""
    if type(module) is not known:
        return f"is {type(module).__name__}"

    # A method replaced on the instance, as in `layer.forward = ...`.
    replaced = [name for name in vars(module) if callable(getattr(type(module), name, None))]
    if replaced:
        return f"has a {replaced[0]} of its own"
    if module._forward_hooks or module._forward_pre_hooks:
        return "is changed by a hook"
    if isinstance(module, FeedForward) and module.activation is not ACTIVATIONS.get(c.activation):
        return f"has the activation {getattr(module.activation, '__name__', type(module.activation).__name__)}"
    if isinstance(module, nn.LayerNorm | nn.RMSNorm) and module.eps != EPSILON:
        return f"has an epsilon of {module.eps}"

    return ""
