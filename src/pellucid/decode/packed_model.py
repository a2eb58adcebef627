"""Prepares a model for searching, from outside: its own modules and weights, the large matrices packed for oneDNN."""

import platform
from collections.abc import Callable
from functools import cache
from math import ceil
from threading import Lock
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.cpu import has_native_bfloat16
from pellucid.model import Transformer
from pellucid.model.dropout import Dropout

# Numbers in a matrix from which packing it pays: a packed product takes 15 to 60 microseconds to
# begin.
LARGE = 2**16
# Multiplications from which the packed product is quicker (benchmarks/results/one-model.md).
ENOUGH = 2**17
# Part that takes the place of dropout in a copy, which is for inference only: a sixth of the
# copying is saved.
NO_DROPOUT = nn.Identity()

_packing = Lock()


class PackedWeight(Tensor):
    """A matrix that knows a second copy of itself, in the layout in which oneDNN multiplies a few rows fastest.

    `F.linear` with such a matrix takes a half to nine tenths of the usual time for a few rows, in
    the same precision (benchmarks/results/translate.md). For everything else it is the plain
    matrix.
    """

    plain: Tensor
    packed: Tensor | None
    least_rows: int  # rows from which the packed product is the quicker one
    parts: dict[tuple[int | None, ...], Tensor]

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Multiply with the packed copy where torch is asked for x W^T + b.

        Do anything else as torch does it.
        """
        if func is F.linear and not kwargs and isinstance(args[1], cls):
            return args[1].project(args[0], *args[2:])
        with torch._C.DisableTorchFunctionSubclass():
            if func is Tensor.__getitem__ and isinstance(args[1], slice):
                return cls.take_rows(*args)
            return func(*args, **(kwargs or {}))

    def project(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x W^T + b; shapes as for `F.linear`."""
        if x.numel() < self.least_rows * x.shape[-1]:
            return F.linear(x, self.plain, bias)
        # The operator is quickest with a matrix of rows: of a batch of sequences it makes one
        # itself, more slowly.
        rows = x.reshape(-1, x.shape[-1])
        packed = self.pack() if self.packed is None else self.packed
        product = torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
        return product.view(*x.shape[:-1], -1)

    def pack(self) -> Tensor:
        """Make the packed copy, at the first product: a matrix that is only used in parts needs no copy."""
        with _packing:  # batches on several threads would each make one
            packed = self.packed
            if packed is None:
                packed = self.packed = torch.ops.mkldnn._reorder_linear_weight(self.plain)
        return packed

    def take_rows(self, rows: slice) -> Tensor:
        """Return some rows, packed by themselves: cross-attention uses one third of its matrix at each step."""
        key = rows.start, rows.stop, rows.step
        if key not in self.parts:
            self.parts[key] = _pack_weight(self.plain[rows])
        return self.parts[key]


def _pack_weight(weight: Tensor) -> Tensor:
    """Return a matrix that multiplies by a packed copy.

    Where that cannot be or does not pay, it is the tensor itself.
    """
    if not can_pack(weight):
        return weight
    matrix = weight.detach().as_subclass(PackedWeight)
    matrix.plain, matrix.packed, matrix.parts = weight.detach(), None, {}
    # The smaller the matrix, the more rows it takes.
    matrix.least_rows = ceil(ENOUGH / weight.numel()) if weight.dtype == torch.float32 else 0
    return matrix


def can_pack(weight: Tensor) -> bool:
    """Whether packing this matrix is possible here, and pays.

    The packing operators are the ones torch.compile uses.
    """
    is_on_x86 = platform.machine().lower() in ("x86_64", "amd64")
    if weight.dim() != 2 or weight.device.type != "cpu" or not is_on_x86:
        return False
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    if weight.dtype == torch.bfloat16:
        return has_native_bfloat16(weight.device)
    return weight.dtype == torch.float32 and weight.numel() >= LARGE


