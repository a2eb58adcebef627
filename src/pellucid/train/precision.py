"""What the products of a run are made in: bfloat16 where that is asked for and built in, float32 elsewhere."""

from contextlib import AbstractContextManager

import torch

from pellucid.model.bfloat16 import built_in, lacking


def products_in(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Matrix products in bfloat16 where asked and built in; everything else, weights and sums, stays float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16" and built_in(device))


def replaced(precision: str, device: torch.device) -> str | None:
    """What to say where another precision is taken than was asked for."""
    if precision != "bfloat16" or built_in(device):
        return None
    return f"train.precision = bfloat16, which {lacking(device)}: products are made in float32"
