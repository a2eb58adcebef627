"""Forced prefixes: the beginning of a translation, given."""

from collections.abc import Iterable

from pellucid.data.tokenizer import UNK, Tokenizer
from pellucid.decode.word_edges import NEW_WORD


def prefix_pieces(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """The pieces a translation with this beginning starts with; () for a blank text.

    A text that ends in a letter may go on with the same word: "Der Hu" with "nd". A space at the end says that the word
    is complete: what follows starts a new one. Spaces are otherwise as the tokenizer has them: none in front, and one
    where there are several. Raises ValueError for a line feed, and for a character the model cannot write.
    """
    if "\n" in text:
        raise ValueError(f"the prefix {text!r:.60} has a line feed; a translation is one line, so give one line of it")
    if not text.strip(" "):
        return ()
    [ids] = tokenizer.encode_target([text])
    if UNK in ids:
        raise ValueError(f"the prefix {text!r:.60} has a character this model cannot write")
    return (*ids[:-1], NEW_WORD) if text.endswith(" ") else tuple(ids[:-1])


def refuse_long_prefixes(asked: Iterable[tuple[int, tuple[int, ...], int]]) -> None:
    """ValueError if a prefix has more pieces than its translation may have; each comes as (line, prefix, limit)."""
    long = [
        f"line {line} has {len(prefix)}, its translation at most {limit}"
        for line, prefix, limit in asked
        if len(prefix) > limit
    ]
    if long:
        more = f", and {len(long) - 5} more lines" if len(long) > 5 else ""
        raise ValueError(f"prefixes of too many pieces: {'; '.join(long[:5])}{more}; shorten them or raise max_extra")
