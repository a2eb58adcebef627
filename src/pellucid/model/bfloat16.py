"""Native bfloat16 on this device: where it is only emulated, it is many times slower than float32."""

import platform

import torch


def has_native_bfloat16(device: torch.device) -> bool:
    """Whether the device itself multiplies in bfloat16, instead of emulating it, which is slower than float32.

    Processors with AVX512-BF16 or ARM's BF16 do, if this torch was built with oneDNN, which has the kernels.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # A private operator: a torch built without oneDNN has none.
    onednn_supports_bfloat16 = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    if onednn_supports_bfloat16 is None or not onednn_supports_bfloat16():
        return False
    # With AVX512 alone oneDNN says yes, and emulates.
    return platform.machine().lower() not in ("x86_64", "amd64") or torch.cpu._is_avx512_bf16_supported()  # pyright: ignore[reportPrivateUsage]


def describe_missing_bfloat16(device: torch.device) -> str:
    """Say that the device has no native bfloat16, in words that follow "bfloat16, which "."""
    return f"this {'GPU' if device.type == 'cuda' else 'processor'} does not have built in"
