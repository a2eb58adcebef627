"""How far the texts of a search have come with the terms they must have: states with numbers, looked up in tables."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.decode.required_terms import Readings, RequiredTerms, Term
from pellucid.decode.word_edges import WordEdges

NO_PIECE = -1
"""Fills a row up that has fewer pieces than others."""


class TermProgress:
    """The states that texts of several sentences can be in, found when a text comes to them.

    A state is how a text can be read, and whether it ends in a letter or digit. The pieces that begin a term there, or
    go on with one, are named, and lead each to its own state. Of all others only the kind counts: whether they begin
    with a letter or digit, and whether they end in one. So a piece is looked up, and nothing is read twice.
    """

    def __init__(self, terms: Sequence[Sequence[Term]], words: WordEdges, device: torch.device):
        self.words = words
        self.device = device
        last = max([*words.ends_in_letter, *words.begins_with_letter], default=0)
        kinds = [2 * (piece in words.begins_with_letter) + (piece in words.ends_in_letter) for piece in range(last + 1)]
        self.kinds = torch.tensor([*kinds, 0], device=device)
        self.states: list[tuple[int, Readings, bool]] = []
        self.numbers: dict[tuple[int, Readings, bool], int] = {}
        self.lacks: list[int] = []
        """Of each state the least number of pieces until every term is there."""
        self.named: dict[int, dict[int, int]] = {}
        """The state after each piece that is named in a state."""
        self.others: dict[int, list[int]] = {}
        """The state after any other piece, by its kind."""
        owners = {each: number for number, each in enumerate(dict.fromkeys(map(tuple, terms)))}
        self.required = [RequiredTerms(each, words) for each in owners]
        starts = [
            self.state_number(owners[each], self.required[owners[each]].start, False) for each in map(tuple, terms)
        ]
        self.start = torch.tensor(starts, dtype=torch.int64, device=device)

    def pieces_lacking(self, states: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
        """How many pieces it takes from each state, at least, until every term is there."""
        return torch.tensor(self.lacks, dtype=torch.int64, device=self.device)[states]

    def advance(
        self, states: Int[Tensor, " R"], pieces: Int[Tensor, "R K"]
    ) -> tuple[Int[Tensor, "R K"], Int[Tensor, "R P"], Int[Tensor, "R P"]]:
        """The states after pieces that are not named; the pieces that are, filled up; and the states after those."""
        numbers, place = states.unique(return_inverse=True)
        for number in set(numbers.tolist()) - self.named.keys():
            self.expand_state(number)
        others = [self.others[number] for number in numbers.tolist()]
        named = [self.named[number] for number in numbers.tolist()]
        most = max(map(len, named), default=0)
        rows = [[[*each.items(), *[(NO_PIECE, 0)] * (most - len(each))] for each in named]]
        names, following = torch.tensor(rows, dtype=torch.int64, device=self.device).view(len(named), most, 2).unbind(2)
        kinds = self.kinds[pieces.clamp(max=len(self.kinds) - 1)]  # the last one stands for all that come after it
        after = torch.tensor(others, dtype=torch.int64, device=self.device)[place].gather(1, kinds)
        return after, names[place], following[place]

    def expand_state(self, number: int) -> None:
        """Find the states that follow one."""
        owner, readings, open_ = self.states[number]
        required = self.required[owner]
        self.others[number] = [
            self.state_number(owner, required.advance_by_kind(readings, open_, None, going_on), ends)
            for going_on in (False, True)
            for ends in (False, True)
        ]
        self.named[number] = {
            piece: self.state_number(
                owner,
                required.advance_by_kind(readings, open_, piece, piece in self.words.begins_with_letter),
                piece in self.words.ends_in_letter,
            )
            for piece in sorted(required.next_pieces(readings))
        }

    def state_number(self, owner: int, readings: Readings, open_: bool) -> int:
        """The number of a state; a new one gets the next."""
        state = (owner, readings, open_)
        if state not in self.numbers:
            self.numbers[state] = len(self.states)
            self.states.append(state)
            self.lacks.append(self.required[owner].pieces_lacking(readings))
        return self.numbers[state]
