"""Number format of a run's matrix products: bfloat16 where it is requested and built in, float32 elsewhere."""

from contextlib import AbstractContextManager

import torch

from pellucid.model.bfloat16 import describe_missing_bfloat16, has_native_bfloat16


def autocast_products(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which matrix products are bfloat16, if requested and built in, and all else stays float32."""
    # Emulated bfloat16 would be slower than float32, so it is not used even if requested.
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16" and has_native_bfloat16(device))


def explain_float32(precision: str, device: torch.device) -> str | None:
    """Return a sentence that explains why another precision than the requested one is used, if so."""
    if precision != "bfloat16" or has_native_bfloat16(device):
        return None
    return f"train.precision = bfloat16, which {describe_missing_bfloat16(device)}: products are made in float32"
