"""The product of a few rows with a matrix that stays: by the kernel that is quickest at it here."""

import platform

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

_WORTH_PACKING_FOR_ONE = 2**20
"""Numbers in a matrix from which the packed product is quicker even for a single row."""


class Product:
    """x W^T + b, with W packed once for oneDNN where that is to be had.

    Beside speed for few rows it gives each row the same bits whatever rows stand beside it; torch's own product does
    not. A single row takes torch's all the same where the matrix is small, which is twice as quick.
    """

    def __init__(self, weight: Float[Tensor, "O K"], bias: Float[Tensor, " O"] | None):
        self.weight = weight
        self.bias = bias
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach()) if packs(weight) else None

    def __call__(self, x: Float[Tensor, "R K"]) -> Float[Tensor, "R O"]:
        if self.packed is None:
            return F.linear(x, self.weight, self.bias)
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")


def packs(weight: Tensor) -> bool:
    """Whether a matrix of this kind can be packed on this machine; the operators are torch's own compiler's."""
    if weight.device.type != "cpu" or platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    if weight.dtype == torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return weight.dtype == torch.float32
