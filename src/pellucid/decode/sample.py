"""Sampling: tokens are drawn from the model's distribution, sharpened by a temperature and cut by top-k and top-p."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.decode.greedy import greedy_search
from pellucid.decode.request import Hypothesis
from pellucid.decode.search import Rule, SearchState, Step, forbidden_rule, rank_hypotheses, stable_topk


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
    """Return N hypotheses of each sentence, best first, of at most `limits` tokens with EOS; some may be equal.

    `draws` are numbers from [0, 1), one for each token that may be written, and all the randomness there is: a
    hypothesis depends on its own row of them and on no other. Log-probabilities and scores are those of the model
    itself, before temperature and cuts.
    """
    sentences, copies, _ = draws.shape
    rows = torch.arange(sentences, device=limits.device).repeat_interleave(copies)
    state.select(rows, rows)  # from here on each draw is a sentence of its own
    uniform = draws.flatten(0, 1)

    def choose(log_probs, numbers, position):
        tokens = draw_piece(log_probs, uniform[numbers, position], temperature, top_k, top_p)
        # A draw has no runner-up, so its margin is infinite: no sample is searched again as a close call.
        return tokens, torch.full_like(log_probs[:, 0], torch.inf)

    def rule_for_draws(log_probs, tokens, numbers):
        for rule in rules:  # which know sentences, of which each has `copies` draws in a row
            rule(log_probs, tokens, numbers // copies)

    options = {"length_penalty": length_penalty, "rules": [rule_for_draws], "choose": choose}
    hypotheses = greedy_search(step, state, limits[rows], **options)
    by_sentence = [
        [hypothesis for draw in hypotheses[i : i + copies] for hypothesis in draw]
        for i in range(0, len(hypotheses), copies)
    ]
    return [rank_hypotheses(samples) for samples in by_sentence]


def draw_piece(
    log_probs: Float[Tensor, "R V"], uniform: Float[Tensor, " R"], temperature: float, top_k: int, top_p: float
) -> Int[Tensor, " R"]:
    """Return the token whose interval of [0, 1) the uniform number falls in, the tokens being laid side by side.

    softmax(log p / temperature); of that the `top_k` likeliest (Fan et al. 2018; 0: all); of those, renormalised, the
    fewest whose probabilities reach `top_p` (nucleus sampling, Holtzman et al. 2020; 1: all), renormalised again.

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
        ordered, tokens = log_probs, torch.arange(vocabulary, device=log_probs.device).expand_as(log_probs)
    probs = (ordered / temperature).softmax(dim=1)
    probs_before = probs.cumsum(dim=1) - probs  # what the likelier tokens have together: the first one always stays
    probs = torch.where(probs_before < top_p, probs, 0.0)
    ends = probs.cumsum(dim=1)
    rank = torch.searchsorted(ends, uniform[:, None].to(probs.dtype) * ends[:, -1:], right=True)
    rank = rank.minimum((ends < ends[:, -1:]).sum(dim=1, keepdim=True))  # rounding may carry a draw past the end
    return tokens.gather(1, rank)[:, 0]
