"""Text without what may differ between two copies of a sentence, by which a leak of test text is found."""

import re

# Letters and digits from which a sentence of the test set counts: "Yes." may be in any text.
SHORTEST_LEAK = 12
_ASCII_SIGNS = bytes(code for code in range(128) if not chr(code).isalnum())
_OTHER_SIGNS = re.compile(r"\W")


def bare_text(text: str) -> str:
    """Return a text without case, punctuation and spaces.

    >>> bare_text("¿It's 10 o'clock?")
    'its10oclock'
    """
    # All training text passes here: deleting bytes is several times faster than matching letters.
    encoded = text.casefold().encode("utf-8", "surrogatepass")
    bare = encoded.translate(None, _ASCII_SIGNS).decode("utf-8", "surrogatepass")
    return bare if bare.isalnum() else _OTHER_SIGNS.sub("", bare)
