"""Term progress of whole batches: the readings of `RequiredTerms` as numbered states, looked up in tables."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.decode.required_terms import Readings, RequiredTerms, Term
from pellucid.decode.word_edges import WordEdges

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
        return torch.tensor(self.lacks, dtype=torch.int64, device=self.device)[states]

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
