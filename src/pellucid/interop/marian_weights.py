"""Weights of Hugging Face's Marian and Pegasus models: their names, their layout, and the safetensors file."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from pellucid.data.tokenizer import BOS, PAD
from pellucid.interop.marian_files import Vocabulary
from pellucid.model import ModelConfig, Transformer
from pellucid.model.positions import sinusoids
from pellucid.store.atomic import join_problems
from pellucid.store.weights import model_without_storage, refuse_non_finite, set_weights

WEIGHTS = "model.safetensors"
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}

# Bias of a BOS that is no piece of theirs: its exponential is 0, so it changes no probability.
IMPOSSIBLE_LOGIT = -10_000.0


@dataclass(frozen=True)
class ImportPlan:
    """Model that the JSON files of a directory describe: the arguments of a ModelConfig, and the vocabularies."""

    settings: Mapping[str, Any]
    source: Vocabulary
    target: Vocabulary

    def config(self, **overrides: Any) -> ModelConfig:
        """Return the config of the imported model; ValueError for numbers that define no model."""
        settings = {**self.settings, **overrides}
        return ModelConfig(len(self.source.names), len(self.target.names), **settings)

    def side(self, row: "_ParameterNames") -> Vocabulary:
        """Return the vocabulary whose pieces number the rows of a parameter."""
        return self.source if row.vocabulary == "source" else self.target


def read_marian_weights(path: Path, plan: ImportPlan) -> tuple[Transformer, tuple[str, ...], str]:
    """Read the model of a safetensors file, the names that it stores, and their precision.

    Raises ValueError, naming every problem at once, for a file that has another model, or none.
    """
    config = plan.config(output_bias=True)
    try:
        with safe_open(path, framework="pt") as file:
            # The header alone is compared with the plan, before memory is taken for the numbers.
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  (it is no mapping)
            needed, allowed = _expected_shapes(config, plan, tensors=len(slices))
            types = sorted({tensor.get_dtype() for tensor in slices.values()})
            problems = []
            for names in needed:
                if slices.keys().isdisjoint(names):
                    problems.append(f"{names[0]} is missing")
            for name, tensor in slices.items():
                if name not in allowed:
                    problems.append(f"{name!r:.80} is unknown")
                elif (shape := tuple(tensor.get_shape())) != allowed[name]:
                    problems.append(f"{name} is {shape}, expected {allowed[name]}")
            if len(types) > 1 or types[0] not in DTYPES:
                problems.append(
                    f"the numbers are {', '.join(types)}; they should be one of {', '.join(DTYPES)}"
                )
            if problems:
                raise ValueError(
                    f"{path} and config.json beside it do not describe the same model: "
                    f"{join_problems(problems)}"
                )
            numbers = {name: file.get_tensor(name).float() for name in slices}
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from None

    refuse_non_finite(numbers, str(path))

    # The bias keeps a copied BOS from being written. Without one, a bias of zeros is left out.
    has_bias = plan.target.copied or bool(numbers.get(_BIAS, torch.zeros(1)).any())
    positions = _positions_kind(path, config, numbers, DTYPES[types[0]])
    config = replace(config, output_bias=has_bias, positions=positions)
    return _fill_from_marian(path, config, plan, numbers), tuple(slices), types[0]


def _expected_shapes(
    config: ModelConfig, plan: ImportPlan, tensors: int
) -> tuple[list[tuple[str, ...]], dict[str, tuple[int, ...]]]:
    """Return groups of names, and the shapes of a file's tensors by name; the file must have one name of each group."""
    model = model_without_storage(config, tensors)
    needed, allowed = [], {}
    for row in _parameter_names(config):
        shape = list(model.get_parameter(row.ours).shape)
        shape[0] = len(plan.side(row).rows) if row.vocabulary else shape[0] // len(row.theirs)
        whole = (1, *shape) if row.theirs == (_BIAS,) else tuple(shape)
        allowed |= dict.fromkeys((*row.theirs, *row.copies), whole)
        if row.theirs != (_BIAS,):  # a file without the bias has one of zeros
            needed += [(name, *row.copies) for name in row.theirs]

    allowed |= dict.fromkeys(_POSITIONS.values(), (config.max_positions, config.d_model))

    if config.tie == "none" and len(plan.source.rows) == len(plan.target.rows):
        allowed[_SHARED] = (len(plan.source.rows), config.d_model)  # stored, and read by nobody
    return needed, allowed


