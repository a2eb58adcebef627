"""A translation that goes round in circles: how it is noticed."""

from collections.abc import Sequence

LONGEST_BLOCK = 16
"""Pieces of the longest block that is looked for."""

TIMES, FEWEST = 4, 8
"""A block must stand so many times in a row, and fill so many pieces: people write "ha ha ha" and "......"."""


def has_repetition(tokens: Sequence[int]) -> bool:
    """Whether some block of 1 to 16 pieces stands 4 times in a row or more, and so fills 8 pieces at least.

    A source that repeats has a right to a translation that does: ask of both.

    >>> (has_repetition([5, *[7, 9] * 4, 6]), has_repetition([5, *[7, 9] * 3, 6]), has_repetition([7] * 8),
    ...  has_repetition([7] * 7))
    (True, False, True, False)
    """
    # What is counted repeats six pieces at least, so sentences with fewer repeated ones are done here, and most are.
    if len(tokens) - len(set(tokens)) < FEWEST - FEWEST // TIMES:
        return False
    for size in range(1, LONGEST_BLOCK + 1):
        wanted = max(TIMES * size, FEWEST) - size
        run = 0  # pieces in a row that equal the one a block before them
        for before, piece in zip(tokens, tokens[size:], strict=False):
            run = run + 1 if before == piece else 0
            if run == wanted:
                return True
    return False
