"""Singular values of a matrix's mean gradient, and of the optimizer's step that it leads to."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from pellucid.model import Transformer
from pellucid.store.directory import load_bundle
from pellucid.training.checkpoint import list_checkpoints
from pellucid.training.optimizer import cut_blocks, matrix_blocks, orthogonalize_all

# Share of the sum of squared singular values for which directions are counted.
MOST_OF_THE_SQUARE = 0.9


@dataclass(frozen=True)
class BlockStrengths:
    """Singular values of the mean gradient and of the step of a matrix, or of one head's part of it.

    The largest stands first. A step is what the optimizer would subtract, at a learning rate that
    makes the singular values easy to compare: 1.
    """

    name: str
    gradient: tuple[float, ...]
    step: tuple[float, ...]


def measure_step_strengths(run: str | Path, tensor: str) -> tuple[Path, str, list[BlockStrengths]]:
    """Return the checkpoint that was read, its optimizer, and the strengths of a matrix's blocks.

    The optimizer is "muon" or "adam". `run` is a checkpoint, or the directory of a run, whose
    newest checkpoint is read. The step is made from the running mean of the gradients alone; in a
    training, the newest gradient counts once more (Nesterov's momentum).

    Raises ValueError where there is no checkpoint, and for a tensor that is not a matrix of a
    layer.
    """
    checkpoint = next(reversed(list_checkpoints(Path(run))), Path(run))
    if not (checkpoint / "training.safetensors").is_file():
        raise ValueError(
            f"{run} is neither the directory of a run with checkpoints nor a checkpoint"
        )

    model = load_bundle(checkpoint).model
    parameters, grids = dict(model.named_parameters()), matrix_blocks(model)
    if tensor not in parameters or parameters[tensor] not in grids:
        names = [name for name in parameters if parameters[name] in grids and ".0." in name]
        raise ValueError(
            f"{tensor} is not a matrix of a layer; the first layers have {', '.join(names)}"
        )

    state = load_file(checkpoint / "training.safetensors")
    grid = grids[parameters[tensor]]
    if f"momentum.{tensor}" in state:
        kind, gradient = "muon", cut_blocks(state[f"momentum.{tensor}"], *grid)
        [step] = orthogonalize_all([gradient], threads=1)
    else:
        kind, mean = "adam", state[f"exp_avg.{tensor}"]
        # Corrections for the zeros that both means began with, and epsilon, scale all numbers
        # nearly alike.
        root_mean_square = state[f"exp_avg_sq.{tensor}"].sqrt()
        adam_step = mean / root_mean_square.clamp(min=torch.finfo(mean.dtype).tiny)
        gradient, step = cut_blocks(mean, *grid), cut_blocks(adam_step, *grid)

    gradient_values = torch.linalg.svdvals(gradient.float()).tolist()
    step_values = torch.linalg.svdvals(step.float()).tolist()
    strengths = []
    for number, name in enumerate(block_names(model, tensor, len(gradient))):
        values = tuple(gradient_values[number]), tuple(step_values[number])
        strengths.append(BlockStrengths(name, *values))
    return checkpoint, kind, strengths


def block_names(model: Transformer, tensor: str, blocks: int) -> list[str]:
    """Return what each block of a matrix is: "queries of head 0", "head 0", "gate" or "all"."""
    if tensor.endswith("qkv.weight"):
        names = []
        for what in ("queries", "keys", "values"):
            names += [f"{what} of head {h}" for h in range(model.config.heads)]
        return names
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
