"""Greedy search and sampling: one token at each position, the likeliest or a drawn one, until that is EOS."""

from collections.abc import Callable, Sequence
from itertools import chain

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
    rank_hypotheses,
    stable_topk,
)

# Choose the next token of each row, from log-probabilities, the sentence of each row and the
# position (from 0). The second result is the margin of each choice: how near another token came.
ChoosePiece = Callable[[Float[Tensor, "R V"], Int[Tensor, " R"], int], tuple[Int[Tensor, " R"], Float[Tensor, " R"]]]


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
    """Return one hypothesis for each sentence, of at most `limits` tokens, EOS included.

    A tie goes to the lower id. The length penalty changes only the score that is reported. Sampling
    is this search with another `choose`.
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
        last_log_probs = log_probs.gather(1, last_tokens[:, None])
        token_log_probs = torch.cat([token_log_probs, last_log_probs], dim=1)
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


def sample_search(
    step: Step,
    state: SearchState,
    limits: Int[Tensor, " B"],
    draws: Float[Tensor, "B N T"],
    *,
    temperature: float,
    top_k: int,
    top_p: float,
    length_penalty: float,
    rules: Sequence[Rule] = (forbidden_rule(),),
) -> list[list[Hypothesis]]:
    """Return N hypotheses of each sentence, best first, of at most `limits` tokens with EOS.

    Some may be equal. `draws` are numbers from [0, 1), one for each token that may be written, and
    all the randomness there is: a hypothesis depends on its own row of them and on no other.
    Log-probabilities and scores come from the model itself, before temperature and cuts.
    """
    sentences, copies, _ = draws.shape
    rows = torch.arange(sentences, device=limits.device).repeat_interleave(copies)
    state.select(rows, rows)  # from here on each draw is a sentence of its own
    uniform = draws.flatten(0, 1)

    def choose(log_probs, numbers, position):
        tokens = draw_piece(log_probs, uniform[numbers, position], temperature, top_k, top_p)
        # A draw has no runner-up, so its margin is infinite: no sample is searched again as a close
        # call.
        return tokens, torch.full_like(log_probs[:, 0], torch.inf)

    def rule_for_draws(log_probs, tokens, numbers):
        for rule in rules:  # which know sentences; each sentence has `copies` draws in a row
            rule(log_probs, tokens, numbers // copies)

    options = {"length_penalty": length_penalty, "rules": [rule_for_draws], "choose": choose}
    hypotheses = greedy_search(step, state, limits[rows], **options)
    draws_of_sentences = (hypotheses[i : i + copies] for i in range(0, len(hypotheses), copies))
    return [rank_hypotheses([*chain.from_iterable(draws)]) for draws in draws_of_sentences]


def draw_piece(
    log_probs: Float[Tensor, "R V"],
    uniform: Float[Tensor, " R"],
    temperature: float,
    top_k: int,
    top_p: float,
) -> Int[Tensor, " R"]:
    """Return the token whose interval of [0, 1) the uniform number falls in, the tokens being laid side by side.

    softmax(log p / temperature); of that the `top_k` likeliest (Fan et al. 2018; 0: all); of those,
    renormalised, the fewest whose probabilities reach `top_p` (nucleus sampling, Holtzman et al.
    2020; 1: all), renormalised again.

    >>> p = torch.tensor([[0.2, 0.5, 0.3]])
    >>> [draw_piece(p.log(), torch.tensor([u]), 1.0, 0, 0.7).item() for u in (0.0, 0.62, 0.63, 0.99)]
    [1, 1, 2, 2]
    """
    vocabulary = log_probs.shape[1]
    if top_k:
        ordered, tokens = stable_topk(log_probs, min(top_k, vocabulary))
    elif top_p < 1.0:
        ordered, tokens = log_probs.sort(dim=1, descending=True, stable=True)
    else:  # nothing is cut, so the order does not matter
        ordered = log_probs
        tokens = torch.arange(vocabulary, device=log_probs.device).expand_as(log_probs)

    probs = (ordered / temperature).softmax(dim=1)
    # What the likelier tokens have together: the first one always stays.
    probs_before = probs.cumsum(dim=1) - probs
    probs = torch.where(probs_before < top_p, probs, 0.0)
    ends = probs.cumsum(dim=1)
    rank = torch.searchsorted(ends, uniform[:, None].to(probs.dtype) * ends[:, -1:], right=True)
    # Rounding may carry a draw past the end.
    rank = rank.minimum((ends < ends[:, -1:]).sum(dim=1, keepdim=True))
    return tokens.gather(1, rank)[:, 0]
