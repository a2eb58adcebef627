"""Several models that translate together: the mean of their probabilities, piece by piece."""

from collections.abc import Sequence
from functools import reduce
from math import exp, fsum, log

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.bundle import Bundle
from pellucid.data.tokenizer import PieceModel
from pellucid.decode.search import SearchState, Step


class EnsembleState:
    """The states of several steps, which keep the same rows and sentences."""

    def __init__(self, states: Sequence[SearchState]):
        self.states = states

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        for state in self.states:
            state.select(rows, sentences)


def ensemble_step(steps: Sequence[Step]) -> Step:
    """One step for several of one vocabulary: log((p_1 + ... + p_M) / M), the mean of their probabilities.

    The mean of log-probabilities instead would let one model alone rule a piece out. The step's state is an
    `EnsembleState`. What it returns are log-probabilities already, which their log-softmax does not change, in float32
    at least.
    """

    def step(ids: Int[Tensor, " R"], state: EnsembleState) -> Float[Tensor, "R V"]:
        log_probs = [
            logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
            for logits in (each(ids, own) for each, own in zip(steps, state.states, strict=True))
        ]
        return reduce(torch.logaddexp, log_probs) - log(len(steps))

    return step


def mean_log_probs(scored: Sequence[list[list[float]]]) -> list[list[float]]:
    """What the ensemble thinks of given pieces, from what each model thinks of them: the same mean, for `forced`.

    >>> [[first, second]] = mean_log_probs([[[log(0.5), -1.0]], [[log(0.3), -1.0]]])
    >>> round(exp(first), 9), second
    (0.4, -1.0)
    """
    return [[log_mean_exp(each) for each in zip(*sentence, strict=True)] for sentence in zip(*scored, strict=True)]


def log_mean_exp(log_probs: Sequence[float]) -> float:
    """log of the mean of exp; the largest is taken out first, so that none of them is rounded to log of 0."""
    largest = max(log_probs)
    return largest + log(fsum(exp(each - largest) for each in log_probs) / len(log_probs))


def require_one_vocabulary(bundles: Sequence[Bundle]) -> None:
    """ValueError, naming every directory whose tokenizer is not that of the first: their piece numbers differ."""
    first, *others = bundles
    problems = [
        f"{each.directory} ({', '.join(found)})" for each in others if (found := tokenizer_differences(first, each))
    ]
    if problems:
        raise ValueError(
            f"models that translate together need one tokenizer, and these have another than {first.directory}: "
            f"{'; '.join(problems)}; train them on the same pairs with the same [tokenizer] settings"
        )


def tokenizer_differences(one: Bundle, other: Bundle) -> list[str]:
    """In what two tokenizers are not the same; an imported one lists its pieces beside its SentencePiece model."""
    a, b = one.tokenizer, other.tokenizer
    sides = {"source": (a.source, b.source), "target": (a.target, b.target)}
    pieces = [f"{name} pieces" for name, (x, y) in sides.items() if vocabulary_content(x) != vocabulary_content(y)]
    settings = [] if a.lowercase == b.lowercase else [f"lowercase {b.lowercase}"]
    return pieces + settings


def vocabulary_content(side: PieceModel) -> tuple[bytes, list[str]]:
    """What decides how a side cuts text and numbers the pieces."""
    return side.serialized_model_proto(), [side.id_to_piece(number) for number in range(side.vocab_size())]
