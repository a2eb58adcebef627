"""Influence of training pairs on one choice of a piece, by gradients of the output layer, without a backward pass.

The output layer computes z = W h + b. The gradient of a loss by W is the sum over tokens of d h^T, with d = softmax(z)
- q, where q is the distribution that the loss asks for. So the product of two such gradients needs no gradient:

    <gradient of pair, gradient of choice> = sum over tokens t of the pair of (h_t . h) (d_t . d)

A step of gradient descent on the pair raises the choice's log-probability by the learning rate times this. Summed over
checkpoints it is TracIn (Pruthi et al. 2020, 3.2), here of the last layer (their 4.2) and without the learning rates,
which say little of the steps that Adam or Muon take.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.data.batching import EncodedPairs
from pellucid.data.stream import pack_sentences
from pellucid.data.tokenizer import BOS
from pellucid.influence.state_store import teacher_forced_states
from pellucid.model import Transformer

_ROWS_AT_ONCE = 512
"""Tokens whose probabilities are computed at a time: rows of as many numbers as there are pieces."""


@dataclass(frozen=True)
class PieceChoice:
    """A choice of one piece: the source, the target it is part of, with EOS, and its index there."""

    source: list[int]
    target: list[int]
    index: int

    @property
    def token(self) -> int:
        """Id of the piece that was chosen."""
        return self.target[self.index]


def sum_influences(
    models: Iterable[Transformer], pairs: EncodedPairs, choice: PieceChoice, smoothing: float
) -> Float[Tensor, " N"]:
    """Return the influence of each of N pairs on a choice, summed over the models of several checkpoints.

    `smoothing` is that of the loss in training. Above 0: training on the pair made the choice likelier.
    """
    return sum((pair_influences(model, pairs, choice, smoothing) for model in models), torch.zeros(len(pairs)))


@torch.no_grad()
def pair_influences(
    model: Transformer, pairs: EncodedPairs, choice: PieceChoice, smoothing: float
) -> Float[Tensor, " N"]:
    """Return the product of the gradient of each pair's loss with that of the choice, -log p(piece), by one model."""
    h = choice_state(model, choice)
    d = model.logits(h[None, None])[0, 0].softmax(dim=0)
    d[choice.token] -= 1
    # The gradient by a bias is d alone, as if every state had one more number, 1.
    bias = 0.0 if model.output_bias is None else 1.0
    states, tokens = teacher_forced_states(model, pairs), torch.from_numpy(pairs.targets.ids.astype("int64"))
    influences = torch.empty(len(tokens))
    for first in range(0, len(tokens), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        p = model.logits(states[None, rows])[0].softmax(dim=1)
        # d_t . d with q_t = (1 - smoothing) on the token + smoothing spread evenly, without forming q_t
        products = p @ d - (1 - smoothing) * d[tokens[rows]] - smoothing * d.mean()
        influences[rows] = (states[rows] @ h + bias) * products
    lengths = torch.from_numpy(pairs.targets.lengths.astype("int64"))
    pair_of_token = torch.repeat_interleave(torch.arange(len(pairs)), lengths)
    return torch.zeros(len(pairs)).index_add_(0, pair_of_token, influences)


@torch.no_grad()
def choice_state(model: Transformer, choice: PieceChoice) -> Float[Tensor, " D"]:
    """Return the state from which the model makes the choice."""
    before = torch.tensor([[BOS, *choice.target[: choice.index]]])
    return model.states(torch.tensor([choice.source]), before)[0, -1].float()


def select_pairs(pairs: EncodedPairs, numbers: Sequence[int]) -> EncodedPairs:
    """Return some of the pairs, in this order, in memory."""
    sources, targets = (
        pack_sentences([side[i].tolist() for i in numbers], side.ids.dtype.type)
        for side in (pairs.sources, pairs.targets)
    )
    return EncodedPairs(sources, targets)
