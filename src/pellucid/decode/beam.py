"""Beam search: the W best hypotheses of each sentence grow side by side, one token a step."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
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

    `step` takes the last token of each row, that is of each hypothesis of each sentence, and gives
    the logits of the next one; what it remembers of the tokens before, it keeps in `state`. `rules`
    forbid tokens by setting their log-probabilities to -inf, and `observe` is shown each step.

    A step extends each of the W live hypotheses by every token and looks at the 2W likeliest
    results. An EOS among the first W finishes a hypothesis; the first W that do not end live on. A
    sentence is over when W hypotheses have finished, or earlier when `n_best` have and no live one
    can overtake them. At the limit the live ones are returned with stop = "length", ranked behind
    those that ended. Equal candidates: the earlier hypothesis goes first, then its likelier token,
    then the lower id. A width of 1 is greedy search; one as large as the number of candidates at
    any step misses nothing (tests/laws/test_search.py). `Hypothesis.margin` says how near another
    choice ever came.
    """
    assert 1 <= n_best <= width and length_penalty >= 0.0
    # What is known of the sentences that go on; each begins with one hypothesis, an empty one.
    sentences, remaining = torch.arange(len(limits), device=limits.device), limits  # (B)
    totals = torch.zeros(len(limits), 1, device=limits.device)  # log-probabilities (B W)
    tokens = sentences.new_empty(len(limits), 1, 0)  # (B W T)
    token_log_probs = totals.new_empty(len(limits), 1, 0)  # (B W T)
    last_tokens = torch.full_like(sentences, BOS)  # (R)
    best_scores = totals.new_full((len(limits), width), -torch.inf)  # of finished ones (B W)
    margins = torch.full_like(totals[:, 0], torch.inf)  # (B)
    finished = FinishedHypotheses(length_penalty, len(limits))

    while len(sentences):
        # Extend. At most W of the 2 W likeliest continuations end, one a hypothesis, so W are left
        # to live on; one more shows the margin. From here to the cut, totals are (B 2W+1).
        rows_per_sentence = totals.shape[1]
        sentence_of_row = sentences.repeat_interleave(rows_per_sentence)
        logits = step(last_tokens, state)
        log_probs = apply_rules(logits, rules, tokens.flatten(0, 1), sentence_of_row)
        totals, parents, new_tokens, gains = best_continuations(log_probs, totals, 2 * width + 1)
        written, gained = _gather_along(tokens, parents), _gather_along(token_log_probs, parents)
        tokens = torch.cat([written, new_tokens[:, :, None]], dim=2)
        token_log_probs = torch.cat([gained, gains[:, :, None]], dim=2)
        length = tokens.shape[2]

        # Finish those that end among the first W.
        ends = new_tokens == EOS
        ended = ends & (totals != -torch.inf)
        ended[:, width:] = False
        finished.add(sentences[ended.nonzero()[:, 0]], tokens[ended], token_log_probs[ended], "eos")
        scores = torch.where(ended, totals / length_divisor(length, length_penalty), -torch.inf)
        best_scores = torch.cat([best_scores, scores], dim=1).topk(width).values

        # Cut. The sort is stable: those that do not end come first, and stay in their order.
        live_first = ends.to(torch.uint8).argsort(dim=1, stable=True)
        live = live_first[:, :width]
        if observe is not None:
            kept = torch.zeros_like(ends).scatter(1, live, True) & (totals != -torch.inf)
            observe(SearchStep(sentences, parents, new_tokens, gains, totals, kept, ended))
        near_misses = _measure_near_misses(totals, ends, live_first, width)
        totals, parents, tokens, token_log_probs = (
            _gather_along(x, live) for x in (totals, parents, tokens, token_log_probs)
        )

        # End sentences. A live hypothesis can score no better than this: its log-probability only
        # falls, and its divisor is at most the limit's.
        best_possible = totals[:, 0] / length_divisor(remaining, length_penalty)
        worst_wanted = best_scores[:, n_best - 1]
        at_limit = remaining <= length
        over = at_limit | (best_scores[:, -1] != -torch.inf) | (worst_wanted >= best_possible)
        cut = at_limit[:, None] & (totals != -torch.inf)
        finished.add(sentences[cut.nonzero()[:, 0]], tokens[cut], token_log_probs[cut], "length")
        margins = _smallest_margin(margins, *near_misses, (worst_wanted - best_possible).abs())
        finished.close(sentences[over], margins[over])

        # Go on with the others. Parents count within a sentence; the state knows rows of the whole
        # batch, as they were before this step.
        active = (~over).nonzero()[:, 0]
        places = torch.arange(len(sentences), device=limits.device)
        rows = (places[:, None] * rows_per_sentence + parents)[active]
        state.select(rows.flatten(), active)
        sentences, remaining, margins = sentences[active], remaining[active], margins[active]
        totals, best_scores = totals[active], best_scores[active]
        tokens, token_log_probs = tokens[active], token_log_probs[active]
        last_tokens = tokens[:, :, -1].flatten()
    return finished.best_lists(n_best)