def _positions_kind(
    path: Path, config: ModelConfig, numbers: Mapping[str, Tensor], dtype: torch.dtype
) -> str:
    """Return the kind of positions: sinusoidal, or in a Pegasus model also learned or none."""
    tables = [numbers[name] for name in _POSITIONS.values() if name in numbers]
    # In the precision of the file, so that rounding makes no difference.
    computed = _marian_sinusoids(config).to(dtype).float()
    rounding = torch.finfo(dtype).eps
    if all(torch.allclose(table, computed, rtol=0, atol=rounding) for table in tables):
        return "sinusoidal"

    if config.norm == "post" or len(tables) == 1:
        raise ValueError(
            f"{path} has a table of positions that are not sines and cosines, which a Marian model "
            "cannot have"
        )
    # A model without positions is written with a table of zeros.
    return "learned" if any(table.any() for table in tables) else "none"


def _marian_sinusoids(config: ModelConfig) -> Tensor:
    """Return the table of positions in their layout: all sines, then all cosines."""
    order = residual_order(config.d_model).argsort()
    return sinusoids(config.max_positions, config.d_model)[:, order]


def _fill_from_marian(
    path: Path, config: ModelConfig, plan: ImportPlan, numbers: Mapping[str, Tensor]
) -> Transformer:
    """Make one of our models from their numbers; ValueError where two names of one matrix have different numbers."""
    weights, problems = dict[str, Tensor](), []
    for row in _parameter_names(config):
        stored = [name for name in (*row.theirs, *row.copies) if name in numbers]
        # With different numbers under two names of a shared matrix nobody could say which of them
        # count.
        for name in stored[1:]:
            if row.copies and not torch.equal(numbers[name], numbers[stored[0]]):
                problems.append(f"{stored[0]} and {name} differ, but should be the same matrix")

        parts = [numbers[name] for name in (stored if len(row.theirs) > 1 else stored[:1])]
        if row.theirs == (_BIAS,) and not stored:
            parts = [torch.zeros(1, len(plan.target.rows))]
        whole = _to_ours(row, parts)
        if row.vocabulary:
            whole = whole[plan.side(row).order]
        if row.theirs == (_BIAS,) and plan.target.copied:
            whole[BOS] = IMPOSSIBLE_LOGIT
        weights[row.ours] = whole

    if problems:
        raise ValueError(f"{path}: {join_problems(problems)}")
    return set_weights(model_without_storage(config, tensors=len(numbers)), weights)


def write_marian_weights(
    path: Path, model: Transformer, plan: ImportPlan, names: Sequence[str], dtype: str
) -> None:
    """Write the weights under these names, in this precision; ValueError for unknown names."""
    weights = marian_weights(model, plan)
    if unknown := [name for name in names if name not in weights]:
        raise ValueError(f"the model has no weights called {join_problems(unknown)}")

    # Copies, because safetensors refuses tensors that share memory.
    tensors = {name: weights[name].to(DTYPES[dtype], copy=True) for name in names}
    changed = []
    for name, tensor in tensors.items():
        if not torch.equal(tensor.float(), weights[name]):
            changed.append(name)
    if changed:
        raise ValueError(f"{dtype} cannot hold the numbers of {join_problems(changed)}")
    save_file(tensors, path, metadata={"format": "pt"})  # as transformers writes it


def marian_weights(model: Transformer, plan: ImportPlan) -> dict[str, Tensor]:
    """Return every weight under each of its names, the computed and the unread ones too."""
    c, weights = model.config, {}
    for row in _parameter_names(c):
        whole = model.get_parameter(row.ours).detach().cpu().float()
        if row.vocabulary:
            whole = whole[plan.side(row).rows]
        parts = _to_theirs(row, whole)
        weights |= dict(zip(row.theirs, parts, strict=True)) | dict.fromkeys(row.copies, parts[0])

    table = _marian_sinusoids(c)
    if c.positions == "none":
        table = torch.zeros(c.max_positions, c.d_model)
    optional = {
        _BIAS: torch.zeros(1, len(plan.target.rows)),
        **dict.fromkeys(_POSITIONS.values(), table),
    }

    if c.tie != "all":
        optional[_SHARED] = weights["model.encoder.embed_tokens.weight"]
    return optional | weights


