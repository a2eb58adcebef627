"""A model as a directory that CTranslate2 loads, in float32, bfloat16 or int8; what it cannot express is refused."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.atomic import atomic_directory, join_problems
from pellucid.data.tokenizer import BOS, EOS, UNK, Tokenizer
from pellucid.interop.ctranslate2_library import PRECISIONS, import_ctranslate2
from pellucid.interop.int8 import LARGEST_WEIGHT_BYTE, quantize_rows
from pellucid.interop.padded_heads import with_all_heads
from pellucid.model import ModelConfig, Transformer
from pellucid.model.attention import Attention
from pellucid.model.known_parts import unknown_parts
from pellucid.model.layers import EPSILON, DecoderLayer, EncoderLayer, FeedForward, Residual
from pellucid.weights import refuse_non_finite

_LARGEST_TENSOR = 2**32 - 1
"""Bytes: its files give each tensor a size of 32 bits."""

_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swiglu": "SWISH"}


def convert_to_ctranslate2(
    model: Transformer,
    tokenizer: Tokenizer,
    out: str | Path,
    precision: str,
    *,
    vmap: Path | None = None,
    **manifest: Any,
) -> None:
    """Write the model as a directory for CTranslate2, whole or not at all; one that is there is replaced.

    Heads that were removed from some attentions are zeros there, for it has as many heads in every layer.
    `vmap` is a lexical shortlist to put beside it, `manifest` what shall be known of it. Raises ValueError, naming
    every reason at once and before anything is written, for what CTranslate2 cannot hold or where it is not installed.
    """
    library = import_ctranslate2()
    from ctranslate2.specs.model_spec import visit_spec

    refuse_inexpressible(model, tokenizer, precision, vmap)
    spec = make_specification(with_all_heads(model), library.specs)
    targets = tokenizer.target_names
    spec.register_source_vocabulary([*tokenizer.source_names])
    spec.register_target_vocabulary([*targets])
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (targets[i] for i in (UNK, BOS, EOS))
    spec.config.decoder_start_token = targets[BOS]
    spec.config.add_source_bos = spec.config.add_source_eos = False
    if vmap is not None:
        spec.register_vocabulary_mapping(str(vmap))
    if precision == "int8":
        visit_spec(spec, fill_int8)
    spec.validate()
    spec.optimize(quantization=None if precision == "int8" else precision)
    with atomic_directory(out, precision=precision, ctranslate2=library.__version__, **manifest) as folder:
        spec.save(str(folder))


def refuse_inexpressible(model: Transformer, tokenizer: Tokenizer, precision: str, vmap: Path | None) -> None:
    """ValueError with every reason why CTranslate2 cannot hold this model."""
    problems = []
    if precision not in PRECISIONS:
        problems.append(f"precision is {precision!r}, it must be one of {', '.join(PRECISIONS)}")
    problems += [f"{part}, which it does not know" for part in unknown_parts(model)]
    kinds = sorted({str(each.dtype).removeprefix("torch.") for each in model.parameters()} - {"float32"})
    if kinds:
        problems.append(
            f"the model was loaded as {' and '.join(kinds)}; load it in float32, precision chooses the rest"
        )
    vast = [name for name, each in model.named_parameters() if each.numel() * 4 > _LARGEST_TENSOR]
    if vast:
        problems.append(f"a matrix of 4 GiB or more does not fit its files: {join_problems(vast)}")
    for side in ("source", "target"):
        pieces = getattr(tokenizer, f"{side}_pieces")(range(getattr(tokenizer, f"{side}_vocabulary")))
        rows = getattr(model.config, f"{side}_vocabulary")
        if len(pieces) != rows:
            problems.append(f"the model knows {rows:,} {side} pieces, the tokenizer {len(pieces):,}")
        if len(set(pieces)) < len(pieces):
            problems.append(
                f"its vocabulary tells pieces apart by their text, and {side} pieces repeat: "
                f"{pieces_with_one_text(pieces)}"
            )
    if vmap is not None and not vmap.is_file():
        problems.append(f"there is no file {vmap} with a shortlist")
    if problems:
        raise ValueError(f"CTranslate2 cannot hold this model: {'; '.join(problems)}")
    refuse_non_finite(dict(model.named_parameters()), "the model to be converted")


def pieces_with_one_text(pieces: Sequence[str]) -> str:
    """The texts that more than one piece has."""
    seen: set[str] = set()
    return join_problems(sorted({repr(piece) for piece in pieces if piece in seen or seen.add(piece)}))


def make_specification(model: Transformer, specs: ModuleType) -> Any:
    """CTranslate2's description of a Transformer, filled with the weights of this one."""
    c = model.config
    layers = {
        "pre_norm": c.norm_first,
        "rms_norm": c.norm == "rms",
        "activation": specs.Activation[_ACTIVATIONS[c.activation]],
        "ffn_glu": c.activation == "swiglu",
        "rotary_dim": c.head_width if c.positions == "rotary" else None,
    }
    encoder = specs.TransformerEncoderSpec(c.encoder_layers, c.heads, **layers)
    decoder = specs.TransformerDecoderSpec(c.decoder_layers, c.heads, **layers)
    spec = specs.TransformerSpec(encoder, decoder)

    encoder.embeddings[0].weight = copy_weight(model.source_embedding.weight)
    decoder.embeddings.weight = copy_weight(model.target_embedding.weight)
    decoder.projection.weight = copy_weight(model.output_embedding.weight)
    if model.output_bias is not None:
        decoder.projection.bias = copy_weight(model.output_bias)
    if c.positions != "rotary":
        encoder.position_encodings.encodings = position_table(model.source_positions, c)
        decoder.position_encodings.encodings = position_table(model.target_positions, c)
    for into, layer in zip(encoder.layer, model.encoder, strict=True):
        assert isinstance(layer, EncoderLayer)
        fill_self_attention(into.self_attention, layer.self, layer.self_residual)
        fill_feed_forward(into.ffn, layer.ffn, layer.ffn_residual)
    for into, layer in zip(decoder.layer, model.decoder, strict=True):
        assert isinstance(layer, DecoderLayer)
        fill_self_attention(into.self_attention, layer.self, layer.self_residual)
        fill_cross_attention(into.attention, layer.cross, layer.cross_residual)
        fill_feed_forward(into.ffn, layer.ffn, layer.ffn_residual)
    if c.norm_first:
        fill_norm(encoder.layer_norm, model.encoder_norm)
        fill_norm(decoder.layer_norm, model.decoder_norm)
    spec.config.layer_norm_epsilon = EPSILON
    return spec