class ModelPacker:
    """Makes copies of a model for searching: copies of its modules, which run the model's code over its own weights.

    The model is left as it is, and may be trained or changed meanwhile. A copy costs half a
    millisecond, so each search takes a new one and sees the model of now; only the packed weights
    are kept, each until it changes.
    """

    def __init__(self, model: Transformer):
        self.model = model
        self._packed: dict[int, tuple[Tensor, int, int, Tensor]] = {}

    def copy_model(self) -> Transformer:
        """Return the model in evaluation, with packed matrices and without what surrounds a call of an nn.Module."""
        packed: dict[int, tuple[Tensor, int, int, Tensor]] = {}
        model = self._copy_module(self.model, {}, packed)
        # Of tied embeddings the output alone is multiplied by: it becomes a copy apart, and the
        # tables stay plain.
        output = self._copy_module(self.model.output_embedding, {}, packed)
        output.__dict__["weight"] = self._pack(self.model.output_embedding.weight, packed)
        model.__dict__["output_embedding"] = model._modules["output_embedding"] = output
        # At the end and at once: other threads may be copying too. What the model no longer has is
        # dropped here.
        self._packed = packed
        return model

    def _copy_module(self, module: Any, copies: dict[nn.Module, nn.Module], packed: dict[int, Any]) -> Any:
        if module is None:
            return None

        # Subclasses and modules with hooks are kept: they may do something in evaluation.
        if type(module) is Dropout and can_call_directly(module):
            module = NO_DROPOUT

        if module in copies:  # one module under two names, such as tied embeddings
            return copies[module]

        copied: Any = object.__new__(type(module))
        copies[module] = copied
        children: dict[str, Any] = {}
        for name, child in module._modules.items():
            children[name] = self._copy_module(child, copies, packed)
        # Children and tensors become plain attributes: nn.Module.__getattr__, which would look them
        # up, costs a tenth of a greedy search with a tiny model.
        copied.__dict__.update(vars(module) | module._parameters | module._buffers | children)
        copied.__dict__.update(training=False, _modules=children)
        if isinstance(module, nn.Linear):
            copied.__dict__["weight"] = self._pack(module.weight, packed)

        if can_call_directly(module):
            is_packed = isinstance(copied.__dict__.get("weight"), PackedWeight)
            copied.__class__ = _called_directly(type(module), is_packed)
        return copied

    def _pack(self, weight: Tensor, packed: dict[int, tuple[Tensor, int, int, Tensor]]) -> Tensor:
        """Return the packed weight that is known from an earlier copy, or a new one if the weight has changed since."""
        # What changes when a weight is replaced or written to.
        state = (weight.data_ptr(), weight._version)
        entry = packed.get(id(weight)) or self._packed.get(id(weight))
        if entry is None or entry[1:3] != state:
            entry = weight, *state, _pack_weight(weight)
        # The entry holds the weight itself, so that no other tensor gets its id.
        packed[id(weight)] = entry
        return entry[3]


def can_call_directly(module: nn.Module) -> bool:
    """Whether calling a module runs `forward` of its class and nothing else: no hook, no `forward` of its own."""
    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )
    return not any(hooks) and "forward" not in vars(module)


@cache
def _called_directly(kind: type[nn.Module], is_packed: bool) -> type[nn.Module]:
    """Return a subclass that differs in one thing: a call is `forward`, or what `forward` itself would call at last."""
    call = kind.forward
    if is_packed and call is nn.Linear.forward:
        call = _multiply_packed
    elif call is nn.LayerNorm.forward:
        call = normalize
    return type(kind.__name__, (kind,), {"__call__": call, "__module__": kind.__module__})


def _multiply_packed(linear: nn.Linear, x: Tensor) -> Tensor:
    """Return x W^T + b for a linear layer whose weight is packed."""
    # Without the way through `__torch_function__`, which costs as much as a small product.
    weight: Any = linear.weight
    return weight.project(x, linear.bias)


def normalize(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """Return what a LayerNorm makes of x."""
    # Without `F.layer_norm`, whose checks take a third of the time for the few rows of a step.
    return torch.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
