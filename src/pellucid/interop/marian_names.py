"""Names and layout of each weight in Hugging Face's Marian and Pegasus models."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pellucid.model import ModelConfig

BIAS = "final_logits_bias"


@dataclass(frozen=True)
class ParameterNames:
    """Names of one of our parameters in Marian and Pegasus.

    It is cut into equal parts, one below the other, for as many names as `theirs` has. `residual` is the dimension
    along which the numbers of the residual stream lie, `vocabulary` says whose pieces number its rows, and `copies` are
    further names of the whole, which a file may leave out.
    """

    ours: str
    theirs: tuple[str, ...]
    residual: Literal[0, 1] | None = None
    vocabulary: Literal["source", "target"] | None = None
    copies: tuple[str, ...] = ()


def parameter_names(config: ModelConfig) -> list[ParameterNames]:
    """Return the names of every parameter of a model with this config."""
    return [
        *embedding_names(config.tie),
        *([ParameterNames("output_bias", (BIAS,), vocabulary="target")] if config.output_bias else []),
        *(row for number in range(config.encoder_layers) for row in layer_names("encoder", number, ATTENTIONS[:1])),
        *(row for number in range(config.decoder_layers) for row in layer_names("decoder", number, ATTENTIONS)),
        *(
            row
            for side in ("encoder", "decoder")
            if config.norm == "pre"
            for row in affine_names(f"{side}_norm", FINAL[side])
        ),
        # Tables of sines and cosines are computed, and no parameters.
        *(
            ParameterNames(f"{ours}.table", (theirs,), 1)
            for ours, theirs in POSITIONS.items()
            if config.positions == "learned"
        ),
    ]


# Names in transformers.
SOURCE, TARGET, OUTPUT = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"
SHARED = "model.shared.weight"
ATTENTIONS = [("self", "self_attn"), ("cross", "encoder_attn")]
FINAL = {"encoder": "model.encoder.layer_norm", "decoder": "model.decoder.layer_norm"}
POSITIONS = {
    "source_positions": "model.encoder.embed_positions.weight",
    "target_positions": "model.decoder.embed_positions.weight",
}


def embedding_names(tie: str) -> Iterator[ParameterNames]:
    """Yield the embeddings and the output matrix, or as many of the three as are not shared."""
    # Of a shared matrix the file has one name or all of them: hence the copies.
    if tie == "all":
        yield ParameterNames("source_embedding.weight", (SHARED,), 1, "source", copies=(SOURCE, TARGET, OUTPUT))
    else:
        yield ParameterNames("source_embedding.weight", (SOURCE,), 1, "source")
        yield ParameterNames(
            "target_embedding.weight", (TARGET,), 1, "target", copies=(OUTPUT,) if tie == "decoder" else ()
        )
    if tie == "none":
        yield ParameterNames("output_embedding.weight", (OUTPUT,), 1, "target")


def layer_names(side: str, number: int, attentions: Sequence[tuple[str, str]]) -> Iterator[ParameterNames]:
    """Yield the parameters of one layer: its attentions, its feed-forward network, and the norm of each."""
    ours, theirs = f"{side}.{number}", f"model.{side}.layers.{number}"
    for our_attention, their_attention in attentions:
        # Queries, keys and values are one matrix in our models and three in theirs.
        projections = [f"{theirs}.{their_attention}.{letter}_proj" for letter in "qkv"]
        yield ParameterNames(f"{ours}.{our_attention}.qkv.weight", tuple(f"{name}.weight" for name in projections), 1)
        yield ParameterNames(f"{ours}.{our_attention}.qkv.bias", tuple(f"{name}.bias" for name in projections))
        yield from affine_names(f"{ours}.{our_attention}.output", f"{theirs}.{their_attention}.out_proj")
        yield from affine_names(f"{ours}.{our_attention}_residual.norm", f"{theirs}.{their_attention}_layer_norm")
    yield ParameterNames(f"{ours}.ffn.inner.weight", (f"{theirs}.fc1.weight",), 1)
    yield ParameterNames(f"{ours}.ffn.inner.bias", (f"{theirs}.fc1.bias",))
    yield from affine_names(f"{ours}.ffn.outer", f"{theirs}.fc2")
    yield from affine_names(f"{ours}.ffn_residual.norm", f"{theirs}.final_layer_norm")


def affine_names(ours: str, theirs: str) -> Iterator[ParameterNames]:
    """Yield a weight and a bias whose results are written into the residual stream."""
    yield ParameterNames(f"{ours}.weight", (f"{theirs}.weight",), 0)
    yield ParameterNames(f"{ours}.bias", (f"{theirs}.bias",), 0)


def to_ours(row: ParameterNames, parts: Sequence[Tensor]) -> Tensor:
    """Join the stored parts of a parameter into one of ours; rows of a vocabulary keep their order."""
    # The bias is stored as one row of a matrix.
    whole = parts[0][0] if row.theirs == (BIAS,) else torch.cat(list(parts))
    return (
        whole if row.residual is None else whole.index_select(row.residual, residual_order(whole.shape[row.residual]))
    )


def to_theirs(row: ParameterNames, whole: Tensor) -> list[Tensor]:
    """Split one of our parameters into the parts that are stored; the inverse of `to_ours`."""
    if row.residual is not None:
        whole = whole.index_select(row.residual, residual_order(whole.shape[row.residual]).argsort())
    return [whole[None]] if row.theirs == (BIAS,) else [part.contiguous() for part in whole.chunk(len(row.theirs))]


def residual_order(d_model: int) -> Tensor:
    """Return the index in their residual stream of each number of ours.

    >>> residual_order(6).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    # A position is [all sines | all cosines] there, and sine, cosine, sine, cosine here. Nothing else tells the numbers
    # of a residual stream apart, so they may be put in any order that is the same everywhere.
    return torch.arange(d_model).view(2, -1).T.flatten()
