"""A model prepared for searching: its own modules over its own weights, with the large matrices packed for oneDNN."""

import copy
import platform
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.model import Transformer
from pellucid.model.bfloat16 import has_native_bfloat16

LARGE = 2**16
"""Numbers in a matrix from which the packed product is the quicker one: it takes 15 microseconds to begin."""


class PackedWeight(Tensor):
    """A matrix that multiplies through its packed copy: `F.linear` with it calls oneDNN on a layout made for that.

    For few rows this takes a half to nine tenths of the time of torch's own product (benchmarks/results/translate.md),
    in the same precision. Everything else that is done with it, is done with the plain matrix.
    """

    plain: Tensor
    packed: Tensor
    parts: dict[Any, Any]

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear and len(args) == 3 and isinstance(args[1], cls):
            return torch.ops.mkldnn._linear_pointwise(args[0], args[1].packed, args[2], "none", [], "")
        if func is Tensor.split and not kwargs:
            # Cross-attention multiplies by one third of its matrix at every step, so each third is packed once.
            weight, sizes = args
            key = tuple(sizes) if isinstance(sizes, list) else sizes
            if key not in weight.parts:
                weight.parts[key] = tuple(map(pack_weight, weight.plain.split(sizes)))
            return weight.parts[key]
        unwrapped = [value.plain if isinstance(value, cls) else value for value in args]
        return func(*unwrapped, **(kwargs or {}))


def pack_weight(weight: Tensor) -> Tensor:
    """Return a matrix with a packed copy, or the matrix itself where that is impossible or does not pay."""
    if not can_pack(weight):
        return weight
    packed = weight.detach().as_subclass(PackedWeight)
    packed.plain, packed.parts = weight.detach(), {}
    packed.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
    return packed


def can_pack(weight: Tensor) -> bool:
    """Whether packing this matrix is possible on this machine, and pays; the operators are those of torch.compile."""
    if weight.dim() != 2 or weight.device.type != "cpu" or platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    if weight.dtype == torch.bfloat16:
        return has_native_bfloat16(weight.device)
    return weight.dtype == torch.float32 and weight.numel() >= LARGE


class PackedModel:
    """Makes the copy of a model that searches run, and packs again each weight that has changed since."""

    def __init__(self, model: Transformer):
        self.model = model
        self.weights: dict[int, tuple[Tensor, int, int, Tensor]] = {}

    def __call__(self) -> Transformer:
        return self.copy_module(self.model, {})

    def copy_module(self, module: nn.Module, copies: dict[nn.Module, Any]) -> Any:
        if module in copies:
            return copies[module]
        twin = copies[module] = object.__new__(without_hooks(type(module)) if can_call_directly(module) else type(module))
        children = {name: child and self.copy_module(child, copies) for name, child in module._modules.items()}
        parameters = {name: self.pack(value) for name, value in module._parameters.items()}
        twin.__dict__.update(module.__dict__, training=False, _modules=children)
        twin.__dict__.update(module._buffers)
        twin.__dict__.update(children)
        twin.__dict__.update(parameters)
        return twin

    def pack(self, weight: Tensor | None) -> Tensor | None:
        if weight is None or weight.dim() != 2:
            return weight
        held = self.weights.get(id(weight))
        if held is None or held[1:3] != (weight.data_ptr(), weight._version):
            held = self.weights[id(weight)] = weight, weight.data_ptr(), weight._version, pack_weight(weight)
        return held[3]


def can_call_directly(module: nn.Module) -> bool:
    """Whether calling a module does nothing but run its class's `forward`: no hooks, no method replaced on the instance."""
    return not (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in vars(module)
    )


@cache
def without_hooks(kind: type[nn.Module]) -> type[nn.Module]:
    """Return a subclass whose call is `forward` itself, without the ways of a module."""
    return type(kind.__name__, (kind,), {"__call__": kind.forward})
