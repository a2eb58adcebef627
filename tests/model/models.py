"""Small random models of every kind, in float64, and sentences for them."""

from itertools import product

import pytest
import torch
from torch import Tensor

from pellucid.model import ModelConfig, Transformer
from pellucid.model.positions import POSITIONS

NORMS, ACTIVATIONS, TIES = ("pre", "post", "rms"), ("relu", "gelu", "swiglu"), ("all", "decoder", "none")
EVERY_PAIR = [  # each value of each option with each value of each other option
    {"norm": NORMS[n], "positions": positions, "activation": ACTIVATIONS[(n + p) % 3], "tie": TIES[(n + 2 * p) % 3]}
    for p, positions in enumerate(POSITIONS)
    for n in range(3)
]
EVERY_FORMULA = [  # every norm, position encoding and activation together; twelve of these are those above
    {"norm": norm, "positions": positions, "activation": activation, "tie": TIES[(n + 2 * p + f) % 3]}
    for (p, positions), (n, norm) in product(enumerate(POSITIONS), enumerate(NORMS))
    for f, activation in enumerate([*ACTIVATIONS[(n + p) % 3 :], *ACTIVATIONS[: (n + p) % 3]])
]
every_option = pytest.mark.parametrize(
    "options",
    [
        pytest.param(options, id=" ".join(options.values()), marks=() if options in EVERY_PAIR else pytest.mark.slow)
        for options in EVERY_FORMULA
    ],
)


def small_config(**options) -> ModelConfig:
    """Return a config in which every size is another number; d_model is 3 heads of 10."""
    sizes = {"d_model": 30, "d_ff": 17, "heads": 3, "encoder_layers": 1, "decoder_layers": 2, "max_positions": 53}
    source = 29 if options.get("tie", "all") == "all" else 31
    return ModelConfig(**{"source_vocabulary": source, "target_vocabulary": 29, **sizes, **options})


def small_model(seed: int = 1, **options) -> Transformer:
    """Return a random model in evaluation, with no weight at a special value: no norm is 1, no bias 0."""
    torch.manual_seed(seed)
    return add_noise(Transformer(small_config(**options)).double().eval())


def add_noise(module):
    """Add a little noise to every weight of a module, and return it."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return module


def sentences(lengths: list[int], vocabulary: int = 29, seed: int = 1) -> Tensor:
    """Return rows of random tokens, each with EOS last, padded to the longest."""
    torch.manual_seed(seed)
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
    for row, length in zip(ids, lengths, strict=True):
        row[: length - 1] = torch.randint(4, vocabulary, (length - 1,))
        row[length - 1] = 3
    return ids
