"""States in tables: they say of every text what reading it piece by piece says."""

import random

import pytest
import torch

from pellucid.decode.required_terms import Required
from pellucid.decode.term_progress import NO_PIECE, Progress
from pellucid.decode.word_edges import EDGE, Words

CPU = torch.device("cpu")
WORDS = Words(open=frozenset({4, 5, 6}), going_on=frozenset({5, 8}), unmarked=frozenset({5, 7, 8}))
TERMS = [[((EDGE, 4, 5, EDGE), (EDGE, 6, EDGE)), ((4, 7),)], [], [((6,),), ((6,),)]]


def following(progress: Progress, state: int, piece: int) -> int:
    after, named, after_named = progress.after(torch.tensor([state]), torch.tensor([[piece]]))
    if piece in named[0]:
        return int(after_named[0, named[0].tolist().index(piece)])
    return int(after[0, 0])


@pytest.mark.parametrize("number", range(3))
def test_a_state_lacks_what_the_text_lacks(number):
    progress, required = Progress(TERMS, WORDS, CPU), Required(TERMS[number], WORDS)
    draw = random.Random(number)
    seen = set()
    for _ in range(60):
        state, readings, before = int(progress.start[number]), required.start, None
        for piece in draw.choices(range(3, 10), k=9):
            state, readings = following(progress, state, piece), required.after(readings, before, piece)
            before = piece
            lacking = int(progress.lacking(torch.tensor(state)))
            assert lacking == required.lacking(readings)
            seen.add(lacking)
    assert len(seen) == 1 + required.lacking(required.start)


def test_what_begins_a_term_is_named_and_rows_are_filled_up():
    progress = Progress(TERMS, WORDS, CPU)
    _, named, after = progress.after(progress.start, torch.zeros(3, 1, dtype=torch.int64))
    assert named.tolist() == [[4, 6], [NO_PIECE] * 2, [6, NO_PIECE]]
    assert progress.lacking(after)[named != NO_PIECE].tolist() == [2, 2, 1]


def test_sentences_with_the_same_terms_share_their_states():
    progress = Progress([*TERMS, TERMS[0]], WORDS, CPU)
    assert progress.start[0] == progress.start[3]
    assert len(set(progress.start.tolist())) == 3


def test_no_sentences_have_no_states():
    assert Progress([], Words(), CPU).start.shape == (0,)
