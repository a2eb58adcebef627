"""The tables of term progress agree with reading a text piece by piece."""

import random

import pytest
import torch

from pellucid.decode.terms.constrained import NO_PIECE, TermProgress
from pellucid.decode.terms.required import RequiredTerms
from pellucid.decode.terms.word_edges import EDGE, WordEdges

CPU = torch.device("cpu")
WORDS = WordEdges(
    ends_in_letter=frozenset({4, 5, 6}), begins_with_letter=frozenset({5, 8}), without_space_mark=frozenset({5, 7, 8})
)
TERMS = [[((EDGE, 4, 5, EDGE), (EDGE, 6, EDGE)), ((4, 7),)], [], [((6,),), ((6,),)]]


def next_state(progress: TermProgress, state: int, piece: int) -> int:
    after, term_pieces, after_term_pieces = progress.advance(torch.tensor([state]), torch.tensor([[piece]]))
    if piece in term_pieces[0]:
        return int(after_term_pieces[0, term_pieces[0].tolist().index(piece)])
    return int(after[0, 0])


@pytest.mark.parametrize("number", range(3))
def test_a_state_lacks_what_the_text_lacks(number):
    progress, required = TermProgress(TERMS, WORDS, CPU), RequiredTerms(TERMS[number], WORDS)
    draw = random.Random(number)
    counts = set()
    for _ in range(60):
        state, readings, before = int(progress.start[number]), required.start, None
        for piece in draw.choices(range(3, 10), k=9):
            state, readings = next_state(progress, state, piece), required.advance(readings, before, piece)
            before = piece
            lacking = int(progress.pieces_lacking(torch.tensor(state)))
            assert lacking == required.pieces_lacking(readings)
            counts.add(lacking)
    assert len(counts) == 1 + required.pieces_lacking(required.start)


def test_pieces_that_begin_a_term_are_listed_and_rows_are_padded():
    progress = TermProgress(TERMS, WORDS, CPU)
    _, term_pieces, after = progress.advance(progress.start, torch.zeros(3, 1, dtype=torch.int64))
    assert term_pieces.tolist() == [[4, 6], [NO_PIECE] * 2, [6, NO_PIECE]]
    assert progress.pieces_lacking(after)[term_pieces != NO_PIECE].tolist() == [2, 2, 1]


def test_sentences_with_the_same_terms_share_their_states():
    progress = TermProgress([*TERMS, TERMS[0]], WORDS, CPU)
    assert progress.start[0] == progress.start[3]
    assert len(set(progress.start.tolist())) == 3


def test_no_sentences_have_no_states():
    assert TermProgress([], WordEdges(), CPU).start.shape == (0,)