def fill_self_attention(into: Any, attention: Attention, residual: Residual) -> None:
    """Queries, keys and values in one matrix, as here."""
    fill_linear(into.linear[0], attention.qkv.weight, attention.qkv.bias)
    fill_linear(into.linear[1], attention.output.weight, attention.output.bias)
    fill_norm(into.layer_norm, residual.norm)


def fill_cross_attention(into: Any, attention: Attention, residual: Residual) -> None:
    """Queries in one matrix, keys and values in another."""
    d_model = attention.output.out_features
    parts = [d_model, 2 * d_model]
    weights, biases = attention.qkv.weight.split(parts), attention.qkv.bias.split(parts)
    for place, weight, bias in zip(into.linear, weights, biases, strict=False):
        fill_linear(place, weight, bias)
    fill_linear(into.linear[2], attention.output.weight, attention.output.bias)
    fill_norm(into.layer_norm, residual.norm)


def fill_feed_forward(into: Any, ffn: FeedForward, residual: Residual) -> None:
    """Of a gated one, the half that goes through the activation is `linear_0`."""
    width = ffn.outer.in_features
    weights, biases = ffn.inner.weight.split(width), ffn.inner.bias.split(width)
    fill_linear(into.linear_0, weights[0], biases[0])
    if len(weights) == 2:
        fill_linear(into.linear_0_noact, weights[1], biases[1])
    fill_linear(into.linear_1, ffn.outer.weight, ffn.outer.bias)
    fill_norm(into.layer_norm, residual.norm)


def position_table(positions: nn.Module, c: ModelConfig) -> Tensor:
    """What is added to the embedding at each position: the table, or zeros for a model without positions."""
    table = getattr(positions, "table", None)
    return copy_weight(table) if table is not None else torch.zeros(c.max_positions, c.d_model)


def fill_linear(into: Any, weight: Tensor, bias: Tensor) -> None:
    """x W^T + b, held as here."""
    into.weight, into.bias = copy_weight(weight), copy_weight(bias)


def fill_int8(into: Any, name: str, value: Any) -> None:
    """Put bytes and their scales in the place of a matrix, if it is one that CTranslate2 multiplies or looks up."""
    if hasattr(into, f"{name.rpartition('/')[2]}_scale") and isinstance(value, Tensor):
        numbers, scale = quantize_rows(value, LARGEST_WEIGHT_BYTE)
        into.weight, into.weight_scale = numbers.to(torch.int8), scale[:, 0].contiguous()


def fill_norm(into: Any, layer: nn.Module) -> None:
    """A norm: gamma is its weight, beta its bias, which an RMSNorm has not."""
    into.gamma = copy_weight(layer.get_parameter("weight"))
    if isinstance(layer, nn.LayerNorm):
        into.beta = copy_weight(layer.bias)


def copy_weight(weight: Tensor) -> Tensor:
    """A weight as CTranslate2's specification takes it: a copy."""
    return weight.detach().cpu().contiguous().clone()
