"""A model that int8 ruins in one sublayer only."""

import torch

from pellucid.model import Transformer


def with_an_outlier(model: Transformer, ffn: str) -> Transformer:
    """Set a huge weight in every row of the feed-forward's outer matrix; what it is multiplied with is always zero.

    In float32 the model computes what it computed before. In int8 a row's steps are as wide as its largest weight
    asks for, and all the others become zero.
    """
    with torch.no_grad():
        model.get_parameter(f"{ffn}.inner.weight")[0] = 0.0
        model.get_parameter(f"{ffn}.inner.bias")[0] = -1.0  # the activation makes it zero
        model.get_parameter(f"{ffn}.outer.weight")[:, 0] = 1e4
    return model
