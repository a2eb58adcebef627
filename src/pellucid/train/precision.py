"""What the products of a run are made in: bfloat16 where that is asked for and built in, float32 elsewhere."""

import platform
from contextlib import AbstractContextManager

import torch


def products_in(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Matrix products in bfloat16 where asked and built in; everything else, weights and sums, stays float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16" and built_in(device))


def built_in(device: torch.device) -> bool:
    """Whether the device multiplies in bfloat16 by itself: imitated, that takes many times as long as float32.

    Of processors, those with AVX512-BF16 or ARM's BF16, if this torch was built with oneDNN, which knows how.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    known = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    if known is None or not known():
        return False
    # With AVX512 alone oneDNN says yes, and imitates.
    return platform.machine().lower() not in ("x86_64", "amd64") or torch.cpu._is_avx512_bf16_supported()  # pyright: ignore[reportPrivateUsage]


def replaced(precision: str, device: torch.device) -> str | None:
    """What to say where another precision is taken than was asked for."""
    if precision != "bfloat16" or built_in(device):
        return None
    where = "this GPU" if device.type == "cuda" else "this processor"
    return f"train.precision = bfloat16, which {where} does not have built in: products are made in float32"