def start_with_padding(model: Transformer) -> Transformer:
    """Return a model with the same translations that starts from padding, which is never written."""
    # A Marian model (post-norm) starts from a vector of zeros wherever it is read. Every embedding
    # is therefore moved by the embedding of BOS, and the first attention moves it back: in what it
    # reads, and in what is added to it. Where the output shares the matrix, all logits of a
    # position move by one number.
    model = copy.deepcopy(model)
    c = model.config
    with torch.no_grad():
        embedding = "source_embedding" if c.tie == "all" else "target_embedding"
        target = model.get_parameter(f"{embedding}.weight")
        start = target[BOS].clone()  # a view would change with the matrix
        target[PAD] = start

        if c.norm == "post":
            target -= start
            for side in ("encoder", "decoder") if c.tie == "all" else ("decoder",):
                first = f"{side}.0.self"
                shift = start * c.d_model**0.5  # embeddings are multiplied by sqrt(d_model)
                shifted = model.get_parameter(f"{first}.qkv.weight") @ shift
                model.get_parameter(f"{first}.qkv.bias").add_(shifted)
                model.get_parameter(f"{first}.output.bias").add_(shift)

        bias = torch.zeros(c.target_vocabulary)
        if c.output_bias:
            bias = model.get_parameter("output_bias")
        bias = bias.index_fill(0, torch.tensor([PAD]), IMPOSSIBLE_LOGIT)
        model.output_bias = nn.Parameter(bias)
    model.config = replace(c, output_bias=True)
    return model


def usual_names(model: Transformer, plan: ImportPlan) -> tuple[str, ...]:
    """Return the names that transformers itself writes: every matrix once, and the positions of a Pegasus model."""
    config = replace(model.config, tie=plan.settings["tie"])
    names: list[str] = []
    for row in _parameter_names(config):
        names += row.theirs

    names.append(_BIAS)
    if config.norm == "pre":
        names += _POSITIONS.values()
        if config.tie == "none":
            names.append(_SHARED)
    return tuple(dict.fromkeys(names))


_BIAS = "final_logits_bias"


@dataclass(frozen=True)
class _ParameterNames:
    """Names of one of our parameters in Marian and Pegasus.

    It is cut into equal parts, one below the other, for as many names as `theirs` has. `residual`
    is the dimension along which the numbers of the residual stream lie, `vocabulary` says whose
    pieces number its rows, and `copies` are further names of the whole, which a file may leave out.
    """

    ours: str
    theirs: tuple[str, ...]
    residual: Literal[0, 1] | None = None
    vocabulary: Literal["source", "target"] | None = None
    copies: tuple[str, ...] = ()


def _parameter_names(config: ModelConfig) -> list[_ParameterNames]:
    """Return the names of every parameter of a model with this config."""
    rows = [*_embedding_names(config.tie)]
    if config.output_bias:
        rows.append(_ParameterNames("output_bias", (_BIAS,), vocabulary="target"))

    for number in range(config.encoder_layers):
        rows += _layer_names("encoder", number, _ATTENTIONS[:1])
    for number in range(config.decoder_layers):
        rows += _layer_names("decoder", number, _ATTENTIONS)
    if config.norm == "pre":
        for side, theirs in _FINAL.items():
            rows += _affine_names(f"{side}_norm", theirs)

    # Tables of sines and cosines are computed, and no parameters.
    if config.positions == "learned":
        for ours, theirs in _POSITIONS.items():
            rows.append(_ParameterNames(f"{ours}.table", (theirs,), 1))
    return rows


