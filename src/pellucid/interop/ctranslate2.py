"""Converts a model for CTranslate2, in float32, bfloat16 or int8."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.data.tokenizer import BOS, EOS, UNK, Tokenizer
from pellucid.interop.ctranslate2_library import PRECISIONS, import_ctranslate2
from pellucid.model import ModelConfig, Transformer
from pellucid.model.attention import Attention
from pellucid.model.known_parts import unknown_parts
from pellucid.model.layers import EPSILON, DecoderLayer, EncoderLayer, FeedForward, Residual
from pellucid.store.atomic import (
    atomic_directory,
    join_problems,
)
from pellucid.store.weights import refuse_non_finite

# Largest byte of a weight, small enough that every processor computes the same sums. A processor
# without VNNI adds products of bytes in pairs, in 16 bits: what does not fit is cut off, in
# silence. CTranslate2 hands it vectors as 0 to 255, and 2 x 255 x 64 is the most that fits.
LARGEST_WEIGHT_BYTE = 63
# Bytes of the largest tensor: the files of CTranslate2 store a tensor's size in 32 bits.
_LARGEST_TENSOR = 2**32 - 1

README = "README.md"  # name of the file that says how to use an export

_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swiglu": "SWISH"}


def convert_to_ctranslate2(
    model: Transformer,
    tokenizer: Tokenizer,
    out: str | Path,
    precision: str,
    *,
    vmap: Path | None = None,
    also: Callable[[Path], None] | None = None,
    **manifest: Any,
) -> None:
    """Write the model as a directory for CTranslate2, whole or not at all, in place of one that is there.

    `vmap` is a lexical shortlist to put beside it, `also` may write more files into the folder it
    is given, `manifest` has further entries for the directory's manifest. Raises ValueError before
    anything is written, naming every reason at once, for a model that CTranslate2 cannot hold, and
    where CTranslate2 is not installed.
    """
    library = import_ctranslate2()
    from ctranslate2.specs.model_spec import visit_spec

    _refuse_inexpressible(model, tokenizer, precision, vmap)
    spec = _make_specification(model, library.specs)

    targets = tokenizer.target_names
    spec.register_source_vocabulary([*tokenizer.source_names])
    spec.register_target_vocabulary([*targets])
    spec.config.unk_token = targets[UNK]
    spec.config.bos_token = spec.config.decoder_start_token = targets[BOS]
    spec.config.eos_token = targets[EOS]
    spec.config.add_source_bos = False
    # Where sources end with EOS, CTranslate2 adds it, so that a program that hands over the pieces
    # of a text is right.
    spec.config.add_source_eos = tokenizer.config.source_end

    if vmap is not None:
        spec.register_vocabulary_mapping(str(vmap))

    # Its own int8 goes up to 127, which overflows on some processors: see LARGEST_WEIGHT_BYTE.
    if precision == "int8":
        visit_spec(spec, _fill_int8)

    spec.validate()
    spec.optimize(quantization=None if precision == "int8" else precision)

    manifest |= {"precision": precision, "ctranslate2": library.__version__}
    with atomic_directory(out, **manifest) as folder:
        spec.save(str(folder))
        if also is not None:
            also(folder)


def _refuse_inexpressible(
    model: Transformer, tokenizer: Tokenizer, precision: str, vmap: Path | None
) -> None:
    """Raise ValueError with every reason why CTranslate2 cannot hold this model."""
    problems = []
    if precision not in PRECISIONS:
        problems.append(f"precision is {precision!r}, it must be one of {', '.join(PRECISIONS)}")
    problems += [f"{part}, which it does not know" for part in unknown_parts(model)]

    dtypes = {weight.dtype for weight in model.parameters()} - {torch.float32}
    types = sorted(str(dtype).removeprefix("torch.") for dtype in dtypes)
    if types:
        problems.append(
            f"the model was loaded as {' and '.join(types)}; load it in float32, precision chooses "
            "the rest"
        )

    too_large = []
    for name, weight in model.named_parameters():
        if weight.numel() * 4 > _LARGEST_TENSOR:
            too_large.append(name)
    if too_large:
        problems.append(
            f"a matrix of 4 GiB or more does not fit its files: {join_problems(too_large)}"
        )

    # CTranslate2 takes pieces as text: two rows with one text could not be told apart.
    for side in ("source", "target"):
        size = getattr(tokenizer, f"{side}_vocabulary")
        pieces = getattr(tokenizer, f"{side}_pieces")(range(size))
        rows = getattr(model.config, f"{side}_vocabulary")
        if len(pieces) != rows:
            problems.append(
                f"the model knows {rows:,} {side} pieces, the tokenizer {len(pieces):,}"
            )
        if repeated := sorted(repr(piece) for piece, count in Counter(pieces).items() if count > 1):
            problems.append(
                f"its vocabulary tells pieces apart by their text, and {side} pieces repeat: "
                f"{join_problems(repeated)}"
            )

    if vmap is not None and not vmap.is_file():
        problems.append(f"there is no file {vmap} with a shortlist")

    if problems:
        raise ValueError(f"CTranslate2 cannot hold this model: {'; '.join(problems)}")
    refuse_non_finite(dict(model.named_parameters()), "the model to be converted")


def _make_specification(model: Transformer, specs: ModuleType) -> Any:
    """Make CTranslate2's specification of a Transformer, with the weights of this model."""
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

    encoder.embeddings[0].weight = _copy_weight(model.source_embedding.weight)
    decoder.embeddings.weight = _copy_weight(model.target_embedding.weight)
    decoder.projection.weight = _copy_weight(model.output_embedding.weight)
    if model.output_bias is not None:
        decoder.projection.bias = _copy_weight(model.output_bias)

    if c.positions != "rotary":  # rotary positions are computed, from `rotary_dim`
        encoder.position_encodings.encodings = _position_table(model.source_positions, c)
        decoder.position_encodings.encodings = _position_table(model.target_positions, c)

    for into, layer in zip(encoder.layer, model.encoder, strict=True):
        assert isinstance(layer, EncoderLayer)
        _fill_attention(into.self_attention, layer.self, layer.self_residual, [3 * c.d_model])
        _fill_feed_forward(into.ffn, layer.ffn, layer.ffn_residual)

    for into, layer in zip(decoder.layer, model.decoder, strict=True):
        assert isinstance(layer, DecoderLayer)
        _fill_attention(into.self_attention, layer.self, layer.self_residual, [3 * c.d_model])
        # Its keys and values come from the memory, so the queries have a matrix of their own.
        sizes = [c.d_model, 2 * c.d_model]
        _fill_attention(into.attention, layer.cross, layer.cross_residual, sizes)
        _fill_feed_forward(into.ffn, layer.ffn, layer.ffn_residual)

    # With norms after each sublayer the last layer ends in one, and there is none after the stack.
    if c.norm_first:
        _fill_norm(encoder.layer_norm, model.encoder_norm)
        _fill_norm(decoder.layer_norm, model.decoder_norm)
    spec.config.layer_norm_epsilon = EPSILON
    return spec


