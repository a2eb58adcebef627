"""Greedy search: the likeliest token at each position, until that is EOS."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.request import Hypothesis
from pellucid.decode.search import (
    FinishedHypotheses,
    Rule,
    SearchState,
    SearchStep,
    Step,
    StepObserver,
    apply_rules,
    forbidden_rule,
    stable_topk,
)

ChoosePiece = Callable[[Float[Tensor, "R V"], Int[Tensor, " R"], int], tuple[Int[Tensor, " R"], Float[Tensor, " R"]]]
"""Choose the next token of each row, from log-probabilities, the sentence of each row and the position (from 0).

The second result is the margin of each choice: how near another token came.
"""


def choose_likeliest(
    log_probs: Float[Tensor, "R V"], sentences: Int[Tensor, " R"], position: int
) -> tuple[Int[Tensor, " R"], Float[Tensor, " R"]]:
    """Return the likeliest token of each row, and how much likelier it is than the second."""
    values, tokens = stable_topk(log_probs, 2)
    return tokens[:, 0], values[:, 0] - values[:, 1]


def greedy_search(
    step: Step,
    state: SearchState,
    limits: Int[Tensor, " B"],
    *,
    length_penalty: float,
    rules: Sequence[Rule] = (forbidden_rule(),),
    choose: ChoosePiece = choose_likeliest,
    observe: StepObserver | None = None,
) -> list[list[Hypothesis]]:
    """Return one hypothesis for each sentence, of at most `limits` tokens, EOS included; a tie goes to the lower id.

    The length penalty changes only the score that is reported. Sampling is this search with another `choose`.
    """
    sentences = torch.arange(len(limits), device=limits.device)
    last_tokens = torch.full_like(sentences, BOS)
    # BOS is no part of a hypothesis: `tokens` starts with no column, and grows by one a step.
    tokens = last_tokens.new_empty(len(limits), 0)
    token_log_probs = torch.empty(len(limits), 0, device=limits.device)
    margins = torch.full_like(token_log_probs.sum(dim=1), torch.inf)
    finished = FinishedHypotheses(length_penalty, len(limits))
    remaining = limits
    while len(sentences):
        log_probs = apply_rules(step(last_tokens, state), rules, tokens, sentences)
        last_tokens, margin = choose(log_probs, sentences, tokens.shape[1])
        if observe is not None:
            observe(_choice_as_step(log_probs, token_log_probs, sentences, last_tokens))
        margins = margins.minimum(margin)
        tokens = torch.cat([tokens, last_tokens[:, None]], dim=1)
        token_log_probs = torch.cat([token_log_probs, log_probs.gather(1, last_tokens[:, None])], dim=1)
        ended = last_tokens == EOS
        cut = ~ended & (remaining <= tokens.shape[1])
        active = (~ended & ~cut).nonzero()[:, 0]
        # A finished sentence leaves the batch, so that no more is computed for it.
        if len(active) < len(sentences):
            finished.add(sentences[ended], tokens[ended], token_log_probs[ended], "eos")
            finished.add(sentences[cut], tokens[cut], token_log_probs[cut], "length")
            finished.close(sentences[ended | cut], margins[ended | cut])
            state.select(active, active)
            sentences, remaining, last_tokens, tokens, token_log_probs, margins = (
                x[active] for x in (sentences, remaining, last_tokens, tokens, token_log_probs, margins)
            )
    return finished.best_lists(1)


def _choice_as_step(
    log_probs: Float[Tensor, "R V"],
    token_log_probs: Float[Tensor, "R T"],
    sentences: Int[Tensor, " R"],
    chosen_tokens: Int[Tensor, " R"],
) -> SearchStep:
    """Return the likeliest tokens of each row, and which of them was chosen, for an observer."""
    gains, candidates = stable_topk(log_probs, 3)  # 3: a beam of width W looks at 2 W + 1
    is_chosen = candidates == chosen_tokens[:, None]
    totals = token_log_probs.sum(dim=1, keepdim=True) + gains
    return SearchStep(
        sentences,
        torch.zeros_like(candidates),  # one hypothesis a sentence, so every parent is the first
        candidates,
        gains,
        totals,
        is_chosen & (candidates != EOS),
        is_chosen & (candidates == EOS),
    )
