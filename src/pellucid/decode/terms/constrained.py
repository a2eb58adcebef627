"""Constrained beam search: translations that must contain given terms, or begin with a given text."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.data.tokenizer import BOS, EOS
from pellucid.decode.beam import gather_along, smallest_margin
from pellucid.decode.request import Hypothesis, length_divisor
from pellucid.decode.search import FinishedHypotheses, Rule, SearchState, Step, apply_rules, forbidden_rule, stable_topk
from pellucid.decode.terms.required import Readings, RequiredTerms, Term
from pellucid.decode.terms.word_edges import EDGE, NEW_WORD, WordEdges

_ANYTHING = -3
"""Entry of the table of `prefix_rule` at a position behind the prefix."""


def prefix_rule(prefixes: Sequence[tuple[int, ...]], words: WordEdges) -> Rule:
    """Make the rule that sentence i begins with the tokens `prefixes[i]` and is free after them.

    A NEW_WORD at the end of a prefix is any token that starts a word, an EDGE any that does not continue one.
    """
    longest = max(map(len, prefixes), default=0)
    table = torch.tensor([[*prefix, *[_ANYTHING] * (longest - len(prefix))] for prefix in prefixes], dtype=torch.int64)
    refused = {NEW_WORD: words.without_space_mark, EDGE: words.begins_with_letter}
    columns = {mark: torch.tensor(sorted(ids), dtype=torch.int64) for mark, ids in refused.items()}

    def rule(log_probs: Float[Tensor, "R V"], tokens: Int[Tensor, "R T"], sentences: Int[Tensor, " R"]) -> None:
        if tokens.shape[1] >= longest:
            return
        required = table.to(log_probs.device)[sentences, tokens.shape[1]]
        for mark, ids in columns.items():
            log_probs[(required == mark).nonzero(), ids.to(log_probs.device)] = -torch.inf
        rows = (required >= 0).nonzero()
        # A forced token keeps the log-probability the model gives it: only the others are forbidden.
        required_log_probs = log_probs[rows, required[rows]]
        log_probs[rows[:, 0]] = -torch.inf
        log_probs[rows, required[rows]] = required_log_probs

    return rule


# The turn of a candidate that gets no place in the beam: after all others.
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
    rules: Sequence[Rule] = (forbidden_rule(),),
    words: WordEdges = WordEdges(),  # noqa: B008  (it is frozen)
) -> list[list[Hypothesis]]:
    """Beam search in which every hypothesis has the terms of its sentence, also one that is cut at the limit.

    Dynamic beam allocation (Post and Vilar 2018), with the banks of Hokamp and Liu (2017). A hypothesis grows by its
    likeliest tokens and by every token that begins a term or continues one. The candidates stand in banks, by how
    many tokens of the terms they lack, and the banks share the beam. Only a candidate that lacks nothing may end, and
    none lacks more tokens than it may still write.

    The beam of a sentence is `width` and one more for each token of its terms. Without terms this is `beam_search`. The
    terms must fit (`explain_no_room`); a sentence has no hypothesis only if a rule forbids what its terms need.
    """
    assert 1 <= n_best <= width and length_penalty >= 0.0
    progress = TermProgress(terms, words, limits.device)
    sentences = torch.arange(len(limits), device=limits.device)
    widths = width + progress.pieces_lacking(progress.start)
    widest = int(widths.max()) if len(widths) else width
    states = progress.start[:, None]
    totals = torch.zeros(len(limits), 1, device=limits.device)  # a sentence begins with one hypothesis, an empty one
    best_scores = torch.full((len(limits), widest), -torch.inf, device=limits.device)
    tokens = sentences.new_empty(len(limits), 1, 0)
    token_log_probs = totals.new_empty(len(limits), 1, 0)
    margins = torch.full_like(totals[:, 0], torch.inf)
    last_tokens = torch.full_like(sentences, BOS)
    finished = FinishedHypotheses(length_penalty, len(limits))
    remaining = limits
    while len(sentences):
        rows_per_sentence, length = totals.shape[1], tokens.shape[2] + 1
        log_probs = apply_rules(
            step(last_tokens, state), rules, tokens.flatten(0, 1), sentences.repeat_interleave(rows_per_sentence)
        )
        totals, parents, new_tokens, gains, states = _constrained_continuations(
            log_probs, totals, states, progress, widths, widest
        )
        ends, lacking = new_tokens == EOS, progress.pieces_lacking(states)
        # A candidate that ends has no room left: it may lack nothing.
        room = torch.where(ends, 0, (remaining - length)[:, None])
        no_bank = max(progress.lacks) + 1
        banks = torch.where((totals != -torch.inf) & (lacking <= room), lacking, no_bank)
        chosen, bank_margins = _choose_candidates(totals, ends, banks, widths, no_bank)
        # Tokens and log-probabilities are copied only for the chosen candidates, which are at most 2 * widest.
        first = (~chosen).to(torch.uint8).argsort(dim=1, stable=True)[:, : 2 * widest]
        totals, parents, new_tokens, gains, states, chosen = (
            gather_along(x, first) for x in (totals, parents, new_tokens, gains, states, chosen)
        )
        tokens = torch.cat([gather_along(tokens, parents), new_tokens[:, :, None]], dim=2)
        token_log_probs = torch.cat([gather_along(token_log_probs, parents), gains[:, :, None]], dim=2)
        ended, live = chosen & (new_tokens == EOS), chosen & (new_tokens != EOS)
        finished.add(sentences[ended.nonzero()[:, 0]], tokens[ended], token_log_probs[ended], "eos")
        scores = torch.where(ended, totals / length_divisor(length, length_penalty), -torch.inf)
        best_scores = torch.cat([best_scores, scores], dim=1).topk(widest).values

        totals, states = torch.where(live, totals, -torch.inf), torch.where(live, states, 0)
        order = (~live).to(torch.uint8).argsort(dim=1, stable=True)[:, :widest]
        totals, parents, tokens, token_log_probs, states = (
            gather_along(x, order) for x in (totals, parents, tokens, token_log_probs, states)
        )
        # From here on as in `beam_search`, but each sentence has a beam of its own width.
        best_possible = totals[:, 0] / length_divisor(remaining, length_penalty)
        at_limit = remaining <= length
        all_ended = best_scores.gather(1, widths[:, None] - 1)[:, 0] != -torch.inf
        over = at_limit | all_ended | (best_scores[:, n_best - 1] >= best_possible)
        cut = at_limit[:, None] & (totals != -torch.inf)
        finished.add(sentences[cut.nonzero()[:, 0]], tokens[cut], token_log_probs[cut], "length")

        margins = smallest_margin(margins, bank_margins, (best_scores[:, n_best - 1] - best_possible).abs())
        finished.close(sentences[over], margins[over])
        active = (~over).nonzero()[:, 0]
        rows = (torch.arange(len(sentences), device=limits.device)[:, None] * rows_per_sentence + parents)[active]
        state.select(rows.flatten(), active)
        sentences, remaining, widths, totals, states, best_scores, tokens, token_log_probs, margins = (
            x[active]
            for x in (sentences, remaining, widths, totals, states, best_scores, tokens, token_log_probs, margins)
        )
        last_tokens = tokens[:, :, -1].flatten()
    return finished.best_lists(n_best)


def _constrained_continuations(
    log_probs: Float[Tensor, "R V"],
    totals: Float[Tensor, "B W"],
    states: Int[Tensor, "B W"],
    progress: "TermProgress",
    widths: Int[Tensor, " B"],
    widest: int,
) -> tuple[Float[Tensor, "B N"], Int[Tensor, "B N"], Int[Tensor, "B N"], Float[Tensor, "B N"], Int[Tensor, "B N"]]:
    """Return the continuations of all hypotheses, best first: total, parent (0 to W - 1), token, gain, next state.

    Each hypothesis offers its likeliest tokens, and, as long as something is lacking, all that begin a term or continue
    one. Impossible ones fill the rest.
    """
    gains, likeliest = stable_topk(log_probs, min(2 * widest + 1, log_probs.shape[1]))
    next_states, term_tokens, term_states = progress.advance(states.flatten(), likeliest)
    # Rows are as wide as the widest beam needs; a sentence offers what its own beam would.
    within_beam = torch.arange(likeliest.shape[1], device=widths.device) < 2 * widths[:, None] + 1
    offered = within_beam.repeat_interleave(totals.shape[1], dim=0)
    # A likely token that is a term token too is offered once, with the state that it leads to as a term token.
    same = (likeliest[:, :, None] == term_tokens[:, None, :]) & offered[:, :, None]
    offered_terms = (term_tokens != NO_PIECE) & (
        (progress.pieces_lacking(states).flatten() > 0)[:, None] | same.any(dim=1)
    )
    term_gains = log_probs.gather(1, term_tokens.clamp(min=0))
    gains = torch.cat(
        [
            gains.masked_fill(~offered | same.any(dim=2), -torch.inf),
            term_gains.masked_fill(~offered_terms, -torch.inf),
        ],
        dim=1,
    )
    tokens, all_states = (
        torch.cat([likeliest, term_tokens.clamp(min=0)], dim=1),
        torch.cat([next_states, term_states], dim=1),
    )
    tokens, gains, all_states = (x.unflatten(0, totals.shape).flatten(1) for x in (tokens, gains, all_states))
    offers = (totals[:, :, None] + gains.unflatten(1, (totals.shape[1], -1))).flatten(1)
    order = offers.argsort(dim=1, descending=True, stable=True)
    missing = (0, max(0, 2 * widest - order.shape[1]))
    parents = order // (offers.shape[1] // totals.shape[1])
    return (
        F.pad(gather_along(offers, order), missing, value=-torch.inf),
        F.pad(parents, missing),
        F.pad(gather_along(tokens, order), missing),
        F.pad(gather_along(gains, order), missing),
        F.pad(gather_along(all_states, order), missing),
    )


def _choose_candidates(
    totals: Float[Tensor, "B N"],
    ends: Bool[Tensor, "B N"],
    banks: Int[Tensor, "B N"],
    widths: Int[Tensor, " B"],
    no_bank: int,
) -> tuple[Bool[Tensor, "B N"], Float[Tensor, " B"]]:
    """Return which candidates have a place in the beam of their sentence, and how near another choice came.

    `no_bank` is the bank of candidates that cannot have one. In banks, a candidate that has paid for a term need not
    compete with one that has not.
    """
    live_banks = torch.where(ends, no_bank, banks)
    rank, places = _rank_in_bank(banks, no_bank), share_beam(banks, widths, no_bank).gather(1, banks)
    # As in beam search, an end takes no place from those that live on: these are ranked without it.
    has_place, lives_on = rank < places, ~ends & (_rank_in_bank(live_banks, no_bank) < places)
    # How near another candidate came matters to an end only where it is the last with a place, or the next one.
    end_at_edge = (ends & (banks != no_bank) & ((rank == places) | (rank == places - 1))).any(dim=1)
    end_margin = _bank_margin(totals, banks.where(banks == 0, no_bank), has_place, no_bank)
    margin = smallest_margin(
        _bank_margin(totals, live_banks, lives_on, no_bank), torch.where(end_at_edge, end_margin, torch.inf)
    )
    return torch.where(ends, has_place, lives_on), margin


def share_beam(banks: Int[Tensor, "B N"], widths: Int[Tensor, " B"], no_bank: int) -> Int[Tensor, "B M"]:
    """Return how many places of its beam a sentence gives to each bank.

    The banks take turns, one place at a time, as long as they have candidates.
    """
    # A number for each candidate: by rank first, then by bank. The lowest `widths` of them have a place.
    turns = (_rank_in_bank(banks, no_bank) * (no_bank + 1) + banks).masked_fill(banks == no_bank, LAST_TURN)
    order = F.pad(turns.sort(dim=1).values, (0, int(widths.max())), value=LAST_TURN)
    has_place = turns < order.gather(1, widths[:, None])
    return _sum_by_bank(banks, has_place.long(), no_bank)


def _rank_in_bank(banks: Int[Tensor, "B N"], no_bank: int) -> Int[Tensor, "B N"]:
    """Return the rank of each candidate in its bank, from 0, in the order of the candidates."""
    sizes = _sum_by_bank(banks, torch.ones_like(banks), no_bank)
    # The inverse of a stable sort by bank is each candidate's position; minus the sizes of the banks before its own.
    position = banks.argsort(dim=1, stable=True).argsort(dim=1)
    return position - (sizes.cumsum(dim=1) - sizes).gather(1, banks)


def _sum_by_bank(banks: Int[Tensor, "B N"], values: Int[Tensor, "B N"], no_bank: int) -> Int[Tensor, "B M"]:
    """Return the sum of the values of each bank."""
    return banks.new_zeros(len(banks), no_bank + 1).scatter_add(1, banks, values)


def _bank_margin(
    totals: Float[Tensor, "B N"], banks: Int[Tensor, "B N"], has_place: Bool[Tensor, "B N"], no_bank: int
) -> Float[Tensor, " B"]:
    """Return how much likelier the last candidate with a place is than the first without one, in the closest bank."""
    infinite = totals.new_full((len(totals), no_bank + 1), torch.inf)
    last_with = infinite.scatter_reduce(1, banks, totals.where(has_place, torch.inf), "amin")
    first_without = (-infinite).scatter_reduce(1, banks, totals.where(~has_place, -torch.inf), "amax")
    return (last_with - first_without)[:, :no_bank].amin(dim=1)


NO_PIECE = -1
"""Padding for a row that has fewer tokens than others."""


class TermProgress:
    """States that the texts of several sentences can be in; a state is made when a text first comes to it.

    A state is how a text can be read, and whether it ends in a letter or digit. The tokens that begin a term there, or
    continue one, are its term tokens; each leads to a state of its own. Of all other tokens only the kind counts:
    whether they begin with a letter or digit, and whether they end in one.
    """

    def __init__(self, terms: Sequence[Sequence[Term]], words: WordEdges, device: torch.device):
        self.words = words
        self.device = device
        last_id = max([*words.ends_in_letter, *words.begins_with_letter], default=0)
        kinds = [
            2 * (piece in words.begins_with_letter) + (piece in words.ends_in_letter) for piece in range(last_id + 1)
        ]
        # Ids above the last that touches a letter share the entry at the end, kind 0.
        self.kinds = torch.tensor([*kinds, 0], device=device)
        self.states: list[tuple[int, Readings, bool]] = []
        self.numbers: dict[tuple[int, Readings, bool], int] = {}
        self.lacks: list[int] = []
        """Least number of tokens until every term is there, of each state."""
        self.lacks_table = torch.empty(0, dtype=torch.int64, device=device)
        self.after_term_token: dict[int, dict[int, int]] = {}
        """State after each term token of a state."""
        self.after_kind: dict[int, list[int]] = {}
        """State after any other token, by its kind."""
        # Sentences with the same terms share their states.
        owners = {sentence_terms: number for number, sentence_terms in enumerate(dict.fromkeys(map(tuple, terms)))}
        self.required = [RequiredTerms(sentence_terms, words) for sentence_terms in owners]
        starts = [
            self.state_number(owners[sentence_terms], self.required[owners[sentence_terms]].start, False)
            for sentence_terms in map(tuple, terms)
        ]
        self.start = torch.tensor(starts, dtype=torch.int64, device=device)

    def pieces_lacking(self, states: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
        """Return the least number of tokens from each state until every term is there."""
        new = self.lacks[len(self.lacks_table) :]
        if new:
            self.lacks_table = torch.cat([self.lacks_table, self.lacks_table.new_tensor(new)])
        return self.lacks_table[states]

    def advance(
        self, states: Int[Tensor, " R"], pieces: Int[Tensor, "R K"]
    ) -> tuple[Int[Tensor, "R K"], Int[Tensor, "R P"], Int[Tensor, "R P"]]:
        """Return the states after tokens that are no term tokens, all term tokens, and the states after those."""
        # Few states are distinct, however many rows there are: only those are looked up in Python.
        numbers, index = states.unique(return_inverse=True)
        for number in set(numbers.tolist()) - self.after_term_token.keys():
            self.expand_state(number)
        by_kind = [self.after_kind[number] for number in numbers.tolist()]
        by_token = [self.after_term_token[number] for number in numbers.tolist()]
        most_tokens = max(map(len, by_token), default=0)
        rows = [[[*followers.items(), *[(NO_PIECE, 0)] * (most_tokens - len(followers))] for followers in by_token]]
        term_tokens, following = (
            torch.tensor(rows, dtype=torch.int64, device=self.device).view(len(by_token), most_tokens, 2).unbind(2)
        )
        kinds = self.kinds[pieces.clamp(max=len(self.kinds) - 1)]  # the last one stands for all that come after it
        after = torch.tensor(by_kind, dtype=torch.int64, device=self.device)[index].gather(1, kinds)
        return after, term_tokens[index], following[index]

    def expand_state(self, number: int) -> None:
        """Find the states that follow a state."""
        owner, readings, open_ = self.states[number]
        required = self.required[owner]
        # In the order of the kinds: 2 * (begins with a letter) + (ends in one).
        self.after_kind[number] = [
            self.state_number(owner, required.advance_by_kind(readings, open_, None, going_on), ends)
            for going_on in (False, True)
            for ends in (False, True)
        ]
        self.after_term_token[number] = {
            piece: self.state_number(
                owner,
                required.advance_by_kind(readings, open_, piece, piece in self.words.begins_with_letter),
                piece in self.words.ends_in_letter,
            )
            for piece in sorted(required.next_pieces(readings))
        }

    def state_number(self, owner: int, readings: Readings, open_: bool) -> int:
        """Return the number of a state; a new state gets the next number."""
        state = (owner, readings, open_)
        if state not in self.numbers:
            self.numbers[state] = len(self.states)
            self.states.append(state)
            self.lacks.append(self.required[owner].pieces_lacking(readings))
        return self.numbers[state]
