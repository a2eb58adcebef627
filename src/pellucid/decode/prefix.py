"""Forced prefixes: translations that must begin with a given text."""

from collections.abc import Iterable

from pellucid.data.tokenizer import UNK, Tokenizer
from pellucid.decode.word_edges import NEW_WORD


def prefix_pieces(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """Return the tokens that a translation with this beginning starts with; () for a blank text.

    A text that ends in a letter may continue the same word: "Der Hu" with "nd". A space at the end says that the word
    is complete: what follows starts a new one. Spaces are otherwise as the tokenizer has them: none in front, and one
    where there are several. Raises ValueError for a line feed, and for a character the model cannot write.
    """
    if "\n" in text:
        raise ValueError(
            f"the prefix {text!r:.60} has a line feed; a translation is one line, so its prefix must be one line too"
        )
    if not text.strip(" "):
        return ()
    [ids] = tokenizer.encode_target([text])
    if UNK in ids:
        raise ValueError(f"the prefix {text!r:.60} has a character this model cannot write")
    # A space at the end is no token of its own, so NEW_WORD stands for it; the last id is EOS.
    return (*ids[:-1], NEW_WORD) if text.endswith(" ") else tuple(ids[:-1])


def refuse_long_prefixes(prefixes: Iterable[tuple[int, tuple[int, ...], int]]) -> None:
    """Raise ValueError if a prefix, given as (line, prefix, limit), has more tokens than its translation may have."""
    too_long = [
        f"line {line} has {len(prefix)}, its translation at most {limit}"
        for line, prefix, limit in prefixes
        if len(prefix) > limit
    ]
    if too_long:
        # Five lines show the pattern; a file of thousands would fill the screen.
        more = f", and {len(too_long) - 5} more lines" if len(too_long) > 5 else ""
        raise ValueError(
            f"prefixes of too many pieces: {'; '.join(too_long[:5])}{more}; shorten them or raise max_extra"
        )
