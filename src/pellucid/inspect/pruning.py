"""Removes heads for good: a smaller model whose attentions have only the heads that are kept."""

from collections.abc import Iterable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.inspect.importance import Head, list_heads
from pellucid.model import ModelConfig, Transformer
from pellucid.trace.edits import attention_names
from pellucid.weights import model_without_storage


def remove_heads(model: Transformer, heads: Iterable[Head]) -> Transformer:
    """A copy of the model without these heads: the same function as with them silent (`importance.without`).

    Of an attention that loses heads the rows of Wq, Wk, Wv and the columns of Wo that belong to the others are copied;
    all else is copied whole, so the two models share nothing. An attention may lose all its heads: then it adds its
    output bias. Raises ValueError for a head that the model has not.
    """
    out = frozenset(heads)
    config = config_without_heads(model.config, out)
    smaller = model_without_storage(config, tensors=config.encoder_layers + config.decoder_layers)
    for name, weight in model.named_parameters():
        owner, _, leaf = name.rpartition(".")
        attention, _, part = owner.rpartition(".")
        value = weight.detach()
        if any(head.attention == attention for head in out):
            value = slice_remaining(value, part, leaf, remaining_heads(model.config, attention, out), model.config)
        setattr(smaller.get_submodule(owner), leaf, nn.Parameter(value.clone(), requires_grad=weight.requires_grad))
    weight_on = model.output_embedding.weight
    return smaller.to(weight_on.device, weight_on.dtype).train(model.training)


def config_without_heads(config: ModelConfig, heads: Iterable[Head]) -> ModelConfig:
    """The config of the smaller model; ValueError, naming them, for heads that a model of `config` has not.

    >>> sizes = {"d_model": 12, "d_ff": 8, "heads": 3, "encoder_layers": 2, "decoder_layers": 2}
    >>> config = ModelConfig(50, 50, **sizes, fewer_heads="encoder.1.self:1")
    >>> config_without_heads(config, [Head("encoder.1.self", 0), Head("decoder.0.cross", 2)]).fewer_heads
    'encoder.1.self:0 decoder.0.cross:2'
    """
    out = frozenset(heads)
    if strange := sorted(out - frozenset(list_heads(config))):
        raise ValueError(f"the model has no head {', '.join(map(str, strange[:3]))}{', ...' * (len(strange) > 3)}")
    counts = {name: len(remaining_heads(config, name, out)) for name in attention_names(config)}
    return replace(config, fewer_heads=" ".join(f"{name}:{n}" for name, n in counts.items() if n < config.heads))


def remaining_heads(config: ModelConfig, attention: str, out: frozenset[Head]) -> list[int]:
    """The heads of an attention that are not removed, by their numbers."""
    return [number for number in range(config.heads_in(attention)) if Head(attention, number) not in out]


def slice_remaining(
    value: Float[Tensor, "*_"], part: str, leaf: str, heads: list[int], config: ModelConfig
) -> Float[Tensor, "*_"]:
    """Return what of an attention's parameter belongs to the heads that are kept; the output bias belongs to none."""
    if part == "qkv":
        return torch.cat([rows_of_heads(block, heads, config.head_width) for block in value.chunk(3)])
    if (part, leaf) == ("output", "weight"):
        return rows_of_heads(value.T, heads, config.head_width).T.contiguous()
    return value


def rows_of_heads(value: Float[Tensor, "HE *_"], heads: list[int], width: int) -> Float[Tensor, "KE *_"]:
    """The rows of these heads, one head after the other."""
    rows = [torch.arange(head * width, (head + 1) * width, device=value.device) for head in heads]
    return value[torch.cat(rows)] if rows else value[:0]


def count_head_parameters(config: ModelConfig) -> int:
    """Numbers that go with a head: d_k rows of d_model numbers and a bias in each of Wq, Wk, Wv, and d_k columns of Wo.

    4 d_k d_model + 3 d_k; the output bias stays.

    >>> sizes = {"d_model": 512, "d_ff": 2048, "heads": 8, "encoder_layers": 6, "decoder_layers": 6}
    >>> count_head_parameters(ModelConfig(50, 50, **sizes))
    131264
    """
    return config.head_width * (4 * config.d_model + 3)
