"""Beam search: the W best hypotheses of each sentence grow side by side, one token a step."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.request import Hypothesis, length_divisor
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


def beam_search(
    step: Step,
    state: SearchState,
    limits: Int[Tensor, " B"],
    *,
    width: int,
    n_best: int,
    length_penalty: float,
    rules: Sequence[Rule] = (forbidden_rule(),),
    observe: StepObserver | None = None,
) -> list[list[Hypothesis]]:
    """Return the best `n_best` (at most `width`) hypotheses of each sentence, of at most `limits` tokens with EOS.

    A step extends each of the W live hypotheses by every token and looks at the 2W likeliest results. An EOS among
    the first W finishes a hypothesis; the first W that do not end live on. A sentence is over when W hypotheses have
    finished, or earlier when `n_best` have and no live one can overtake them. At the limit the live ones are returned
    with stop = "length", ranked behind those that ended. Equal candidates: the earlier hypothesis goes first, then its
    likelier token, then the lower id. A width of 1 is greedy search; one as large as the number of candidates at any
    step misses nothing (tests/laws/test_search.py). `Hypothesis.margin` says how near another choice ever came.
    """
    assert 1 <= n_best <= width and length_penalty >= 0.0
    sentences = torch.arange(len(limits), device=limits.device)
    totals = torch.zeros(len(limits), 1, device=limits.device)  # a sentence begins with one hypothesis, an empty one
    best_scores = torch.full((len(limits), width), -torch.inf, device=limits.device)
    tokens = sentences.new_empty(len(limits), 1, 0)
    token_log_probs = totals.new_empty(len(limits), 1, 0)
    margins = torch.full_like(totals[:, 0], torch.inf)
    last_tokens = torch.full_like(sentences, BOS)
    finished = FinishedHypotheses(length_penalty, len(limits))
    remaining = limits
    while len(sentences):
        rows_per_sentence = totals.shape[1]
        sentence_of_row = sentences.repeat_interleave(rows_per_sentence)
        log_probs = apply_rules(step(last_tokens, state), rules, tokens.flatten(0, 1), sentence_of_row)
        # At most W of the 2 W likeliest end, one a hypothesis, so W are left to live on; one more shows the margin.
        totals, parents, new_tokens, gains = best_continuations(log_probs, totals, 2 * width + 1)
        tokens = torch.cat([_gather_along(tokens, parents), new_tokens[:, :, None]], dim=2)
        token_log_probs = torch.cat([_gather_along(token_log_probs, parents), gains[:, :, None]], dim=2)
        length = tokens.shape[2]

        ends = new_tokens == EOS
        ended = ends & (totals != -torch.inf)
        ended[:, width:] = False
        finished.add(sentences[ended.nonzero()[:, 0]], tokens[ended], token_log_probs[ended], "eos")
        scores = torch.where(ended, totals / length_divisor(length, length_penalty), -torch.inf)
        best_scores = torch.cat([best_scores, scores], dim=1).topk(width).values

        # How near another candidate came to be among the first W, where that decides whether one finishes.
        rank_margin = torch.where(
            ends[:, width - 1] | ends[:, width], totals[:, width - 1] - totals[:, width], torch.inf
        )
        # Stable, so those that do not end come first and stay in order of their totals.
        live_first = ends.to(torch.uint8).argsort(dim=1, stable=True)
        first_dropped = _gather_along(totals, live_first[:, width : width + 1])[:, 0]
        if observe is not None:
            kept = torch.zeros_like(ends).scatter(1, live_first[:, :width], True) & (totals != -torch.inf)
            observe(SearchStep(sentences, parents, new_tokens, gains, totals, kept, ended))
        totals, parents, tokens, token_log_probs = (
            _gather_along(x, live_first[:, :width]) for x in (totals, parents, tokens, token_log_probs)
        )
        # A live hypothesis can score no better: its log-probability only falls, its divisor is at most the limit's.
        best_possible = totals[:, 0] / length_divisor(remaining, length_penalty)
        at_limit = remaining <= length
        over = at_limit | (best_scores[:, -1] != -torch.inf) | (best_scores[:, n_best - 1] >= best_possible)
        cut = at_limit[:, None] & (totals != -torch.inf)
        finished.add(sentences[cut.nonzero()[:, 0]], tokens[cut], token_log_probs[cut], "length")

        margins = _smallest_margin(
            margins, rank_margin, totals[:, -1] - first_dropped, (best_scores[:, n_best - 1] - best_possible).abs()
        )
        finished.close(sentences[over], margins[over])
        active = (~over).nonzero()[:, 0]
        # Parents count within a sentence; the state knows rows of the whole batch, as they were before this step.
        rows = (torch.arange(len(sentences), device=limits.device)[:, None] * rows_per_sentence + parents)[active]
        state.select(rows.flatten(), active)
        sentences, remaining, totals, best_scores, tokens, token_log_probs, margins = (
            x[active] for x in (sentences, remaining, totals, best_scores, tokens, token_log_probs, margins)
        )
        last_tokens = tokens[:, :, -1].flatten()
    return finished.best_lists(n_best)


def best_continuations(
    log_probs: Float[Tensor, "R V"], totals: Float[Tensor, "B W"], count: int
) -> tuple[Float[Tensor, "B N"], Int[Tensor, "B N"], Int[Tensor, "B N"], Float[Tensor, "B N"]]:
    """Return the `count` likeliest continuations of each sentence, best first: total, parent (0 to W - 1), token, gain.

    Where a small vocabulary has fewer, impossible ones fill the rest.
    """
    # No sentence can take more than `count` from one hypothesis, so each hypothesis offers that many.
    gains, tokens = (x.view(*totals.shape, -1) for x in stable_topk(log_probs, min(count, log_probs.shape[1])))
    offers = totals[:, :, None] + gains
    # Stable, so of equal candidates the earlier hypothesis goes first.
    order = offers.flatten(1).argsort(dim=1, descending=True, stable=True)[:, :count]
    best = _gather_along(offers.flatten(1), order), order // offers.shape[2], _gather_along(tokens.flatten(1), order)
    missing = (0, count - order.shape[1])
    best_totals, parents, tokens, gains = *best, _gather_along(gains.flatten(1), order)
    return (
        F.pad(best_totals, missing, value=-torch.inf),
        F.pad(parents, missing),
        F.pad(tokens, missing),
        F.pad(gains, missing),
    )


def _smallest_margin(*margins: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Return the smallest margin of each sentence; a difference between two impossible candidates does not count."""
    # inf - inf is NaN, and as a minimum NaN would win.
    return torch.stack([margin.nan_to_num(torch.inf, posinf=torch.inf) for margin in margins]).amin(dim=0)


def _gather_along(x: Tensor, indices: Int[Tensor, "B N"]) -> Tensor:
    """Return x[b, indices[b, n]] for every b and n; x may have any further dimensions."""
    index = indices.view(*indices.shape, *[1] * (x.dim() - 2)).expand(*indices.shape, *x.shape[2:])
    return x.gather(1, index)