def _fill_attention(into: Any, attention: Attention, residual: Residual, sizes: list[int]) -> None:
    """Copy an attention whose queries, keys and values lie in matrices with these numbers of rows."""
    weights = [*attention.qkv.weight.split(sizes), attention.output.weight]
    biases = [*attention.qkv.bias.split(sizes), attention.output.bias]
    for linear, weight, bias in zip(into.linear, weights, biases, strict=True):
        _fill_linear(linear, weight, bias)
    _fill_norm(into.layer_norm, residual.norm)


def _fill_feed_forward(into: Any, ffn: FeedForward, residual: Residual) -> None:
    """Copy a feed-forward network; of a gated one, `linear_0` is the half that goes through the activation."""
    width = ffn.outer.in_features
    weights, biases = ffn.inner.weight.split(width), ffn.inner.bias.split(width)
    _fill_linear(into.linear_0, weights[0], biases[0])
    if len(weights) == 2:
        _fill_linear(into.linear_0_noact, weights[1], biases[1])
    _fill_linear(into.linear_1, ffn.outer.weight, ffn.outer.bias)
    _fill_norm(into.layer_norm, residual.norm)


def _position_table(positions: nn.Module, c: ModelConfig) -> Tensor:
    """Return the table that is added to the embeddings, or zeros for a model without positions."""
    table = getattr(positions, "table", None)
    return _copy_weight(table) if table is not None else torch.zeros(c.max_positions, c.d_model)


def _fill_linear(into: Any, weight: Tensor, bias: Tensor) -> None:
    """Copy the matrix and the bias of x W^T + b."""
    into.weight, into.bias = _copy_weight(weight), _copy_weight(bias)


