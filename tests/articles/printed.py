"""Numbers that the first of the five articles prints, for the tests that compute them again."""

import torch

SCALED = torch.tensor(
    [[13.75, 11.50, 7.75, 7.50], [11.88, 12.38, 11.25, 10.0], [8.13, 11.25, 13.75, 8.75], [7.5, 11.25, 9.38, 13.13]],
    dtype=torch.float64,
)
"""Q K^T / 8 of a sentence of four words (step 2), which its code calls V."""

PATTERN = torch.tensor(
    [
        [0.90105641, 0.09497065, 0.0022335, 0.00173945],
        [0.29994872, 0.49453184, 0.15975023, 0.04576921],
        [0.00331791, 0.07513861, 0.91537572, 0.00616775],
        [0.00304195, 0.12934693, 0.01993542, 0.8476757],
    ],
    dtype=torch.float64,
)
"""Softmax of each row of `SCALED`."""

Z = torch.tensor(
    [
        [4.18336201, 0.65278898, 4.22437426],
        [5.94802206, 3.00072113, 4.4028484],
        [3.09529998, 1.49925765, 9.9459073],
        [4.76015677, 2.69495094, 2.17709763],
    ],
    dtype=torch.float64,
)
"""Three columns of the output, which are all that the article shows (step 3)."""

LOGITS = {"azul": 40.0, "cielo": 51.0, "El": 43.0, "es": 38.0}
PROBABILITIES = {"azul": 0.005, "cielo": 0.973, "El": 0.015, "es": 0.007}
