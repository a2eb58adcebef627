"""Beam search: the W best beginnings of each sentence grow side by side, a piece at a time."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.hypothesis import Hypothesis, length_divisor
from pellucid.decode.search import FinishedHypotheses, Rule, SearchState, Step, apply_rules, forbidden_rule, stable_topk
from pellucid.decode.search_steps import SearchStep, StepObserver


def beam_search(
    step: Step,
    state: SearchState,
    limits: Int[Tensor, " B"],
    *,
    width: int,
    n_best: int,
    length_penalty: float,
    start: int = BOS,
    end: int = EOS,
    rules: Sequence[Rule] = (forbidden_rule(),),
    observe: StepObserver | None = None,
) -> list[list[Hypothesis]]:
    """The best `n_best` hypotheses (at most `width`) of each sentence, of at most `limits` pieces with the end mark.

    A step grows each of the W live hypotheses by every piece and looks at the 2W likeliest results. An end mark among
    the first W finishes a hypothesis; the first W that do not end live on. A sentence is over when W hypotheses have
    finished, or earlier when `n_best` have and no live one can overtake them: its log-probability can only fall and,
    for a `length_penalty` of 0 or more, its divisor is at most that of the limit. At the limit the live ones are handed
    back with stop = "length", ranked behind those that ended. Equal candidates: the earlier hypothesis goes first, then
    its likelier piece, then the lower id. A width of 1 is greedy search; one as large as the number of candidates at
    any step misses nothing (tests/laws/test_search.py). Of every choice is noted how near the next candidate came: see
    `Hypothesis.margin`.
    """
    assert 1 <= n_best <= width and length_penalty >= 0.0
    sentences = torch.arange(len(limits), device=limits.device)
    totals = torch.zeros(len(limits), 1, device=limits.device)  # a sentence begins with one hypothesis, an empty one
    kept = torch.full((len(limits), width), -torch.inf, device=limits.device)
    pieces = sentences.new_empty(len(limits), 1, 0)
    gains = totals.new_empty(len(limits), 1, 0)
    margins = torch.full_like(totals[:, 0], torch.inf)
    last = torch.full_like(sentences, start)
    finished = FinishedHypotheses(length_penalty, len(limits))
    remaining = limits
    while len(sentences):
        rows_each = totals.shape[1]
        of_rows = sentences.repeat_interleave(rows_each)
        log_probs = apply_rules(step(last, state), rules, pieces.flatten(0, 1), of_rows)
        totals, parents, piece, gain = best_continuations(log_probs, totals, 2 * width + 1)
        pieces = torch.cat([gather_along(pieces, parents), piece[:, :, None]], dim=2)
        gains = torch.cat([gather_along(gains, parents), gain[:, :, None]], dim=2)
        length = pieces.shape[2]

        ends = piece == end
        done = ends & (totals != -torch.inf)
        done[:, width:] = False
        finished.add(sentences[done.nonzero()[:, 0]], pieces[done], gains[done], "eos")
        scores = torch.where(done, totals / length_divisor(length, length_penalty), -torch.inf)
        kept = torch.cat([kept, scores], dim=1).topk(width).values

        # How near another candidate came to be among the first W, where that decides whether one finishes.
        by_place = torch.where(ends[:, width - 1] | ends[:, width], totals[:, width - 1] - totals[:, width], torch.inf)
        live = ends.to(torch.uint8).argsort(dim=1, stable=True)
        missed = gather_along(totals, live[:, width : width + 1])[:, 0]
        if observe is not None:
            kept_ones = torch.zeros_like(ends).scatter(1, live[:, :width], True) & (totals != -torch.inf)
            observe(SearchStep(sentences, parents, piece, gain, totals, kept_ones, done))
        totals, parents, pieces, gains = (gather_along(x, live[:, :width]) for x in (totals, parents, pieces, gains))
        hope = totals[:, 0] / length_divisor(remaining, length_penalty)
        at_limit = remaining <= length
        over = at_limit | (kept[:, -1] != -torch.inf) | (kept[:, n_best - 1] >= hope)
        cut = at_limit[:, None] & (totals != -torch.inf)
        finished.add(sentences[cut.nonzero()[:, 0]], pieces[cut], gains[cut], "length")

        margins = smallest_margin(margins, by_place, totals[:, -1] - missed, (kept[:, n_best - 1] - hope).abs())
        finished.close(sentences[over], margins[over])
        stay = (~over).nonzero()[:, 0]
        rows = (torch.arange(len(sentences), device=limits.device)[:, None] * rows_each + parents)[stay]
        state.select(rows.flatten(), stay)
        sentences, remaining, totals, kept, pieces, gains, margins = (
            x[stay] for x in (sentences, remaining, totals, kept, pieces, gains, margins)
        )
        last = pieces[:, :, -1].flatten()
    return finished.best_lists(n_best)


def best_continuations(
    log_probs: Float[Tensor, "R V"], totals: Float[Tensor, "B W"], count: int
) -> tuple[Float[Tensor, "B N"], Int[Tensor, "B N"], Int[Tensor, "B N"], Float[Tensor, "B N"]]:
    """The `count` likeliest continuations of each sentence, best first: total, parent (0 to W - 1), piece, its gain.

    No sentence can take more than `count` from one hypothesis, so each hypothesis offers that many. Where a small
    vocabulary has fewer, impossible ones fill the rest.
    """
    gains, pieces = (x.view(*totals.shape, -1) for x in stable_topk(log_probs, min(count, log_probs.shape[1])))
    offers = totals[:, :, None] + gains
    order = offers.flatten(1).argsort(dim=1, descending=True, stable=True)[:, :count]
    found = gather_along(offers.flatten(1), order), order // offers.shape[2], gather_along(pieces.flatten(1), order)
    missing = (0, count - order.shape[1])
    best, parents, pieces, gains = *found, gather_along(gains.flatten(1), order)
    return (
        F.pad(best, missing, value=-torch.inf),
        F.pad(parents, missing),
        F.pad(pieces, missing),
        F.pad(gains, missing),
    )


def smallest_margin(*margins: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """The smallest of each sentence; the difference of two impossible things is none."""
    return torch.stack([margin.nan_to_num(torch.inf, posinf=torch.inf) for margin in margins]).amin(dim=0)


def gather_along(x: Tensor, chosen: Int[Tensor, "B N"]) -> Tensor:
    """x[b, chosen[b, n]] for every b and n, whatever dimensions follow."""
    index = chosen.view(*chosen.shape, *[1] * (x.dim() - 2)).expand(*chosen.shape, *x.shape[2:])
    return x.gather(1, index)
