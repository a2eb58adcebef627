"""Prepares a model for searching, from outside: its own modules and weights, the large matrices packed for oneDNN."""

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
    """A matrix that knows a second copy of itself, in the layout in which oneDNN multiplies a few rows fastest.

    `F.linear` with such a matrix takes a half to nine tenths of the usual time for few rows, in the same precision
    (benchmarks/results/translate.md). For everything else it is the plain matrix.
    """

    packed: Tensor
    parts: dict[tuple[int, ...], tuple[Tensor, ...]]

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Multiply with the packed copy where torch is asked for x W^T + b; do anything else as torch does it."""
        if func is F.linear and not kwargs and isinstance(args[1], cls):
            return torch.ops.mkldnn._linear_pointwise(args[0], args[1].packed, (*args, None)[2], "none", [], "")
        with torch._C.DisableTorchFunctionSubclass():
            if func is Tensor.split and not kwargs:
                return cls.split_once(*args)
            return func(*args, **(kwargs or {}))

    def split_once(self, sizes: list[int]) -> tuple[Tensor, ...]:
        """Return parts of the rows, each packed: cross-attention asks for the same two of its matrix at every step."""
        key = tuple(sizes)
        if key not in self.parts:
            self.parts[key] = tuple(map(pack_weight, self.as_subclass(Tensor).split(sizes)))
        return self.parts[key]


def pack_weight(weight: Tensor) -> Tensor:
    """Return a matrix with its packed copy, or the tensor as it is where packing is impossible or does not pay."""
    if not can_pack(weight):
        return weight
    matrix = weight.detach().as_subclass(PackedWeight)
    matrix.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
    matrix.parts = {}
    return matrix


def can_pack(weight: Tensor) -> bool:
    """Whether packing this matrix is possible on this machine, and pays; the operators are those of torch.compile."""
    if weight.dim() != 2 or weight.device.type != "cpu" or platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    if weight.dtype == torch.bfloat16:
        return has_native_bfloat16(weight.device)
    return weight.dtype == torch.float32 and weight.numel() >= LARGE


class ModelPacker:
    """Makes copies of a model for searching: copies of its modules, which run the model's code over its own weights.

    The model is left as it is, and may be trained or changed meanwhile. A copy costs half a millisecond, so each search
    takes a new one and sees the model of now; only the packed weights are kept, each until it changes.
    """

    def __init__(self, model: Transformer):
        self.model = model
        self._packed: dict[int, tuple[Tensor, int, int, Tensor]] = {}

    def copy_model(self) -> Transformer:
        """Return the model in evaluation, with packed matrices and without what surrounds a call of an nn.Module."""
        packed: dict[int, tuple[Tensor, int, int, Tensor]] = {}
        copies: dict[nn.Module, nn.Module] = {}
        model = self._copy_module(self.model, copies, packed)
        self._packed = packed  # what the model no longer has is dropped
        return model

    def _copy_module(self, module: Any, copies: dict[nn.Module, nn.Module], packed: dict[int, Any]) -> Any:
        if module is None:
            return None
        if module in copies:  # source and target may share their positions
            return copies[module]
        kind = type(module)
        copied = copies[module] = object.__new__(without_hooks(kind) if can_call_directly(module) else kind)
        children = {name: self._copy_module(child, copies, packed) for name, child in module._modules.items()}
        weights = {name: self._pack(weight, packed) for name, weight in module._parameters.items()}
        # Children and tensors as plain attributes: nn.Module.__getattr__, which would look them up, costs a tenth of
        # a greedy search with a tiny model.
        copied.__dict__.update(vars(module) | module._buffers | children | weights, training=False, _modules=children)
        return copied

    def _pack(self, weight: Tensor | None, packed: dict[int, tuple[Tensor, int, int, Tensor]]) -> Tensor | None:
        if weight is None:
            return None
        state = weight.data_ptr(), weight._version  # what changes when a weight is replaced or written to
        known = packed.get(id(weight)) or self._packed.get(id(weight))
        if known is None or known[1:3] != state:
            known = weight, *state, pack_weight(weight)
        packed[id(weight)] = known  # which holds the weight itself, so that its id stays its own
        return known[3]


def can_call_directly(module: nn.Module) -> bool:
    """Whether calling a module runs `forward` of its class and nothing else: no hook, no `forward` of its own."""
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    return not any(hooks) and "forward" not in vars(module)


@cache
def without_hooks(kind: type[nn.Module]) -> type[nn.Module]:
    """Return a subclass that differs in one thing: a call is a call of `forward`."""
    return type(kind.__name__, (kind,), {"__call__": kind.forward, "__module__": kind.__module__})