def _fill_int8(into: Any, name: str, value: Any) -> None:
    """Replace a matrix that CTranslate2 multiplies or looks up by bytes and their scales."""
    # Those have a scale beside them in the specification.
    if hasattr(into, f"{name.rpartition('/')[2]}_scale") and isinstance(value, Tensor):
        quantized, scale = quantize_rows(value)
        into.weight, into.weight_scale = quantized.to(torch.int8), scale[:, 0].contiguous()


def quantize_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row scaled so that its farthest from 0 is `LARGEST_WEIGHT_BYTE` and rounded, and the scales."""
    # The scale of smaller rows, or of zeros, would be infinite.
    smallest_maximum = LARGEST_WEIGHT_BYTE / 1e38
    scale = LARGEST_WEIGHT_BYTE / rows.abs().amax(dim=-1, keepdim=True).clamp(min=smallest_maximum)
    return (rows * scale).round(), scale


def _fill_norm(into: Any, layer: nn.Module) -> None:
    """Copy a norm: gamma is its weight, beta its bias, which an RMSNorm does not have."""
    into.gamma = _copy_weight(layer.get_parameter("weight"))
    if isinstance(layer, nn.LayerNorm):
        into.beta = _copy_weight(layer.bias)


def _copy_weight(weight: Tensor) -> Tensor:
    """Return a copy of a weight, on the CPU and contiguous."""
    return weight.detach().cpu().contiguous().clone()


_EXPORT_README = """\
# {name} for CTranslate2

Exported by Pellucid in {precision}, with the SentencePiece model (SHA-256 of the model's manifest: {sha256}).
This program, run in this folder, translates standard input line by line:

```python
import sys

import ctranslate2
import sentencepiece

source = sentencepiece.SentencePieceProcessor(model_file="{source_model}")
target = sentencepiece.SentencePieceProcessor(model_file="{target_model}")
translator = ctranslate2.Translator(".")
lines = sys.stdin.read(){lower}.split("\\n")[:-1]
pieces = source.encode(lines, out_type=str)  # without </s>: CTranslate2 adds it
{beginning}results = translator.translate_batch(
    pieces, beam_size=4, max_batch_size=32, max_input_length=0, max_decoding_length={longest}
)
for result in results:
    print(target.decode(result.hypotheses[0]).replace("\u2581", " ").strip())
```

**The end of a source.** The model was trained on sources that end with the piece `</s>`, and translates worse without
it. CTranslate2 adds it, because config.json says `"add_source_eos": true`: hand over the pieces of the text alone, to
`translate_batch` and to `score_batch`. (Older exports say `false`: with them, add it to the pieces.)
"""

_BEGINNING_README = """
**The language to write.** Each source begins with the piece of the language to write and `<s>`, as in the program.
Languages: {languages}.
"""

_SHORTLIST_README = """
**The shortlist.** With `use_vmap=True` CTranslate2 considers only the pieces of vmap.txt that may translate a piece of
the sources in a batch. So a translation depends on what else is in its batch, unless `max_batch_size` is 1; and scores
are too high, because the probabilities of these pieces add up to 1. `pellucid translate {name} --exported` uses the
shortlist of each sentence alone, and gives the scores of the model.
"""


def write_usage(
    folder: Path,
    tokenizer: Tokenizer,
    longest: int,
    *,
    name: str,
    sha256: str,
    precision: str,
    shortlist: bool,
) -> None:
    """Write what somebody who has only this folder needs: the SentencePiece models, and a README with a program.

    `longest` is the number of pieces of the longest text the
    model writes, and `name` the model's name.
    """
    tokenizer.save(folder)
    models = [file for file in tokenizer.files(tokenizer.config) if file.endswith(".model")]
    languages = list(tokenizer.languages)
    beginning = ""
    if languages:
        marks = f'"<to:{languages[0]}>", "<s>"'
        beginning = f"pieces = [[{marks}, *words] if words else [] for words in pieces]\n"

    text = _EXPORT_README.format(
        name=name,
        sha256=sha256,
        precision=precision,
        source_model=models[0],
        target_model=models[-1],
        lower=".lower()" if tokenizer.lowercase else "",
        beginning=beginning,
        longest=min(longest, 256),
    )
    if languages:
        marks = ", ".join(f"`<to:{language}>`" for language in languages)
        text += _BEGINNING_README.format(languages=marks)

    if shortlist:
        text += _SHORTLIST_README.format(name=name)
    (folder / README).write_text(text, encoding="utf-8")