# Names in transformers.
_SOURCE, _TARGET, _OUTPUT = (
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
_SHARED = "model.shared.weight"
_ATTENTIONS = [("self", "self_attn"), ("cross", "encoder_attn")]
_FINAL = {"encoder": "model.encoder.layer_norm", "decoder": "model.decoder.layer_norm"}
_POSITIONS = {
    "source_positions": "model.encoder.embed_positions.weight",
    "target_positions": "model.decoder.embed_positions.weight",
}


def residual_dimensions(config: ModelConfig) -> dict[str, int]:
    """Return of each of our parameters that has one the dimension along which the residual stream lies."""
    return {row.ours: row.residual for row in _parameter_names(config) if row.residual is not None}


def _embedding_names(tie: str) -> Iterator[_ParameterNames]:
    """Yield the embeddings and the output matrix, or as many of the three as are not shared."""
    # Of a shared matrix the file has one name or all of them: hence the copies.
    if tie == "all":
        copies = (_SOURCE, _TARGET, _OUTPUT)
        yield _ParameterNames("source_embedding.weight", (_SHARED,), 1, "source", copies)
    else:
        copies = (_OUTPUT,) if tie == "decoder" else ()
        yield _ParameterNames("source_embedding.weight", (_SOURCE,), 1, "source")
        yield _ParameterNames("target_embedding.weight", (_TARGET,), 1, "target", copies)
    if tie == "none":
        yield _ParameterNames("output_embedding.weight", (_OUTPUT,), 1, "target")


def _layer_names(
    side: str, number: int, attentions: Sequence[tuple[str, str]]
) -> Iterator[_ParameterNames]:
    """Yield the parameters of one layer: its attentions, its feed-forward network, and the norm of each."""
    ours, theirs = f"{side}.{number}", f"model.{side}.layers.{number}"
    for our_attention, their_attention in attentions:
        attention, their_prefix = f"{ours}.{our_attention}", f"{theirs}.{their_attention}"
        # Queries, keys and values are one matrix in our models and three in theirs.
        projections = [f"{their_prefix}.{letter}_proj" for letter in "qkv"]
        weights = tuple(f"{name}.weight" for name in projections)
        biases = tuple(f"{name}.bias" for name in projections)
        yield _ParameterNames(f"{attention}.qkv.weight", weights, 1)
        yield _ParameterNames(f"{attention}.qkv.bias", biases)
        yield from _affine_names(f"{attention}.output", f"{their_prefix}.out_proj")
        yield from _affine_names(f"{attention}_residual.norm", f"{their_prefix}_layer_norm")

    yield _ParameterNames(f"{ours}.ffn.inner.weight", (f"{theirs}.fc1.weight",), 1)
    yield _ParameterNames(f"{ours}.ffn.inner.bias", (f"{theirs}.fc1.bias",))
    yield from _affine_names(f"{ours}.ffn.outer", f"{theirs}.fc2")
    yield from _affine_names(f"{ours}.ffn_residual.norm", f"{theirs}.final_layer_norm")


def _affine_names(ours: str, theirs: str) -> Iterator[_ParameterNames]:
    """Yield a weight and a bias whose results are written into the residual stream."""
    yield _ParameterNames(f"{ours}.weight", (f"{theirs}.weight",), 0)
    yield _ParameterNames(f"{ours}.bias", (f"{theirs}.bias",), 0)


def _to_ours(row: _ParameterNames, parts: Sequence[Tensor]) -> Tensor:
    """Join the stored parts of a parameter into one of ours; rows of a vocabulary keep their order."""
    # The bias is stored as one row of a matrix.
    whole = parts[0][0] if row.theirs == (_BIAS,) else torch.cat(list(parts))
    if row.residual is None:
        return whole
    return whole.index_select(row.residual, residual_order(whole.shape[row.residual]))


def _to_theirs(row: _ParameterNames, whole: Tensor) -> list[Tensor]:
    """Split one of our parameters into the parts that are stored; the inverse of `_to_ours`."""
    if row.residual is not None:
        order = residual_order(whole.shape[row.residual]).argsort()
        whole = whole.index_select(row.residual, order)
    if row.theirs == (_BIAS,):
        return [whole[None]]
    return [part.contiguous() for part in whole.chunk(len(row.theirs))]


def residual_order(d_model: int) -> Tensor:
    """Return the index in their residual stream of each number of ours.

    >>> residual_order(6).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    # A position is [all sines | all cosines] there, and sine, cosine, sine, cosine
    # here. Nothing else tells the numbers of a residual stream apart, so they may be
    # put in any order that is the same everywhere.
    return torch.arange(d_model).view(2, -1).T.flatten()
