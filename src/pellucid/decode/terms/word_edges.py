"""Word boundaries between the pieces of a vocabulary."""

import re
import unicodedata
from dataclasses import dataclass

from pellucid.data.tokenizer import Tokenizer

# Negative, so that no token has the id of a mark.
EDGE = -1
"""Mark at an end of a term's spelling: no letter or digit may touch it there. It stands for no token."""

_WRITTEN_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # kana and ideographs
)


@dataclass(frozen=True)
class WordEdges:
    """Sets of the tokens of a vocabulary that begin or end within a word; by default no token touches another."""

    ends_in_letter: frozenset[int] = frozenset()
    """Tokens that end in a letter or digit."""
    begins_with_letter: frozenset[int] = frozenset()
    """Tokens that begin with a letter or digit, without the word-start mark."""
    without_space_mark: frozenset[int] = frozenset()
    """Tokens without the word-start mark: those that continue a word, punctuation, EOS."""

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> "WordEdges":
        """Return the word edges of a tokenizer's target side."""
        pieces = dict(enumerate(map(_piece_character, tokenizer.target_names)))
        return cls(
            frozenset(i for i, piece in pieces.items() if piece and joins_word(piece[-1])),
            frozenset(i for i, piece in pieces.items() if piece and joins_word(piece[0])),
            frozenset(i for i, piece in pieces.items() if not piece.startswith("▁")),
        )


def _piece_character(piece: str) -> str:
    """Return a piece as it is, or the character of a byte piece; a byte above 127 counts as part of a letter.

    >>> [_piece_character(piece) for piece in ("▁dog", "<0x2C>", "<0xC3>", "</s>")]
    ['▁dog', ',', 'a', '</s>']
    """
    if not re.fullmatch("<0x[0-9A-F]{2}>", piece):
        return piece
    byte = int(piece[3:5], 16)
    # Above 127 it is one byte of a UTF-8 sequence, mostly of a letter with an accent or of another alphabet.
    return chr(byte) if byte < 128 else "a"


def joins_word(character: str) -> bool:
    """Return whether a character forms one word with its neighbours: letters, digits, accents.

    Characters of scripts that are written without spaces do not.

    >>> [joins_word(character) for character in "aß7-犬"]
    [True, True, True, False, False]
    """
    return unicodedata.category(character)[0] in "LNM" and not _WRITTEN_WITHOUT_SPACES.match(character)


def edge_positions(text: str) -> list[int]:
    """Return the positions in a text, from 0 to its length, that are not inside a word.

    >>> edge_positions("a dog!")
    [0, 1, 2, 5, 6]
    """
    inner = (i for i in range(1, len(text)) if not (joins_word(text[i - 1]) and joins_word(text[i])))
    return [0, *inner, len(text)] if text else [0]
