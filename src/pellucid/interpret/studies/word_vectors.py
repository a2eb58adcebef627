"""Texts in pieces, and words as vectors of the embedding matrix: cosines, nearest pieces, analogies, and maps."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from pellucid.data.tokenizer import Tokenizer, strip_eos
from pellucid.decode.torch_models import inference_only
from pellucid.interpret.trace.edits import Record
from pellucid.interpret.trace.facts import TraceSide, make_side
from pellucid.store.directory import Bundle

Encode = Callable[[str], list[int]]  # function from a text to the ids of its pieces, without an end token

TABLE_SIDES = ("source", "target", "output")


@dataclass(frozen=True)
class SpelledWord:
    """Word, or a piece named by itself, with the pieces that spell it.

    Its vector is the mean of theirs.
    """

    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]

    @property
    def spelled(self) -> str:
        return " ".join(self.pieces)


@dataclass(frozen=True)
class Neighbour:
    """Piece, and the cosine of its vector with another."""

    piece: str
    id: int
    cosine: float


@dataclass(frozen=True)
class _CosineChance:
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
        return [self.word(text) for text in texts]

    def vector(self, word: SpelledWord) -> Float[np.ndarray, " D"]:
        return self.vectors[list(word.ids)].mean(axis=0)

    def matrix(self, words: Sequence[SpelledWord]) -> Float[np.ndarray, "N D"]:
        return np.stack([self.vector(word) for word in words])

    def cosines(self, words: Sequence[SpelledWord]) -> Float[np.ndarray, "N N"]:
        directions = to_unit_length(self.matrix(words))
        return directions @ directions.T

    def neighbours(
        self,
        vector: Float[np.ndarray, " D"],
        count: int,
        without: Iterable[int] = (),
    ) -> list[Neighbour]:
        """Return the pieces whose vectors point most nearly the same way, best first.

        Of equal ones the lower id.
        """
        if count < 1:
            raise ValueError(f"{count} neighbours were asked for, it must be 1 or more")
        cosines = self.directions @ to_unit_length(vector[None])[0]
        # -inf, so that the pieces left out sort last and are not counted as finite
        cosines[list(without)] = -np.inf
        order = np.argsort(-cosines, kind="stable")[: min(count, int(np.isfinite(cosines).sum()))]
        return [Neighbour(self.pieces[i], int(i), float(cosines[i])) for i in order]

    def chance(self) -> _CosineChance:
        """Return the mean and the deviation of all cosines between two different pieces."""
        count = len(self.directions)
        pairs = count * (count - 1)
        own_squares = (self.directions**2).sum(axis=1)
        # sums of products from products of sums: V x V cosines are never formed
        mean = ((self.directions.sum(axis=0) ** 2).sum() - own_squares.sum()) / pairs
        squares = (((self.directions.T @ self.directions) ** 2).sum() - (own_squares**2).sum()) / pairs
        return _CosineChance(float(mean), float(np.sqrt(max(squares - mean**2, 0.0))))


def embedding_table(bundle: Bundle, side: str = "source") -> Embeddings:
    """Return a table of a model: what the encoder reads ("source"), the decoder reads ("target"), or makes logits with
    ("output"). Raises ValueError for another side.
    """
    if side not in TABLE_SIDES:
        raise ValueError(f"side is {side!r}, it must be {', '.join(TABLE_SIDES[:-1])} or {TABLE_SIDES[-1]}")
    model, tokenizer = bundle.model, bundle.tokenizer

    # float64 for sums and cosines of many float32 numbers
    table = getattr(model, f"{side}_embedding").weight.detach().cpu().double().numpy()

    # the output table is one of target pieces too
    source = side == "source"
    piece_texts = tokenizer.source_pieces if source else tokenizer.target_pieces
    encode_texts = tokenizer.encode_source if source else tokenizer.encode_target

    def encode(text: str) -> list[int]:
        [ids] = encode_texts([text])
        return strip_eos(ids)

    return Embeddings(side, piece_texts(range(len(table))), table, encode)


def to_unit_length(vectors: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N D"]:
    """Return the rows at length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0.0, lengths, 1.0)


MANY_PIECES = 3  # most pieces that a word may have without being listed as one cut into many

PIECE_SIDES = TABLE_SIDES[:2]


@dataclass(frozen=True)
class CutText(TraceSide):
    """Text in pieces, with the facts of a trace, and `back`, the text that these pieces give again."""

    back: str

    @property
    def many_piece_words(self) -> list[tuple[str, int]]:
        """Words that were cut into more than `MANY_PIECES` pieces, and into how many."""
        words = []
        for number, word in enumerate(self.text.split()):
            count = self.words.count(number)
            if count > MANY_PIECES:
                words.append((word, count))
        return words


