"""Whether bfloat16 is worth asking for: what has it built in halves the time, what imitates it multiplies it."""

import platform

import torch


def has_native_bfloat16(device: torch.device) -> bool:
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


def describe_missing_bfloat16(device: torch.device) -> str:
    """What has no bfloat16, in words: after "bfloat16, which "."""
    return f"this {'GPU' if device.type == 'cuda' else 'processor'} does not have built in"
