"""Detects degenerate translations, which repeat a block of tokens over and over."""

from collections.abc import Sequence

LONGEST_BLOCK = 16
"""Tokens of the longest block that is looked for."""

# People write "ha ha ha" and "......": fewer repetitions, or shorter ones, are no fault.
TIMES, FEWEST = 4, 8
"""Least number of times a block stands in a row, and of tokens that the repetitions fill."""


def has_repetition(tokens: Sequence[int]) -> bool:
    """Return whether a block of 1 to 16 tokens stands 4 times in a row or more and fills 8 tokens at least.

    Check the source too: where it repeats itself, its translation may do so.

    >>> (has_repetition([5, *[7, 9] * 4, 6]), has_repetition([5, *[7, 9] * 3, 6]), has_repetition([7] * 8),
    ...  has_repetition([7] * 7))
    (True, False, True, False)
    """
    # What is counted repeats six tokens at least, so sentences with fewer repeated ones are done here, and most are.
    if len(tokens) - len(set(tokens)) < FEWEST - FEWEST // TIMES:
        return False
    for size in range(1, LONGEST_BLOCK + 1):
        needed = max(TIMES * size, FEWEST) - size
        run = 0  # tokens in a row that equal the one a block before them
        for earlier, token in zip(tokens, tokens[size:], strict=False):
            run = run + 1 if earlier == token else 0
            if run == needed:
                return True
    return False
