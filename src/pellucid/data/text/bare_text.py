"""Text without what may differ between two copies of a sentence, by which a leak of test text is found."""

import re

# Letters and digits from which a sentence of the test set counts: "Yes." may be in any text.
SHORTEST_LEAK = 12
_SIGNS = re.compile(r"[^\W_]+")


def bare_text(text: str) -> str:
    """Return a text without case, punctuation and spaces.

    >>> bare_text("It's 10 o'clock!")
    'its10oclock'
    """
    return "".join(_SIGNS.findall(text.casefold()))
