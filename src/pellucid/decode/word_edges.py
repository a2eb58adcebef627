"""Where words begin and go on, in text and between the pieces of a vocabulary."""

import re
import unicodedata
from dataclasses import dataclass

from pellucid.data.tokenizer import Tokenizer

Links = list[tuple[int, int]]
"""Pairs of a source word and a target word, sorted; words are split at white space and counted from 0."""

EDGE = -1
"""At the ends of the spelling of a term: no letter or digit touches it there. It stands for no piece."""

NEW_WORD = -2
"""At the end of a prefix: any piece that starts a word."""

_WRITTEN_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # kana and ideographs
)


@dataclass(frozen=True)
class WordEdges:
    """The pieces of a vocabulary as parts of words. With none named, no piece touches another."""

    ends_in_letter: frozenset[int] = frozenset()
    """Pieces that end in a letter or digit."""
    begins_with_letter: frozenset[int] = frozenset()
    """Pieces that begin with a letter or digit, without the word-start mark."""
    without_space_mark: frozenset[int] = frozenset()
    """Pieces without the word-start mark: those that are going on, punctuation, the end mark."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "WordEdges":
        """Those of the target side. A byte above 127 is taken for part of a letter."""
        pieces = dict(enumerate(map(piece_character, tokenizer.target_names)))
        return cls(
            frozenset(i for i, piece in pieces.items() if piece and joins_word(piece[-1])),
            frozenset(i for i, piece in pieces.items() if piece and joins_word(piece[0])),
            frozenset(i for i, piece in pieces.items() if not piece.startswith("▁")),
        )


def piece_character(piece: str) -> str:
    """A piece, or the character that a byte piece is.

    >>> [piece_character(piece) for piece in ("▁dog", "<0x2C>", "<0xC3>", "</s>")]
    ['▁dog', ',', 'a', '</s>']
    """
    if not re.fullmatch("<0x[0-9A-F]{2}>", piece):
        return piece
    byte = int(piece[3:5], 16)
    return chr(byte) if byte < 128 else "a"


def joins_word(character: str) -> bool:
    """Whether a character sticks to its neighbours as one word: letters, digits, accents; not where no spaces are used.

    >>> [joins_word(each) for each in "aß7-犬"]
    [True, True, True, False, False]
    """
    return unicodedata.category(character)[0] in "LNM" and not _WRITTEN_WITHOUT_SPACES.match(character)


def edge_positions(text: str) -> list[int]:
    """The places in a text, from 0 to its length, that are not inside a word.

    >>> edge_positions("a dog!")
    [0, 1, 2, 5, 6]
    """
    inner = (i for i in range(1, len(text)) if not (joins_word(text[i - 1]) and joins_word(text[i])))
    return [0, *inner, len(text)] if text else [0]