def cut_into_pieces(tokenizer: Tokenizer, text: str, side: str = "source") -> CutText:
    """Cut a text as one side of a model's tokenizer does.

    Raises ValueError for another side than `PIECE_SIDES`.
    """
    if side not in PIECE_SIDES:
        raise ValueError(f"side is {side!r}, it must be source or target")
    processor = getattr(tokenizer, side)
    [ids] = getattr(tokenizer, f"encode_{side}")([text])
    pieces = getattr(tokenizer, f"{side}_pieces")(ids)
    back = getattr(tokenizer, f"decode_{side}")(ids)

    # The text which SentencePiece cuts has ▁ where it has spaces.
    cased = text.lower() if tokenizer.lowercase else text
    normalised = getattr(processor, "model", processor).normalize(cased).replace("▁", " ").strip()
    return CutText(**vars(make_side(pieces, ids, text, normalised)), back=back)


def count_words_and_pieces(cuts: Sequence[CutText]) -> tuple[int, int, int]:
    """Count words, pieces that are no special tokens, and unknown pieces of several texts."""
    words = pieces = unknown = 0
    for cut in cuts:
        words += len(cut.text.split())
        pieces += sum(word is not None for word in cut.words)
        unknown += sum(cut.unknown)
    return words, pieces, unknown


@dataclass(frozen=True)
class InputVector:
    """Vectors of a piece at a position.

    `position` is None where none is added (rotary ones turn queries and keys).
    """

    piece: str
    id: int
    at: int
    row: Float[np.ndarray, " D"]
    scaled: Float[np.ndarray, " D"]
    position: Float[np.ndarray, " D"] | None
    input: Float[np.ndarray, " D"]


def input_vectors(
    bundle: Bundle,
    word: str,
    side: str = "source",
    at: int = 0,
) -> list[InputVector]:
    """Return the vectors of each piece of a word, the first at position `at` (0 is the first of a sentence).

    Raises ValueError for another side, for a text without a piece, and for positions the model does
    not have.
    """
    if side not in PIECE_SIDES:
        raise ValueError(f"side is {side!r}, it must be source or target")
    table = embedding_table(bundle, side)
    spelled = table.word(word)
    limit = bundle.model.config.max_positions
    if at < 0 or at + len(spelled.ids) > limit:
        raise ValueError(f"{word!r} at position {at} ends beyond this model's positions, 0 to {limit - 1:,}")

    # Recorded from the model's own embedding, not computed beside it.
    model, record = bundle.model, Record(("embedding", "positions", "input"))
    embedding, positions = getattr(model, f"{side}_embedding"), getattr(model, f"{side}_positions")
    with inference_only(model):
        device = embedding.weight.device
        ids = torch.tensor([spelled.ids], device=device)
        positions_of_pieces = torch.arange(at, at + len(spelled.ids), device=device)
        model.embed(ids, positions_of_pieces, embedding, positions, record)

    scaled, inputs = (record[name][0].cpu().double().numpy() for name in ("embedding", "input"))
    # A rotary model or one without positions records no such tensor.
    added: Any = [None] * len(inputs)
    if "positions" in record:
        added = record["positions"].cpu().double().numpy()

    vectors = []
    for n, (piece, id) in enumerate(zip(spelled.pieces, spelled.ids, strict=True)):
        row = table.vectors[id]
        vectors.append(InputVector(piece, id, at + n, row, scaled[n], added[n], inputs[n]))

    return vectors


@dataclass(frozen=True)
class SignedWord:
    """Word of a question, with the sign it is added with."""

    sign: int
    word: SpelledWord


@dataclass(frozen=True)
class Analogy:
    """Question, its answers with its own words left out and included, and the ranks of the expected word, 1 first.

    `by_chance` is how often the expected word ranks as high or higher in tables of random numbers,
    where every candidate is as likely as any other to have any rank.
    """

    terms: tuple[SignedWord, ...]
    answers: list[Neighbour]
    answers_with_inputs: list[Neighbour]
    expected: SpelledWord | None = None
    rank: int | None = None
    rank_with_inputs: int | None = None
    candidates: int = 0
    by_chance: float | None = None

    @property
    def question(self) -> str:
        words = [f"{'+' if term.sign > 0 else '-'} {term.word.text}" for term in self.terms]
        return " ".join(words).removeprefix("+ ")

    @property
    def verdict(self) -> str:
        if self.expected is None or self.by_chance is None:
            first = self.answers_with_inputs[0]
            is_input = any(first.id in term.word.ids for term in self.terms)
            return f"with the words of the question included, the answer is {'one of them: ' * is_input}{first.piece}"
        if self.rank == 1:
            also = "" if self.rank_with_inputs == 1 else "; with them included it is not"
            return f"this model does: {self.expected.text} comes first, the words of the question left out{also}"

        return (
            f"this model does not: {self.expected.text} is number {self.rank:,} of {self.candidates:,}, the words of "
            f"the question left out; random numbers would place it as high in {self.by_chance:.2%} of tables"
        )


