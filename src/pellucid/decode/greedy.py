"""Greedy search: at each position the likeliest piece, until that is the end mark."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.hypothesis import Hypothesis
from pellucid.decode.search import FinishedHypotheses, Rule, SearchState, Step, apply_rules, forbidden_rule, stable_topk
from pellucid.decode.search_steps import SearchStep, StepObserver

ChoosePiece = Callable[[Float[Tensor, "R V"], Int[Tensor, " R"], int], tuple[Int[Tensor, " R"], Float[Tensor, " R"]]]
"""Log-probabilities, the sentence of each row and the position (0 first): the piece each row goes on with, and how near
that choice was."""


def greedy_search(
    step: Step,
    state: SearchState,
    limits: Int[Tensor, " B"],
    *,
    length_penalty: float,
    start: int = BOS,
    end: int = EOS,
    rules: Sequence[Rule] = (forbidden_rule(),),
    observe: StepObserver | None = None,
) -> list[list[Hypothesis]]:
    """One hypothesis a sentence, of at most `limits` pieces, the end mark counted; a tie goes to the lower id.

    The length penalty changes nothing but the score that is written down.
    """
    return follow_choices(step, state, limits, choose_likeliest, length_penalty, start, end, rules, observe)


def choose_likeliest(
    log_probs: Float[Tensor, "R V"], sentences: Int[Tensor, " R"], at: int
) -> tuple[Int[Tensor, " R"], Float[Tensor, " R"]]:
    """The likeliest piece, and how much likelier it is than the next."""
    values, pieces = stable_topk(log_probs, 2)
    return pieces[:, 0], values[:, 0] - values[:, 1]


def follow_choices(
    step: Step,
    state: SearchState,
    limits: Int[Tensor, " B"],
    choose: ChoosePiece,
    length_penalty: float,
    start: int,
    end: int,
    rules: Sequence[Rule],
    observe: StepObserver | None = None,
) -> list[list[Hypothesis]]:
    """Write one hypothesis a sentence with the pieces `choose` picks; a sentence that is over leaves the batch."""
    sentences = torch.arange(len(limits), device=limits.device)
    last = torch.full_like(sentences, start)
    pieces = last.new_empty(len(limits), 0)
    gains = torch.empty(len(limits), 0, device=limits.device)
    margins = torch.full_like(gains.sum(dim=1), torch.inf)
    finished = FinishedHypotheses(length_penalty, len(limits))
    remaining = limits
    while len(sentences):
        log_probs = apply_rules(step(last, state), rules, pieces, sentences)
        last, margin = choose(log_probs, sentences, pieces.shape[1])
        if observe is not None:
            observe(choice_as_step(log_probs, gains, sentences, last, end))
        margins = margins.minimum(margin)
        pieces = torch.cat([pieces, last[:, None]], dim=1)
        gains = torch.cat([gains, log_probs.gather(1, last[:, None])], dim=1)
        ended = last == end
        cut = ~ended & (remaining <= pieces.shape[1])
        stay = (~ended & ~cut).nonzero()[:, 0]
        if len(stay) < len(sentences):
            finished.add(sentences[ended], pieces[ended], gains[ended], "eos")
            finished.add(sentences[cut], pieces[cut], gains[cut], "length")
            finished.close(sentences[ended | cut], margins[ended | cut])
            state.select(stay, stay)
            sentences, remaining, last, pieces, gains, margins = (
                x[stay] for x in (sentences, remaining, last, pieces, gains, margins)
            )
    return finished.best_lists(1)


def choice_as_step(
    log_probs: Float[Tensor, "R V"],
    gains: Float[Tensor, "R T"],
    sentences: Int[Tensor, " R"],
    last: Int[Tensor, " R"],
    end: int,
) -> SearchStep:
    """The likeliest pieces, as many as a beam of one looks at, and which of them was written."""
    gain, piece = stable_topk(log_probs, 3)
    written = piece == last[:, None]
    totals = gains.sum(dim=1, keepdim=True) + gain
    return SearchStep(
        sentences, torch.zeros_like(piece), piece, gain, totals, written & (piece != end), written & (piece == end)
    )
