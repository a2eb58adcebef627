"""Words and the pieces that spell them: which pieces make up each word of a text, with or without its punctuation."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

# Characters that Unicode counts as punctuation but that stand for a word.
SPOKEN_PUNCTUATION = frozenset("%‰&@#§*")
_BYTE_PIECE = re.compile("<0x([0-9A-F]{2})>")


@dataclass(frozen=True)
class AlignedWord:
    """A word to be aligned: the pieces of its letters, without the punctuation around them; or punctuation alone."""

    pieces: range
    punctuation: bool = False


def word_piece_ranges(pieces: Sequence[str], text: str) -> list[range]:
    """Return for each word of `text`, split at white space, the range of indices of the pieces that spell it.

    A piece of white space alone goes with the word after it, one that holds parts
    of two words with both. Any white space counts that `str.split` knows, so a
    word may begin inside a piece, or after bytes:

    >>> word_piece_ranges(["▁the", "▁", "<0xC3>", "<0xA9>", "t\\u3000a", "▁"], "the ét\\u3000a")
    [range(0, 1), range(1, 5), range(4, 5)]
    """
    if not text.split():
        return []
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    for word, _, first, last in _letters_by_word(pieces, text):
        begin.setdefault(word, first)
        end[word] = last + 1
    ranges, stop = [], 0
    for word in range(len(text.split())):
        # A range begins where the one before it ended, so that
        # pieces of white space have a word too.
        ranges.append(range(min(begin.get(word, stop), stop), end.get(word, stop)))
        stop = ranges[-1].stop
    return ranges


def words_without_punctuation(pieces: Sequence[str], text: str) -> list[AlignedWord]:
    """Return the words of `text` without the punctuation around them.

    >>> words_without_punctuation(["▁«", "No", "»,", "▁—", "▁she"], "«No», — she")  # doctest: +NORMALIZE_WHITESPACE
    [AlignedWord(pieces=range(1, 2), punctuation=False), AlignedWord(pieces=range(3, 4), punctuation=True),
     AlignedWord(pieces=range(4, 5), punctuation=False)]
    """
    # The links of a full stop would otherwise be links of the word before it.
    letters: dict[int, list[tuple[str, int, int]]] = {}
    for word, letter, first, last in _letters_by_word(pieces, text) if text.split() else ():
        letters.setdefault(word, []).append((letter, first, last))

    ranges = word_piece_ranges(pieces, text)
    return [_strip_punctuation(of, letters.get(word, [])) for word, of in enumerate(ranges)]


def _strip_punctuation(pieces: range, letters: Sequence[tuple[str, int, int]]) -> AlignedWord:
    """Return a word without the pieces of the punctuation around it.

    Each letter comes with the first and the last piece that has a byte of it.
    """
    inside = [n for n, (letter, _, _) in enumerate(letters) if not is_punctuation(letter)]
    if not inside:
        return AlignedWord(pieces, punctuation=bool(letters))
    first, last = inside[0], inside[-1]

    # Where nothing is stripped the range stays, pieces of white space included.
    begin = letters[first][1] if first else pieces.start
    end = letters[last][2] + 1 if last + 1 < len(letters) else pieces.stop
    return AlignedWord(range(begin, end))


def is_punctuation(letter: str) -> bool:
    """Return whether a letter is punctuation that nobody reads out.

    >>> [is_punctuation(letter) for letter in ".»¿-%$a"]
    [True, True, True, True, False, False, False]
    """
    return unicodedata.category(letter).startswith("P") and letter not in SPOKEN_PUNCTUATION


def strip_word(word: str) -> str:
    """Return a word without the punctuation around it; punctuation alone stays.

    >>> strip_word("blue."), strip_word("t'aime"), strip_word("...")
    ('blue', "t'aime", '...')
    """
    letters = [n for n, letter in enumerate(word) if not is_punctuation(letter)]
    return word[letters[0] : letters[-1] + 1] if letters else word


def _letters_by_word(pieces: Sequence[str], text: str) -> Iterator[tuple[int, str, int, int]]:
    """Yield the letters that the pieces spell, without white space: word of `text`, letter, first and last piece."""
    letters = list(spell_letters(pieces))
    words = _word_indices("".join(letter for letter, _, _ in letters), text)
    visible = [spelled for spelled in letters if not spelled[0].isspace()]
    for word, (letter, first, last) in zip(words, visible, strict=True):
        yield word, letter, first, last


def spell_letters(pieces: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the letters that the pieces spell, each with the first and the last piece that has a byte of it."""
    bytes_of_pieces = [piece_bytes(piece) for piece in pieces]
    piece_of_byte = [number for number, piece in enumerate(bytes_of_pieces) for _ in piece]
    start = 0
    # A model may write bytes that are no text: each of them becomes a letter of its own.
    for letter in b"".join(bytes_of_pieces).decode("utf-8", "surrogateescape"):
        end = start + len(letter.encode("utf-8", "surrogateescape"))
        yield letter, piece_of_byte[start], piece_of_byte[end - 1]
        start = end


def spell_pieces(pieces: Sequence[str]) -> str:
    """Return the text that pieces spell, without the space before its first word.

    >>> spell_pieces(["▁the", "▁", "<0xC3>", "<0xA9>", "t"])
    'the ét'
    """
    return "".join(letter for letter, _, _ in spell_letters(pieces)).removeprefix(" ")


def piece_bytes(piece: str) -> bytes:
    """Return the bytes that a piece adds to the text.

    >>> piece_bytes("▁a"), piece_bytes("<0x41>")
    (b' a', b'A')
    """
    byte = _BYTE_PIECE.fullmatch(piece)
    return bytes.fromhex(byte[1]) if byte else piece.replace("▁", " ").encode()


def is_byte_piece(piece: str) -> bool:
    """Whether a piece stands for one byte of a character that has no piece.

    >>> is_byte_piece("<0xC3>"), is_byte_piece("▁a")
    (True, False)
    """
    return _BYTE_PIECE.fullmatch(piece) is not None


def _word_indices(spelled: str, text: str) -> list[int]:
    """Return for each letter of `spelled` that is not white space the index of its word in `text`.

    >>> _word_indices("a bc", "a bc"), _word_indices("1 ⁄2 x", "½ x")
    ([0, 1, 1], [0, 0, 0, 1])
    """
    if len(spelled.split()) == len(text.split()):
        text = spelled
    word_of_letter = [number for number, word in enumerate(text.split()) for _ in word]
    letters, text = "".join(spelled.split()), "".join(text.split())
    if letters == text:
        return word_of_letter

    # Pellucid's own pieces spell the words of their text one for one. Pieces of an
    # imported tokenizer, which rewrites the text before it cuts it, or of a text whose
    # tags were put back, may differ from the text: equal stretches are then aligned
    # first, and letters in between are spread evenly.
    words = []
    for _, a, b, c, d in SequenceMatcher(None, letters, text, autojunk=False).get_opcodes():
        for i in range(a, b):
            at = min(c + (i - a) * (d - c) // (b - a), len(word_of_letter) - 1)
            words.append(word_of_letter[at])
    return words