def best_continuations(
    log_probs: Float[Tensor, "R V"], totals: Float[Tensor, "B W"], count: int
) -> tuple[Float[Tensor, "B N"], Int[Tensor, "B N"], Int[Tensor, "B N"], Float[Tensor, "B N"]]:
    """Return the `count` likeliest continuations of each sentence, best first: total, parent (0 to W - 1), token, gain.

    Where a small vocabulary has fewer, impossible ones fill the rest.
    """
    # No sentence can take more than `count` from one hypothesis, so each offers that many.
    gains, tokens = stable_topk(log_probs, min(count, log_probs.shape[1]))
    gains, tokens = gains.view(*totals.shape, -1), tokens.view(*totals.shape, -1)  # (B W N)
    offers = totals[:, :, None] + gains

    # Stable, so of equal candidates the earlier hypothesis goes first.
    order = offers.flatten(1).argsort(dim=1, descending=True, stable=True)[:, :count]
    missing = (0, count - order.shape[1])
    return (
        F.pad(_gather_along(offers.flatten(1), order), missing, value=-torch.inf),
        F.pad(order // offers.shape[2], missing),
        F.pad(_gather_along(tokens.flatten(1), order), missing),
        F.pad(_gather_along(gains.flatten(1), order), missing),
    )


def _measure_near_misses(
    totals: Float[Tensor, "B N"],
    ends: Bool[Tensor, "B N"],
    live_first: Int[Tensor, "B N"],
    width: int,
) -> tuple[Float[Tensor, " B"], Float[Tensor, " B"]]:
    """Return how near another candidate came to be among the first W, and to be the last that lives on."""
    # Which candidates are the first W matters where that decides whether one finishes.
    decides = ends[:, width - 1] | ends[:, width]
    by_rank = torch.where(decides, totals[:, width - 1] - totals[:, width], torch.inf)
    last_kept_and_first_dropped = _gather_along(totals, live_first[:, width - 1 : width + 1])
    return by_rank, last_kept_and_first_dropped[:, 0] - last_kept_and_first_dropped[:, 1]


def _smallest_margin(*margins: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Return the smallest margin of each sentence; a difference between two impossible candidates does not count."""
    # inf - inf is NaN, and as a minimum NaN would win.
    finite_or_inf = [margin.nan_to_num(torch.inf, posinf=torch.inf) for margin in margins]
    return torch.stack(finite_or_inf).amin(dim=0)


def _gather_along(x: Tensor, indices: Int[Tensor, "B N"]) -> Tensor:
    """Return x[b, indices[b, n]] for every b and n; x may have any further dimensions."""
    index = indices.view(*indices.shape, *[1] * (x.dim() - 2)).expand(*indices.shape, *x.shape[2:])
    return x.gather(1, index)
