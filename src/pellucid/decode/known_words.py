"""Tells how much of a text consists of words that a vocabulary knows from its training text."""

import re
from collections.abc import Iterable

from pellucid.data.tokenizer import UNK, Tokenizer
from pellucid.decode.word_edges import joins_word

WORD = re.compile(r"[^\W\d_]+")


def measure_known_words(tokenizer: Tokenizer, texts: Iterable[str]) -> float:
    """Return how many percent of the words of these texts the source vocabulary knows; 0 for texts without a word.

    A word is known that is a single piece, for only words of the training text become one. Where words have no pieces
    of their own, in vocabularies of single characters and in scripts without spaces, it is enough that all of its
    characters have one.
    """
    words = [word for text in texts for word in WORD.findall(text)]
    known = 0
    for word, ids in zip(words, tokenizer.encode_source(words), strict=True):
        # Without EOS, and without the mark of a word's beginning where it is a piece of its own.
        names = [name for name in tokenizer.source_pieces(ids[:-1]) if name != "▁"]
        if tokenizer.config.kind == "char" or not all(map(joins_word, word)):
            known += UNK not in ids and not any(re.fullmatch("<0x[0-9A-F]{2}>", name) for name in names)
        else:
            known += len(names) == 1 and UNK not in ids
    return round(100 * known / len(words), 1) if words else 0.0
