"""Beam search for translations that must have given terms."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.beam import gather_along, smallest_margin
from pellucid.decode.hypothesis import Hypothesis, length_divisor
from pellucid.decode.required_terms import Term
from pellucid.decode.search import FinishedHypotheses, Rule, SearchState, Step, apply_rules, forbidden_rule, stable_topk
from pellucid.decode.term_progress import NO_PIECE, TermProgress
from pellucid.decode.word_edges import WordEdges

LAST_TURN = 2**62


def constrained_search(
    step: Step,
    state: SearchState,
    limits: Int[Tensor, " B"],
    terms: Sequence[Sequence[Term]],
    *,
    width: int,
    n_best: int,
    length_penalty: float,
    start: int = BOS,
    end: int = EOS,
    rules: Sequence[Rule] = (forbidden_rule(),),
    words: WordEdges = WordEdges(),  # noqa: B008  (it is frozen)
) -> list[list[Hypothesis]]:
    """As `beam_search`, but every hypothesis has the terms of its sentence, also one that is cut at the limit.

    Dynamic beam allocation (Post and Vilar 2018), with the banks of Hokamp and Liu (2017). A hypothesis grows by its
    likeliest pieces and by every piece that begins a term or goes on with one. The candidates stand in banks, by how
    many pieces of the terms they lack, and the banks share the beam: what has paid for a term need not compete with
    what has not. Only what lacks nothing may end, and no candidate lacks more pieces than it may still write.

    The beam of a sentence is `width` and one more for each piece of its terms. Without terms this is beam search. The
    terms must fit (`crowded`); a sentence has no hypothesis only if a rule forbids what its terms need.
    """
    assert 1 <= n_best <= width and length_penalty >= 0.0
    progress = TermProgress(terms, words, limits.device)
    sentences = torch.arange(len(limits), device=limits.device)
    widths = width + progress.pieces_lacking(progress.start)
    widest = int(widths.max()) if len(widths) else width
    texts = progress.start[:, None]
    totals = torch.zeros(len(limits), 1, device=limits.device)  # a sentence begins with one hypothesis, an empty one
    kept = torch.full((len(limits), widest), -torch.inf, device=limits.device)
    pieces = sentences.new_empty(len(limits), 1, 0)
    gains = totals.new_empty(len(limits), 1, 0)
    margins = torch.full_like(totals[:, 0], torch.inf)
    last = torch.full_like(sentences, start)
    finished = FinishedHypotheses(length_penalty, len(limits))
    remaining = limits
    while len(sentences):
        rows_each, length = totals.shape[1], pieces.shape[2] + 1
        log_probs = apply_rules(step(last, state), rules, pieces.flatten(0, 1), sentences.repeat_interleave(rows_each))
        totals, parents, piece, gain, texts = constrained_continuations(
            log_probs, totals, texts, progress, widths, widest
        )
        ends, lacking = piece == end, progress.pieces_lacking(texts)
        room = torch.where(ends, 0, (remaining - length)[:, None])
        nowhere = max(progress.lacks) + 1
        banks = torch.where((totals != -torch.inf) & (lacking <= room), lacking, nowhere)
        living = torch.where(ends, nowhere, banks)
        place, places = rank_in_bank(banks, nowhere), share_beam(banks, widths, nowhere).gather(1, banks)
        inside, staying = place < places, ~ends & (rank_in_bank(living, nowhere) < places)
        end_at_edge = (ends & (banks != nowhere) & ((place == places) | (place == places - 1))).any(dim=1)
        margins = smallest_margin(
            margins,
            bank_margin(totals, living, staying, nowhere),
            torch.where(end_at_edge, bank_margin(totals, banks.where(banks == 0, nowhere), inside, nowhere), torch.inf),
        )

        chosen = torch.where(ends, inside, staying)
        first = (~chosen).to(torch.uint8).argsort(dim=1, stable=True)[:, : 2 * widest]
        totals, parents, piece, gain, texts, chosen = (
            gather_along(x, first) for x in (totals, parents, piece, gain, texts, chosen)
        )
        pieces = torch.cat([gather_along(pieces, parents), piece[:, :, None]], dim=2)
        gains = torch.cat([gather_along(gains, parents), gain[:, :, None]], dim=2)
        done, live = chosen & (piece == end), chosen & (piece != end)
        finished.add(sentences[done.nonzero()[:, 0]], pieces[done], gains[done], "eos")
        scores = torch.where(done, totals / length_divisor(length, length_penalty), -torch.inf)
        kept = torch.cat([kept, scores], dim=1).topk(widest).values

        totals, texts = torch.where(live, totals, -torch.inf), torch.where(live, texts, 0)
        order = (~live).to(torch.uint8).argsort(dim=1, stable=True)[:, :widest]
        totals, parents, pieces, gains, texts = (
            gather_along(x, order) for x in (totals, parents, pieces, gains, texts)
        )
        hope = totals[:, 0] / length_divisor(remaining, length_penalty)
        at_limit = remaining <= length
        all_ended = kept.gather(1, widths[:, None] - 1)[:, 0] != -torch.inf
        over = at_limit | all_ended | (kept[:, n_best - 1] >= hope)
        cut = at_limit[:, None] & (totals != -torch.inf)
        finished.add(sentences[cut.nonzero()[:, 0]], pieces[cut], gains[cut], "length")

        margins = smallest_margin(margins, (kept[:, n_best - 1] - hope).abs())
        finished.close(sentences[over], margins[over])
        stay = (~over).nonzero()[:, 0]
        rows = (torch.arange(len(sentences), device=limits.device)[:, None] * rows_each + parents)[stay]
        state.select(rows.flatten(), stay)
        sentences, remaining, widths, totals, texts, kept, pieces, gains, margins = (
            x[stay] for x in (sentences, remaining, widths, totals, texts, kept, pieces, gains, margins)
        )
        last = pieces[:, :, -1].flatten()
    return finished.best_lists(n_best)


def constrained_continuations(
    log_probs: Float[Tensor, "R V"],
    totals: Float[Tensor, "B W"],
    texts: Int[Tensor, "B W"],
    progress: TermProgress,
    widths: Int[Tensor, " B"],
    widest: int,
) -> tuple[Float[Tensor, "B N"], Int[Tensor, "B N"], Int[Tensor, "B N"], Float[Tensor, "B N"], Int[Tensor, "B N"]]:
    """What the hypotheses offer, best first: total, parent (0 to W - 1), piece, its gain, the state it leads to.

    Each offers its likeliest pieces, and all that begin a term or go on with one as long as something is lacking.
    Impossible ones fill the rest.
    """
    gains, likeliest = stable_topk(log_probs, min(2 * widest + 1, log_probs.shape[1]))
    after, named, after_named = progress.advance(texts.flatten(), likeliest)
    of_its_beam = torch.arange(likeliest.shape[1], device=widths.device) < 2 * widths[:, None] + 1
    offered = of_its_beam.repeat_interleave(totals.shape[1], dim=0)
    same = (likeliest[:, :, None] == named[:, None, :]) & offered[:, :, None]
    wanted = (named != NO_PIECE) & ((progress.pieces_lacking(texts).flatten() > 0)[:, None] | same.any(dim=1))
    others = log_probs.gather(1, named.clamp(min=0))
    gains = torch.cat(
        [gains.masked_fill(~offered | same.any(dim=2), -torch.inf), others.masked_fill(~wanted, -torch.inf)], dim=1
    )
    pieces, states = torch.cat([likeliest, named.clamp(min=0)], dim=1), torch.cat([after, after_named], dim=1)
    pieces, gains, states = (x.unflatten(0, totals.shape).flatten(1) for x in (pieces, gains, states))
    offers = (totals[:, :, None] + gains.unflatten(1, (totals.shape[1], -1))).flatten(1)
    order = offers.argsort(dim=1, descending=True, stable=True)
    missing = (0, max(0, 2 * widest - order.shape[1]))
    parents = order // (offers.shape[1] // totals.shape[1])
    return (
        F.pad(gather_along(offers, order), missing, value=-torch.inf),
        F.pad(parents, missing),
        F.pad(gather_along(pieces, order), missing),
        F.pad(gather_along(gains, order), missing),
        F.pad(gather_along(states, order), missing),
    )


def share_beam(banks: Int[Tensor, "B N"], widths: Int[Tensor, " B"], nowhere: int) -> Int[Tensor, "B M"]:
    """How many places of its beam a sentence gives to each bank: one each in turn, as long as it has candidates."""
    turns = (rank_in_bank(banks, nowhere) * (nowhere + 1) + banks).masked_fill(banks == nowhere, LAST_TURN)
    order = F.pad(turns.sort(dim=1).values, (0, int(widths.max())), value=LAST_TURN)
    has_place = turns < order.gather(1, widths[:, None])
    return sum_by_bank(banks, has_place.long(), nowhere)


def rank_in_bank(banks: Int[Tensor, "B N"], nowhere: int) -> Int[Tensor, "B N"]:
    """How many candidates of its bank stand before each."""
    sizes = sum_by_bank(banks, torch.ones_like(banks), nowhere)
    position = banks.argsort(dim=1, stable=True).argsort(dim=1)
    return position - (sizes.cumsum(dim=1) - sizes).gather(1, banks)


def sum_by_bank(banks: Int[Tensor, "B N"], each: Int[Tensor, "B N"], nowhere: int) -> Int[Tensor, "B M"]:
    """The sum of each bank."""
    return banks.new_zeros(len(banks), nowhere + 1).scatter_add(1, banks, each)


def bank_margin(
    totals: Float[Tensor, "B N"], banks: Int[Tensor, "B N"], placed: Bool[Tensor, "B N"], nowhere: int
) -> Float[Tensor, " B"]:
    """How much likelier the last of a bank that has a place is than the first that has none, in the closest bank."""
    none = totals.new_full((len(totals), nowhere + 1), torch.inf)
    last = none.scatter_reduce(1, banks, totals.where(placed, torch.inf), "amin")
    following = (-none).scatter_reduce(1, banks, totals.where(~placed, -torch.inf), "amax")
    return (last - following)[:, :nowhere].amin(dim=1)
