"""The embedding matrix looked at alone: words as vectors, their cosines, nearest pieces, sums and differences."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from pellucid.bundle import Bundle
from pellucid.data.tokenizer import EOS

Encode = Callable[[str], list[int]]
"""The pieces of a text, without an end mark."""

SIDES = ("source", "target", "output")


@dataclass(frozen=True)
class SpelledWord:
    """A word, or a piece named as it is, and the pieces that spell it; its vector is the mean of theirs."""

    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]

    @property
    def spelled(self) -> str:
        """The pieces with blanks between them."""
        return " ".join(self.pieces)


@dataclass(frozen=True)
class Neighbour:
    """A piece and the cosine of its vector with another."""

    piece: str
    id: int
    cosine: float


@dataclass(frozen=True)
class CosineChance:
    """Cosines of two different pieces of a table, over all pairs of them: what a cosine has to be compared with."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class Embeddings:
    """One table of vectors, a row for each piece; `encode` cuts text as the side of the table does."""

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
        """The number of each piece."""
        return {piece: number for number, piece in enumerate(self.pieces)}

    def word(self, text: str) -> SpelledWord:
        """A piece written as it stands in the vocabulary (▁the, <0xC3>), or a word that pieces spell.

        Raises ValueError for a text without a piece.
        """
        special = text.startswith(("▁", "<"))
        ids = [self.ids[text]] if special and text in self.ids else self.encode(text)
        if not ids:
            raise ValueError(f"{text!r} is no word: it has no piece")
        return SpelledWord(text, tuple(ids), tuple(self.pieces[i] for i in ids))

    def words(self, texts: Iterable[str]) -> list[SpelledWord]:
        """Each of them."""
        return [self.word(text) for text in texts]

    def vector(self, word: SpelledWord) -> Float[np.ndarray, " D"]:
        """The mean of the vectors of its pieces."""
        return self.vectors[list(word.ids)].mean(axis=0)

    def matrix(self, words: Sequence[SpelledWord]) -> Float[np.ndarray, "N D"]:
        """The vector of each word."""
        return np.stack([self.vector(word) for word in words])

    def cosines(self, words: Sequence[SpelledWord]) -> Float[np.ndarray, "N N"]:
        """Of each word with each."""
        directions = to_unit_length(self.matrix(words))
        return directions @ directions.T

    def neighbours(self, vector: Float[np.ndarray, " D"], count: int, without: Iterable[int] = ()) -> list[Neighbour]:
        """The pieces whose vectors point most nearly the same way, best first; of equal ones the lower number."""
        if count < 1:
            raise ValueError(f"{count} neighbours were asked for, it must be 1 or more")
        cosines = self.directions @ to_unit_length(vector[None])[0]
        cosines[list(without)] = -np.inf
        order = np.argsort(-cosines, kind="stable")[: min(count, int(np.isfinite(cosines).sum()))]
        return [Neighbour(self.pieces[i], int(i), float(cosines[i])) for i in order]

    def chance(self) -> CosineChance:
        """The mean and the deviation of all cosines between two different pieces, without forming them all."""
        count = len(self.directions)
        pairs = count * (count - 1)
        of_itself = (self.directions**2).sum(axis=1)
        mean = ((self.directions.sum(axis=0) ** 2).sum() - of_itself.sum()) / pairs
        squares = (((self.directions.T @ self.directions) ** 2).sum() - (of_itself**2).sum()) / pairs
        return CosineChance(float(mean), float(np.sqrt(max(squares - mean**2, 0.0))))


def embedding_table(bundle: Bundle, side: str = "source") -> Embeddings:
    """A table of a model: what the encoder reads ("source"), the decoder reads ("target"), or makes logits with
    ("output"). ValueError for another side."""
    if side not in SIDES:
        raise ValueError(f"side is {side!r}, it must be {', '.join(SIDES[:-1])} or {SIDES[-1]}")
    model, tokenizer = bundle.model, bundle.tokenizer
    table = getattr(model, f"{side}_embedding").weight.detach().cpu().double().numpy()
    source = side == "source"
    name = tokenizer.source_pieces if source else tokenizer.target_pieces
    cut = tokenizer.encode_source if source else tokenizer.encode_target

    def encode(text: str) -> list[int]:
        [ids] = cut([text])
        return ids[:-1] if ids[-1:] == [EOS] else ids

    return Embeddings(side, name(range(len(table))), table, encode)


def to_unit_length(vectors: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
    """The rows at length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0.0, lengths, 1.0)
