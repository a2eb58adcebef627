"""Ensembles: several models translate together by the mean of their probabilities, token by token."""

from collections.abc import Sequence
from functools import reduce
from math import exp, fsum, log

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.tokenizer import PieceModel
from pellucid.decode.search import SearchState, Step
from pellucid.store.directory import Bundle


class EnsembleState:
    """States of several steps, which always keep the same rows and sentences."""

    def __init__(self, states: Sequence[SearchState]):
        self.states = states

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        """Keep these old rows and sentences of every state."""
        for state in self.states:
            state.select(rows, sentences)


def ensemble_step(steps: Sequence[Step]) -> Step:
    """Make one step of several with the same vocabulary: log((p_1 + ... + p_M) / M), the mean of their probabilities.

    The state of the step is an `EnsembleState`. It returns log-probabilities, in float32 at least, instead of logits.
    """

    def step(ids: Int[Tensor, " R"], state: EnsembleState) -> Float[Tensor, "R V"]:
        log_probs = [
            logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
            for logits in (
                model_step(ids, own_state) for model_step, own_state in zip(steps, state.states, strict=True)
            )
        ]
        # The mean of log-probabilities instead would let one model alone rule a token out. The searches take another
        # log-softmax of this, which leaves log-probabilities as they are.
        return reduce(torch.logaddexp, log_probs) - log(len(steps))

    return step


def mean_log_probs(scored: Sequence[list[list[float]]]) -> list[list[float]]:
    """Return the ensemble's log-probabilities of given tokens, from those of each model, as in `ensemble_step`.

    >>> [[first, second]] = mean_log_probs([[[log(0.5), -1.0]], [[log(0.3), -1.0]]])
    >>> round(exp(first), 9), second
    (0.4, -1.0)
    """
    return [
        [log_mean_exp(log_probs) for log_probs in zip(*sentence, strict=True)] for sentence in zip(*scored, strict=True)
    ]


def log_mean_exp(log_probs: Sequence[float]) -> float:
    """Return the logarithm of the mean of the exponentials."""
    # The largest is taken out first: exp of a very small number would be rounded to 0, of which there is no logarithm.
    largest = max(log_probs)
    return largest + log(fsum(exp(log_prob - largest) for log_prob in log_probs) / len(log_probs))


def require_one_vocabulary(bundles: Sequence[Bundle]) -> None:
    """Raise ValueError, naming every directory whose tokenizer differs from that of the first: token ids must agree."""
    first, *others = bundles
    problems = [
        f"{other.directory} ({', '.join(differences)})"
        for other in others
        if (differences := tokenizer_differences(first, other))
    ]
    if problems:
        raise ValueError(
            f"models that translate together need the same tokenizer, and these have another than {first.directory}: "
            f"{'; '.join(problems)}; train them on the same pairs with the same [tokenizer] settings"
        )


def tokenizer_differences(first: Bundle, second: Bundle) -> list[str]:
    """List the respects in which the tokenizers of two bundles differ."""
    a, b = first.tokenizer, second.tokenizer
    sides = {"source": (a.source, b.source), "target": (a.target, b.target)}
    pieces = [f"{name} pieces" for name, (x, y) in sides.items() if vocabulary_content(x) != vocabulary_content(y)]
    settings = [] if a.lowercase == b.lowercase else [f"lowercase {b.lowercase}"]
    return pieces + settings


def vocabulary_content(side: PieceModel) -> tuple[bytes, list[str]]:
    """Return everything that decides how one side cuts text and numbers the pieces."""
    # An imported tokenizer lists its pieces beside its SentencePiece model, so the model alone would not tell.
    return side.serialized_model_proto(), [side.id_to_piece(number) for number in range(side.vocab_size())]