def parse_question(words: Sequence[str], table: Embeddings) -> tuple[SignedWord, ...]:
    """Parse `king - man + woman`, or three words a b c for a - b + c.

    Raises ValueError for anything else.
    """
    if len(words) == 1:  # the question in quotes, as one word of the command line
        words = words[0].split()
    if len(words) == 3 and not {"+", "-"} & set(words):
        words = [words[0], "-", words[1], "+", words[2]]
    # a question may begin with its sign, as in - man + king + woman
    signed = words if words and words[0] in ("+", "-") else ["+", *words]
    signs, texts = signed[0::2], signed[1::2]
    if len(signs) != len(texts) or len(texts) < 2 or not set(signs) <= {"+", "-"} or {"+", "-"} & set(texts):
        raise ValueError(
            f"{' '.join(words)!r} is not an analogy; it needs words with signs between them, for example: "
            "king - man + woman"
        )

    terms = []
    for sign, text in zip(signs, texts, strict=True):
        terms.append(SignedWord(1 if sign == "+" else -1, table.word(text)))
    return tuple(terms)


def solve_analogy(
    table: Embeddings,
    terms: Sequence[SignedWord],
    expected: SpelledWord | None = None,
    *,
    count: int = 10,
) -> Analogy:
    """Find the nearest pieces to the sum of the words, and the rank of an expected word among them.

    A word of several pieces is ranked by the mean of their vectors. Raises ValueError if the words
    cancel out, and for an expected word that shares a piece with the question.
    """
    inputs = sorted({id for term in terms for id in term.word.ids})
    total = sum_of_words(table, terms)
    if not total.any():
        raise ValueError("the words of the question cancel out: their sum is zero")

    analogy = Analogy(
        tuple(terms),
        table.neighbours(total, count, without=inputs),
        table.neighbours(total, count),
    )
    if expected is None:
        return analogy
    if not can_be_asked(terms, expected):
        shares = f"{expected.text!r} shares a piece with the question"
        raise ValueError(f"{shares}, whose pieces are left out of the answers")

    rank, with_inputs = answer_ranks(table, total, expected, inputs)
    # a word of several pieces is no row of the table and is one candidate more
    candidates = len(table.pieces) - len(inputs) + (len(expected.ids) > 1)
    return replace(
        analogy,
        expected=expected,
        rank=rank,
        rank_with_inputs=with_inputs,
        candidates=candidates,
        by_chance=rank / candidates,
    )


def can_be_asked(terms: Sequence[SignedWord], expected: SpelledWord) -> bool:
    """Whether the answer has no piece of the question, which would be near to it in any table."""
    return not {id for term in terms for id in term.word.ids} & set(expected.ids)


def answer_ranks(
    table: Embeddings, vector: Float[np.ndarray, " D"], expected: SpelledWord, inputs: Sequence[int]
) -> tuple[int, int]:
    """Return the rank of a word by its cosine with a vector, 1 first, among all pieces but the inputs and among all."""
    # `vector` need not have length 1: that scales both sides alike
    above = table.directions @ vector > to_unit_length(table.matrix([expected]))[0] @ vector
    if len(expected.ids) == 1:
        above[expected.ids[0]] = False  # not above itself, however the two products were rounded
    return 1 + int(above.sum() - above[list(inputs)].sum()), 1 + int(above.sum())


def sum_of_words(table: Embeddings, terms: Sequence[SignedWord]) -> Float[np.ndarray, " D"]:
    """Add the words at length 1 with their signs."""
    directions = to_unit_length(table.matrix([term.word for term in terms]))
    return np.array([term.sign for term in terms], dtype=float) @ directions


@dataclass(frozen=True)
class _Projection:
    """Coordinates for each row, and the share of the variance that each principal component holds."""

    places: Float[np.ndarray, "N K"]
    shares: tuple[float, ...] = ()


def project_vectors(vectors: Float[np.ndarray, "N D"], dims: int = 2) -> _Projection:
    """Project the rows to `dims` dimensions.

    Raises ValueError for other numbers than 2 and 3, and for too few rows.
    """
    require_dimensions(dims)
    if len(vectors) <= dims or vectors.shape[1] < dims:
        raise ValueError(
            f"{len(vectors)} vectors of {vectors.shape[1]} numbers cannot be put on a map of {dims} dimensions; take "
            f"{dims + 1} words or more"
        )
    return project_pca(vectors, dims)


def require_dimensions(dims: int) -> None:
    """Raise ValueError for numbers of dimensions other than 2 and 3."""
    if dims not in (2, 3):
        raise ValueError(f"a map has 2 or 3 dimensions, not {dims}")


def project_pca(vectors: Float[np.ndarray, "N D"], dims: int) -> _Projection:
    """Project to the directions along which the rows vary most (Pearson 1901), the eigenvectors of their covariance."""
    centred = vectors - vectors.mean(axis=0)
    values, directions = np.linalg.eigh(centred.T @ centred)
    # eigh sorts ascending, and may give an eigenvalue just below zero
    values, directions = values[::-1].clip(min=0.0), directions[:, ::-1][:, :dims]

    # the sign of a direction is free; its largest number
    # is made positive, so that maps can be compared
    largest = directions[np.abs(directions).argmax(axis=0), range(dims)]
    total = values.sum()
    shares = tuple((values[:dims] / total).tolist()) if total > 0.0 else (0.0,) * dims
    return _Projection(centred @ (directions * np.where(largest < 0.0, -1.0, 1.0)), shares)
