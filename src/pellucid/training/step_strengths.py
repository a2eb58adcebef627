"""Singular values of a matrix's running mean of gradients, and of the optimizer's step that this mean leads to."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from pellucid.model import Transformer
from pellucid.store.directory import load_bundle
from pellucid.training.checkpoint import list_checkpoints
from pellucid.training.optimizer import cut_blocks, matrix_blocks, orthogonalize_all

MOST_OF_THE_SQUARE = 0.9  # share of the sum of squared singular values for which directions are counted


@dataclass(frozen=True)
class BlockStrengths:
    """Singular values, largest first, of a matrix or of one head's part of it: of the mean gradient, and of the step.

    A step is what the optimizer would subtract, at a learning rate that makes the singular values easy to compare: 1.
    """

    name: str
    gradient: tuple[float, ...]
    step: tuple[float, ...]


def measure_step_strengths(run: str | Path, tensor: str) -> tuple[Path, str, list[BlockStrengths]]:
    """Return the checkpoint that was read, "muon" or "adam", and the strengths of each block of a matrix.

    `run` is a checkpoint, or the directory of a run, whose newest checkpoint is read. The step is made from the running
    mean of the gradients alone; in a training, the newest gradient counts once more (Nesterov's momentum).

    Raises ValueError where there is no checkpoint, and for a tensor that is not a matrix of a layer.
    """
    checkpoint = next(reversed(list_checkpoints(Path(run))), Path(run))
    if not (checkpoint / "training.safetensors").is_file():
        raise ValueError(f"{run} is neither the directory of a run with checkpoints nor a checkpoint")
    model = load_bundle(checkpoint).model
    parameters, grids = dict(model.named_parameters()), matrix_blocks(model)
    if tensor not in parameters or parameters[tensor] not in grids:
        known = ", ".join(name for name, parameter in parameters.items() if parameter in grids and ".0." in name)
        raise ValueError(f"{tensor} is not a matrix of a layer; the first layers have {known}")
    state = load_file(checkpoint / "training.safetensors")
    grid = grids[parameters[tensor]]
    if f"momentum.{tensor}" in state:
        kind, gradient = "muon", cut_blocks(state[f"momentum.{tensor}"], *grid)
        [step] = orthogonalize_all([gradient], threads=1)
    else:
        kind, mean = "adam", state[f"exp_avg.{tensor}"]
        # Corrections for the zeros that both means began with, and epsilon, scale all numbers nearly alike.
        adam_step = mean / state[f"exp_avg_sq.{tensor}"].sqrt().clamp(min=torch.finfo(mean.dtype).tiny)
        gradient, step = cut_blocks(mean, *grid), cut_blocks(adam_step, *grid)
    names = block_names(model, tensor, len(gradient))
    values = (list(map(tuple, torch.linalg.svdvals(stack.float()).tolist())) for stack in (gradient, step))
    return checkpoint, kind, [BlockStrengths(*block) for block in zip(names, *values, strict=True)]


def block_names(model: Transformer, tensor: str, blocks: int) -> list[str]:
    """Return what each block of a matrix is: "queries of head 0", "head 0", "gate" or, if there is only one, "all"."""
    if tensor.endswith("qkv.weight"):
        return [f"{what} of head {h}" for what in ("queries", "keys", "values") for h in range(model.config.heads)]
    if blocks == 2 and tensor.endswith("inner.weight"):
        return ["gate", "value"]
    return [f"head {h}" for h in range(blocks)] if blocks > 1 else ["all"]


def count_strong_directions(strengths: tuple[float, ...]) -> int:
    """Return the number of strongest directions that make nine tenths of the sum of squares.

    >>> count_strong_directions((4.0, 1.0, 0.1))
    1
    >>> count_strong_directions((1.0, 1.0, 1.0, 1.0))
    4
    """
    squares = Tensor(strengths).square()
    return int((squares.cumsum(0) < MOST_OF_THE_SQUARE * squares.sum()).sum()) + 1
