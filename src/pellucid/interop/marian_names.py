"""What each weight is called in Hugging Face's Marian and Pegasus, and how its numbers are laid out there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pellucid.model import ModelConfig

BIAS = "final_logits_bias"


@dataclass(frozen=True)
class ParameterNames:
    """One parameter of ours under its names there.

    It is cut in equal parts, one below the other, for as many `theirs`. `residual` is the dimension along which the
    numbers of the residual stream lie, `vocabulary` says whose pieces number its rows, and `copies` are further names
    of the whole, which a file may leave out.
    """

    ours: str
    theirs: tuple[str, ...]
    residual: Literal[0, 1] | None = None
    vocabulary: Literal["source", "target"] | None = None
    copies: tuple[str, ...] = ()


def parameter_names(config: ModelConfig) -> list[ParameterNames]:
    """Every parameter of a model of this config. Tables of sines and cosines are computed, and are not among them."""
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
        *(
            ParameterNames(f"{ours}.table", (theirs,), 1)
            for ours, theirs in POSITIONS.items()
            if config.positions == "learned"
        ),
    ]


SOURCE, TARGET, OUTPUT = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"
SHARED = "model.shared.weight"
ATTENTIONS = [("self", "self_attn"), ("cross", "encoder_attn")]
FINAL = {"encoder": "model.encoder.layer_norm", "decoder": "model.decoder.layer_norm"}
POSITIONS = {
    "source_positions": "model.encoder.embed_positions.weight",
    "target_positions": "model.decoder.embed_positions.weight",
}


def embedding_names(tie: str) -> Iterator[ParameterNames]:
    """The three matrices of pieces, or as many as are not shared."""
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
    """One layer: its attentions, its feed-forward, and the norm of each."""
    ours, theirs = f"{side}.{number}", f"model.{side}.layers.{number}"
    for mine, other in attentions:
        read = [f"{theirs}.{other}.{part}_proj" for part in "qkv"]
        yield ParameterNames(f"{ours}.{mine}.qkv.weight", tuple(f"{name}.weight" for name in read), 1)
        yield ParameterNames(f"{ours}.{mine}.qkv.bias", tuple(f"{name}.bias" for name in read))
        yield from affine_names(f"{ours}.{mine}.output", f"{theirs}.{other}.out_proj")
        yield from affine_names(f"{ours}.{mine}_residual.norm", f"{theirs}.{other}_layer_norm")
    yield ParameterNames(f"{ours}.ffn.inner.weight", (f"{theirs}.fc1.weight",), 1)
    yield ParameterNames(f"{ours}.ffn.inner.bias", (f"{theirs}.fc1.bias",))
    yield from affine_names(f"{ours}.ffn.outer", f"{theirs}.fc2")
    yield from affine_names(f"{ours}.ffn_residual.norm", f"{theirs}.final_layer_norm")


def affine_names(ours: str, theirs: str) -> Iterator[ParameterNames]:
    """A weight and a bias whose results are written into the residual stream."""
    yield ParameterNames(f"{ours}.weight", (f"{theirs}.weight",), 0)
    yield ParameterNames(f"{ours}.bias", (f"{theirs}.bias",), 0)


def to_ours(row: ParameterNames, parts: Sequence[Tensor]) -> Tensor:
    """The parts of a parameter as they are stored there, as one of ours. Its pieces keep their order."""
    whole = parts[0][0] if row.theirs == (BIAS,) else torch.cat(list(parts))
    return (
        whole if row.residual is None else whole.index_select(row.residual, residual_order(whole.shape[row.residual]))
    )


def to_theirs(row: ParameterNames, whole: Tensor) -> list[Tensor]:
    """The inverse of `to_ours`."""
    if row.residual is not None:
        whole = whole.index_select(row.residual, residual_order(whole.shape[row.residual]).argsort())
    return [whole[None]] if row.theirs == (BIAS,) else [part.contiguous() for part in whole.chunk(len(row.theirs))]


def residual_order(d_model: int) -> Tensor:
    """Where each number of our residual stream stands in theirs.

    A position is [all sines | all cosines] there, and sine, cosine, sine, cosine here; nothing else tells the numbers
    of a residual stream apart, so they may be put in any order, the same everywhere.

    >>> residual_order(6).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return torch.arange(d_model).view(2, -1).T.flatten()
