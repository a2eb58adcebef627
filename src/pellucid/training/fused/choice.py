"""Decides whether a run trains with fused operations, and says why not."""

from dataclasses import dataclass

import torch

from pellucid.cpu import has_native_bfloat16
from pellucid.model import ModelConfig
from pellucid.model.positions import POSITIONS, Positions
from pellucid.training.fused.compiler import Kernels, NoKernels, load_kernels


@dataclass(frozen=True)
class KernelChoice:
    """The compiled kernels of a run, or None, and a sentence that says why where that is news."""

    kernels: Kernels | None
    note: str | None = None


NOT_FUSED = KernelChoice(None)


def choose_kernels(
    setting: str, precision: str, model: ModelConfig, device: torch.device, in_lockstep: bool
) -> KernelChoice:
    """Return what a run with `train.fused` = `setting` computes with.

    A GPU has fused operations of its own. Workers that go through the layers in lockstep hold parts
    of each weight, for which none are written.
    """
    # In float32 the products take most of the time, and two threads gain nothing by it.
    is_quicker = precision == "bfloat16" and has_native_bfloat16(device)
    is_wanted = setting == "always" or (setting == "auto" and is_quicker)
    if not is_wanted or device.type != "cpu" or in_lockstep:
        return NOT_FUSED

    kind = POSITIONS[model.positions]
    if kind.rotate is not Positions.rotate or kind.bias is not Positions.bias:
        return KernelChoice(
            None,
            f"operations are not fused: for {model.positions} positions none are written",
        )

    try:
        return KernelChoice(load_kernels())
    except NoKernels as reason:
        return KernelChoice(
            None,
            f"operations are not fused, because {reason}: an update takes up to twice as long "
            '(train.fused = "never" leaves out this note)',
        )
