"""Beam search: the W best beginnings of each sentence grow side by side, a piece at a time."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.search import Finished, Hypothesis, Rule, State, Step, largest, never, penalty, ruled


def beam_search(
    step: Step,
    state: State,
    limits: Int[Tensor, " B"],
    *,
    width: int,
    n_best: int,
    length_penalty: float,
    start: int = BOS,
    end: int = EOS,
    rules: Sequence[Rule] = (never(),),
) -> list[list[Hypothesis]]:
    """The best `n_best` hypotheses (at most `width`) of each sentence, of at most `limits` pieces with the end mark.

    A step grows each of the W live hypotheses by every piece and looks at the 2W likeliest results. An end mark among
    the first W finishes a hypothesis; the first W that do not end live on. A sentence is over when W hypotheses have
    finished, or earlier when `n_best` have and no live one can overtake them: its log-probability can only fall and,
    for a `length_penalty` of 0 or more, its divisor is at most that of the limit. At the limit the live ones are handed
    back with stop = "length", ranked behind those that ended. Equal candidates: the earlier hypothesis goes first, then
    its likelier piece, then the lower id. A width of 1 is greedy search; one as large as the number of candidates at
    any step misses nothing (tests/laws/test_search.py).
    """
    assert 1 <= n_best <= width and length_penalty >= 0.0
    sentences = torch.arange(len(limits), device=limits.device)
    # Every sentence starts with one live hypothesis and W - 1 impossible ones, so that shapes never change.
    totals = torch.full((len(limits), width), -torch.inf, device=limits.device)
    kept = totals.clone()
    totals[:, 0] = 0.0
    pieces = sentences.new_empty(len(limits), width, 0)
    gains = totals.new_empty(len(limits), width, 0)
    last = sentences.new_full((len(limits) * width,), start)
    finished = Finished(length_penalty)
    remaining = limits
    while len(sentences):
        log_probs = ruled(step(last, state), rules, pieces.flatten(0, 1), sentences.repeat_interleave(width))
        totals, parents, piece, gain = candidates(log_probs, totals, 2 * width)
        pieces = torch.cat([along(pieces, parents), piece[:, :, None]], dim=2)
        gains = torch.cat([along(gains, parents), gain[:, :, None]], dim=2)
        length = pieces.shape[2]

        ends = piece == end
        done = ends & (totals != -torch.inf)
        done[:, width:] = False
        finished.add(sentences[done.nonzero()[:, 0]], pieces[done], gains[done], "eos")
        scores = torch.where(done, totals / penalty(length, length_penalty), -torch.inf)
        kept = torch.cat([kept, scores], dim=1).topk(width).values

        live = ends.to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
        totals, parents, pieces, gains = (along(x, live) for x in (totals, parents, pieces, gains))
        hope = totals[:, 0] / penalty(remaining, length_penalty)
        at_limit = remaining <= length
        over = at_limit | (kept[:, -1] != -torch.inf) | (kept[:, n_best - 1] >= hope)
        cut = at_limit[:, None] & (totals != -torch.inf)
        finished.add(sentences[cut.nonzero()[:, 0]], pieces[cut], gains[cut], "length")

        stay = (~over).nonzero()[:, 0]
        rows = (torch.arange(len(sentences), device=limits.device)[:, None] * width + parents)[stay]
        state.select(rows.flatten(), stay)
        sentences, remaining, totals, kept, pieces, gains = (
            x[stay] for x in (sentences, remaining, totals, kept, pieces, gains)
        )
        last = pieces[:, :, -1].flatten()
    return finished.lists(len(limits), n_best)


def candidates(
    log_probs: Float[Tensor, "R V"], totals: Float[Tensor, "B W"], count: int
) -> tuple[Float[Tensor, "B N"], Int[Tensor, "B N"], Int[Tensor, "B N"], Float[Tensor, "B N"]]:
    """The likeliest continuations of each sentence, best first: total, parent (0 to W - 1), piece, log-probability.

    No sentence can take more than `count` from one hypothesis, so each hypothesis offers that many.
    """
    gains, pieces = (x.view(*totals.shape, -1) for x in largest(log_probs, min(count, log_probs.shape[1])))
    offers = totals[:, :, None] + gains
    order = offers.flatten(1).argsort(dim=1, descending=True, stable=True)[:, :count]
    parents = order // offers.shape[2]
    return along(offers.flatten(1), order), parents, along(pieces.flatten(1), order), along(gains.flatten(1), order)


def along(x: Tensor, chosen: Int[Tensor, "B N"]) -> Tensor:
    """x[b, chosen[b, n]] for every b and n, whatever dimensions follow."""
    index = chosen.view(*chosen.shape, *[1] * (x.dim() - 2)).expand(*chosen.shape, *x.shape[2:])
    return x.gather(1, index)
