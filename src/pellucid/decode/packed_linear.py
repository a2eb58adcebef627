"""Linear layer for few rows and constant weights, by the kernel that is fastest on this machine."""

import platform

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from pellucid.model.bfloat16 import has_native_bfloat16

_LARGE = 2**16
"""Size of a matrix from which the packed product is faster: it takes 15 microseconds to begin."""


class PackedLinear:
    """x W^T + b, with a large W packed once for oneDNN where that is available.

    For few rows it then takes a half to nine tenths of the time of torch's own product (benchmarks/results/translate.md
    has what that gives), in the same precision.
    """

    def __init__(self, weight: Float[Tensor, "O K"], bias: Float[Tensor, " O"] | None):
        self.weight = weight
        self.bias = bias
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach()) if can_pack(weight) else None

    def __call__(self, x: Float[Tensor, "R K"]) -> Float[Tensor, "R O"]:
        if self.packed is None:
            return F.linear(x, self.weight, self.bias)
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")


def can_pack(weight: Tensor) -> bool:
    """Return whether this matrix can be packed on this machine and packing pays."""
    # The operators are those of torch.compile.
    if weight.device.type != "cpu" or platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    if weight.dtype == torch.bfloat16:
        return has_native_bfloat16(weight.device)
    return weight.dtype == torch.float32 and weight.numel() >= _LARGE
