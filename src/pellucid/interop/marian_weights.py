"""model.safetensors of a Marian or Pegasus model of Hugging Face: read into a model of ours, and written from one."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from pellucid.atomic import join_problems
from pellucid.data.tokenizer import BOS, PAD
from pellucid.interop.marian_names import (
    BIAS,
    POSITIONS,
    SHARED,
    ParameterNames,
    parameter_names,
    residual_order,
    to_ours,
    to_theirs,
)
from pellucid.interop.marian_vocabulary import Vocabulary
from pellucid.model import ModelConfig, Transformer
from pellucid.model.positions import sinusoids
from pellucid.weights import model_without_storage, refuse_non_finite

WEIGHTS = "model.safetensors"
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}

IMPOSSIBLE_LOGIT = -10_000.0
"""What is added to the logit of a start mark that is no piece of theirs: exp of it is 0, so it changes no share."""


@dataclass(frozen=True)
class ImportPlan:
    """What the JSON files of a directory say of its model: the arguments of a ModelConfig, and the pieces."""

    settings: Mapping[str, Any]
    source: Vocabulary
    target: Vocabulary

    def config(self, **more: Any) -> ModelConfig:
        """The sizes of the model here; ValueError for numbers that define none."""
        return ModelConfig(len(self.source.names), len(self.target.names), **{**self.settings, **more})

    def side(self, row: ParameterNames) -> Vocabulary:
        """The pieces that number the rows of a parameter."""
        return self.source if row.vocabulary == "source" else self.target


@dataclass(frozen=True)
class StoredNames:
    """What the same numbers may be written as: under which names, in which precision."""

    names: tuple[str, ...]
    dtype: str = "F32"


def read_marian_weights(path: Path, plan: ImportPlan) -> tuple[Transformer, StoredNames]:
    """The model in a file, whose header is compared with the plan before memory is taken.

    Raises ValueError, naming every problem at once, for a file that is another model, or none.
    """
    config = plan.config(output_bias=True)
    try:
        with safe_open(path, framework="pt") as file:
            found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  (it is no mapping)
            needed, allowed = expected_shapes(config, plan, tensors=len(found))
            types = sorted({each.get_dtype() for each in found.values()})
            problems = [
                f"{name} is missing" for names in needed if not any(n in found for n in names) for name in names[:1]
            ]
            for name, each in found.items():
                if name not in allowed:
                    problems.append(f"{name!r:.80} is unknown")
                elif tuple(each.get_shape()) != allowed[name]:
                    problems.append(f"{name} is {tuple(each.get_shape())}, expected {allowed[name]}")
            if len(types) > 1 or types[0] not in DTYPES:
                problems.append(f"the numbers are {', '.join(types)}; they should be one of {', '.join(DTYPES)}")
            if problems:
                raise ValueError(
                    f"{path} and config.json beside it do not describe the same model: {join_problems(problems)}"
                )
            numbers = {name: file.get_tensor(name).float() for name in found}
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from None
    refuse_non_finite(numbers, str(path))
    biased = plan.target.copied or bool(numbers.get(BIAS, torch.zeros(1)).any())
    config = replace(config, output_bias=biased, positions=positions_kind(path, config, numbers, DTYPES[types[0]]))
    return fill_from_marian(path, config, plan, numbers), StoredNames(tuple(found), types[0])


def expected_shapes(
    config: ModelConfig, plan: ImportPlan, tensors: int
) -> tuple[list[tuple[str, ...]], dict[str, tuple[int, ...]]]:
    """The names of which one each must be there, and the shape of every tensor that may be."""
    model = model_without_storage(config, tensors)
    needed, allowed = [], {}
    for row in parameter_names(config):
        shape = list(model.get_parameter(row.ours).shape)
        shape[0] = len(plan.side(row).rows) if row.vocabulary else shape[0] // len(row.theirs)
        whole = (1, *shape) if row.theirs == (BIAS,) else tuple(shape)
        allowed |= dict.fromkeys((*row.theirs, *row.copies), whole)
        if row.theirs != (BIAS,):
            needed += [(name, *row.copies) for name in row.theirs]
    allowed |= dict.fromkeys(POSITIONS.values(), (config.max_positions, config.d_model))
    if config.tie == "none" and len(plan.source.rows) == len(plan.target.rows):
        allowed[SHARED] = (len(plan.source.rows), config.d_model)  # stored, and read by nobody
    return needed, allowed


def positions_kind(path: Path, config: ModelConfig, numbers: Mapping[str, Tensor], dtype: torch.dtype) -> str:
    """How order enters: by sines and cosines unless the file says otherwise, which only a Pegasus model may."""
    tables = [numbers[name] for name in POSITIONS.values() if name in numbers]
    computed = marian_sinusoids(config).to(dtype).float()
    if all(torch.allclose(table, computed, rtol=0, atol=torch.finfo(dtype).eps) for table in tables):
        return "sinusoidal"
    if config.norm == "post" or len(tables) == 1:
        raise ValueError(
            f"{path} has a table of positions that are not sines and cosines, which a Marian model has not"
        )
    return "learned" if any(table.any() for table in tables) else "none"


def marian_sinusoids(config: ModelConfig) -> Tensor:
    """The table of positions as it stands there: all sines, then all cosines."""
    return sinusoids(config.max_positions, config.d_model)[:, residual_order(config.d_model).argsort()]


def fill_from_marian(path: Path, config: ModelConfig, plan: ImportPlan, numbers: Mapping[str, Tensor]) -> Transformer:
    """A model of ours with their numbers; ValueError where two names of one matrix have different ones."""
    model = model_without_storage(config, tensors=len(numbers))
    problems = []
    for row in parameter_names(config):
        there = [name for name in (*row.theirs, *row.copies) if name in numbers]
        problems += [
            f"{there[0]} and {name} differ, and should be one matrix"
            for name in there[1:]
            if row.copies and not torch.equal(numbers[name], numbers[there[0]])
        ]
        parts = [numbers[name] for name in (there if len(row.theirs) > 1 else there[:1])]
        if row.theirs == (BIAS,) and not there:
            parts = [torch.zeros(1, len(plan.target.rows))]
        whole = to_ours(row, parts)
        if row.vocabulary:
            whole = whole[plan.side(row).order]
        if row.theirs == (BIAS,) and plan.target.copied:
            whole[BOS] = IMPOSSIBLE_LOGIT
        owner, _, leaf = row.ours.rpartition(".")
        setattr(model.get_submodule(owner), leaf, nn.Parameter(whole))
    if problems:
        raise ValueError(f"{path}: {join_problems(problems)}")
    return model.eval()


def write_marian_weights(path: Path, model: Transformer, plan: ImportPlan, stored: StoredNames) -> None:
    """The weights under the names of `stored`, in its precision. ValueError for names that are none."""
    weights = marian_weights(model, plan)
    if unknown := [name for name in stored.names if name not in weights]:
        raise ValueError(f"the model has no weights called {join_problems(unknown)}")
    chosen = {name: weights[name].to(DTYPES[stored.dtype], copy=True) for name in stored.names}
    if changed := [name for name, each in chosen.items() if not torch.equal(each.float(), weights[name])]:
        raise ValueError(f"{stored.dtype} cannot hold the numbers of {join_problems(changed)}")
    save_file(chosen, path, metadata={"format": "pt"})


def marian_weights(model: Transformer, plan: ImportPlan) -> dict[str, Tensor]:
    """Every weight under each of its names, the computed and the unread ones too."""
    c, weights = model.config, {}
    for row in parameter_names(c):
        whole = model.get_parameter(row.ours).detach().cpu().float()
        if row.vocabulary:
            whole = whole[plan.side(row).rows]
        parts = to_theirs(row, whole)
        weights |= dict(zip(row.theirs, parts, strict=True)) | dict.fromkeys(row.copies, parts[0])
    table = torch.zeros(c.max_positions, c.d_model) if c.positions == "none" else marian_sinusoids(c)
    spare = {BIAS: torch.zeros(1, len(plan.target.rows)), **dict.fromkeys(POSITIONS.values(), table)}
    if c.tie != "all":
        spare[SHARED] = weights["model.encoder.embed_tokens.weight"]
    return spare | weights


def start_with_padding(model: Transformer) -> Transformer:
    """The same translations from a model whose start mark is padding, which is never written.

    A Marian model (norms after each part) starts from a vector of zeros wherever it is read. Every embedding is
    therefore moved by that of the start mark, and the first attention moves it back: in what it reads, and in what
    is added to it. Where the output shares the matrix, all logits of a position move by one number.
    """
    model = copy.deepcopy(model)
    c = model.config
    with torch.no_grad():
        target = model.get_parameter("source_embedding.weight" if c.tie == "all" else "target_embedding.weight")
        start = target[BOS].clone()
        target[PAD] = start
        if c.norm == "post":
            target -= start
            for side in ("encoder", "decoder") if c.tie == "all" else ("decoder",):
                first = f"{side}.0.self"
                moved = start * c.d_model**0.5
                model.get_parameter(f"{first}.qkv.bias").add_(model.get_parameter(f"{first}.qkv.weight") @ moved)
                model.get_parameter(f"{first}.output.bias").add_(moved)
        bias = model.get_parameter("output_bias") if c.output_bias else torch.zeros(c.target_vocabulary)
        model.output_bias = nn.Parameter(bias.index_fill(0, torch.tensor([PAD]), IMPOSSIBLE_LOGIT))
    model.config = replace(c, output_bias=True)
    return model


def usual_names(model: Transformer, plan: ImportPlan) -> StoredNames:
    """What transformers writes itself: every matrix once, and the positions of a Pegasus model."""
    config = replace(model.config, tie=plan.settings["tie"])
    names: Iterable[str] = (name for row in parameter_names(config) for name in row.theirs)
    pegasus = (*POSITIONS.values(), *((SHARED,) if config.tie == "none" else ())) if config.norm == "pre" else ()
    return StoredNames(tuple(dict.fromkeys((*names, BIAS, *pegasus))))
