"""The embedding matrix by itself: words as vectors, their cosines, nearest pieces, sums and differences."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from pellucid.data.tokenizer import EOS
from pellucid.store.directory import Bundle

Encode = Callable[[str], list[int]]
"""Function from a text to the ids of its pieces, without an end mark."""

SIDES = ("source", "target", "output")


@dataclass(frozen=True)
class SpelledWord:
    """Word, or a piece named by itself, with the pieces that spell it; its vector is the mean of theirs."""

    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]

    @property
    def spelled(self) -> str:
        """The pieces with blanks between them."""
        return " ".join(self.pieces)


@dataclass(frozen=True)
class Neighbour:
    """Piece, and the cosine of its vector with another."""

    piece: str
    id: int
    cosine: float


@dataclass(frozen=True)
class CosineChance:
    """Mean and deviation of the cosines of all pairs of different pieces: the yardstick for a cosine."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class Embeddings:
    """Table of vectors, a row for each piece; `encode` cuts text as the side of the table does."""

    side: str
    pieces: list[str]
    vectors: Float[np.ndarray, "V D"]
    encode: Encode

    @cached_property
    def directions(self) -> Float[np.ndarray, "V D"]:
        """The rows at length 1; a row of zeros stays one."""
        return to_unit_length(self.vectors)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each piece."""
        return {piece: number for number, piece in enumerate(self.pieces)}

    def word(self, text: str) -> SpelledWord:
        """Look up a piece written as it stands in the vocabulary (▁the, <0xC3>), or a word that pieces spell.

        Raises ValueError for a text without a piece.
        """
        special = text.startswith(("▁", "<"))
        ids = [self.ids[text]] if special and text in self.ids else self.encode(text)
        if not ids:
            raise ValueError(f"{text!r} is no word: it has no piece")
        return SpelledWord(text, tuple(ids), tuple(self.pieces[i] for i in ids))

    def words(self, texts: Iterable[str]) -> list[SpelledWord]:
        """Look up several words."""
        return [self.word(text) for text in texts]

    def vector(self, word: SpelledWord) -> Float[np.ndarray, " D"]:
        """Return the vector of a word: the mean of the vectors of its pieces."""
        return self.vectors[list(word.ids)].mean(axis=0)

    def matrix(self, words: Sequence[SpelledWord]) -> Float[np.ndarray, "N D"]:
        """Return the vector of each word, row by row."""
        return np.stack([self.vector(word) for word in words])

    def cosines(self, words: Sequence[SpelledWord]) -> Float[np.ndarray, "N N"]:
        """Return the cosine of each word with each other word."""
        directions = to_unit_length(self.matrix(words))
        return directions @ directions.T

    def neighbours(self, vector: Float[np.ndarray, " D"], count: int, without: Iterable[int] = ()) -> list[Neighbour]:
        """Return the pieces whose vectors point most nearly the same way, best first; of equal ones the lower id."""
        if count < 1:
            raise ValueError(f"{count} neighbours were asked for, it must be 1 or more")
        cosines = self.directions @ to_unit_length(vector[None])[0]
        # -inf, so that the pieces left out sort last and are not counted as finite
        cosines[list(without)] = -np.inf
        order = np.argsort(-cosines, kind="stable")[: min(count, int(np.isfinite(cosines).sum()))]
        return [Neighbour(self.pieces[i], int(i), float(cosines[i])) for i in order]

    def chance(self) -> CosineChance:
        """Return the mean and the deviation of all cosines between two different pieces."""
        count = len(self.directions)
        pairs = count * (count - 1)
        own_squares = (self.directions**2).sum(axis=1)
        # sums of products from products of sums: V x V cosines are never formed
        mean = ((self.directions.sum(axis=0) ** 2).sum() - own_squares.sum()) / pairs
        squares = (((self.directions.T @ self.directions) ** 2).sum() - (own_squares**2).sum()) / pairs
        return CosineChance(float(mean), float(np.sqrt(max(squares - mean**2, 0.0))))


def embedding_table(bundle: Bundle, side: str = "source") -> Embeddings:
    """Return a table of a model: what the encoder reads ("source"), the decoder reads ("target"), or makes logits with
    ("output"). Raises ValueError for another side.
    """
    if side not in SIDES:
        raise ValueError(f"side is {side!r}, it must be {', '.join(SIDES[:-1])} or {SIDES[-1]}")
    model, tokenizer = bundle.model, bundle.tokenizer
    # float64 for sums and cosines of many float32 numbers
    table = getattr(model, f"{side}_embedding").weight.detach().cpu().double().numpy()
    # the output table is one of target pieces too
    source = side == "source"
    piece_texts = tokenizer.source_pieces if source else tokenizer.target_pieces
    encode_texts = tokenizer.encode_source if source else tokenizer.encode_target

    def encode(text: str) -> list[int]:
        [ids] = encode_texts([text])
        return ids[:-1] if ids[-1:] == [EOS] else ids

    return Embeddings(side, piece_texts(range(len(table))), table, encode)


def to_unit_length(vectors: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
    """Return the rows at length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0.0, lengths, 1.0)
