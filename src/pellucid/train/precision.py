"""What the products of a run are made in: bfloat16 where that is asked for and built in, float32 elsewhere."""

from contextlib import AbstractContextManager

import torch

from pellucid.model.bfloat16 import describe_missing_bfloat16, has_native_bfloat16


def autocast_products(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Matrix products in bfloat16 where asked and built in; everything else, weights and sums, stays float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16" and has_native_bfloat16(device))


def explain_float32(precision: str, device: torch.device) -> str | None:
    """What to say where another precision is taken than was asked for."""
    if precision != "bfloat16" or has_native_bfloat16(device):
        return None
    return f"train.precision = bfloat16, which {describe_missing_bfloat16(device)}: products are made in float32"
