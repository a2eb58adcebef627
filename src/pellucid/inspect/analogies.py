"""a is to b as ? is to c: sums and differences of embeddings, and what a table of random numbers would answer.

Vectors are brought to length 1 before they are added (3CosAdd, Mikolov et al. 2013). Published analogies leave the
words of the question out of the answers, without which the answer is often one of them (Linzen 2016); both are given.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from pellucid.inspect.embeddings import Embeddings, Neighbour, SpelledWord, to_unit_length

RANDOM_TABLES = 10
"""Random tables that a model's is compared with."""


@dataclass(frozen=True)
class SignedWord:
    """A word with its sign."""

    sign: int
    word: SpelledWord


@dataclass(frozen=True)
class Analogy:
    """A question, its answers with its words left out and not, and where the expected one stands among them, 1 first.

    `by_chance` is how often it stands as high or higher in tables of random numbers, where any of the candidates is as
    likely as another to stand at any place.
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
        """As it is written: king - man + woman."""
        words = [f"{'+' if term.sign > 0 else '-'} {term.word.text}" for term in self.terms]
        return " ".join(words).removeprefix("+ ")

    @property
    def holds(self) -> bool | None:
        """Whether the expected word comes first of those that are not in the question; None where none is expected."""
        return None if self.rank is None else self.rank == 1

    @property
    def verdict(self) -> str:
        """In a sentence what came of it."""
        if self.expected is None or self.by_chance is None:
            inputs = {id for term in self.terms for id in term.word.ids}
            first = self.answers_with_inputs[0]
            if first.id in inputs:
                return f"with the words of the question let in, the answer is one of them: {first.piece}"
            return f"with the words of the question let in, the answer is {first.piece}"
        if self.rank == 1:
            also = "" if self.rank_with_inputs == 1 else "; with them let in it is not"
            return f"this model does: {self.expected.text} comes first, the words of the question left out{also}"
        return (
            f"this model does not: {self.expected.text} is number {self.rank:,} of {self.candidates:,}, the words of "
            f"the question left out; random numbers would place it as high in {self.by_chance:.2%} of tables"
        )


@dataclass(frozen=True)
class Accuracy:
    """How many of a list of analogies come out, inputs left out and not, and how many by random tables."""

    count: int
    right: int
    right_with_inputs: int
    random: float
    most_random: int

    @property
    def verdict(self) -> str:
        """Whether the model is above chance: more than the luckiest random table."""
        says = "more than chance" if self.right > self.most_random else "this model does not"
        return (
            f"{says}: {self.right:,} of {self.count:,} come out, of tables of random numbers "
            f"{self.random:.2f} on average and {self.most_random:,} at most"
        )


def parse_question(words: Sequence[str], table: Embeddings) -> tuple[SignedWord, ...]:
    """`king - man + woman`, or three words a b c for a - b + c; ValueError for what is neither."""
    if len(words) == 3 and not {"+", "-"} & set(words):
        words = [words[0], "-", words[1], "+", words[2]]
    signed = words if words and words[0] in ("+", "-") else ["+", *words]
    signs, texts = signed[0::2], signed[1::2]
    if len(signs) != len(texts) or len(texts) < 2 or not set(signs) <= {"+", "-"} or {"+", "-"} & set(texts):
        raise ValueError(f"{' '.join(words)!r} is no analogy; write it as: king - man + woman")
    return tuple(
        SignedWord(1 if sign == "+" else -1, table.word(text)) for sign, text in zip(signs, texts, strict=True)
    )


def solve_analogy(
    table: Embeddings, terms: Sequence[SignedWord], expected: SpelledWord | None = None, *, count: int = 10
) -> Analogy:
    """The nearest pieces to the sum, and where an expected one stands among them.

    A word of several pieces stands where their mean would. Raises ValueError for a sum of nothing, and for an expected
    word that has a piece of the question.
    """
    inputs = sorted({id for term in terms for id in term.word.ids})
    sum_of = sum_of_words(table, terms)
    if not sum_of.any():
        raise ValueError("the words of the question cancel out: their sum is zero")
    found = Analogy(tuple(terms), table.neighbours(sum_of, count, without=inputs), table.neighbours(sum_of, count))
    if expected is None:
        return found
    if not can_be_asked(terms, expected):
        raise ValueError(
            f"{expected.text!r} shares a piece with the question, whose pieces are left out of the answers"
        )
    rank, with_inputs = answer_ranks(table, sum_of, expected, inputs)
    candidates = len(table.pieces) - len(inputs) + (len(expected.ids) > 1)
    return replace(
        found,
        expected=expected,
        rank=rank,
        rank_with_inputs=with_inputs,
        candidates=candidates,
        by_chance=rank / candidates,
    )


def can_be_asked(terms: Sequence[SignedWord], expected: SpelledWord) -> bool:
    """Whether the answer has no piece of the question, which would be near to it in any table."""
    return not {id for term in terms for id in term.word.ids} & set(expected.ids)


def measure_accuracy(
    table: Embeddings, questions: Sequence[tuple[Sequence[SignedWord], SpelledWord]], *, seed: int = 1
) -> Accuracy:
    """How many questions have their expected word first, in this table and in random ones. ValueError for none."""
    if not questions:
        raise ValueError("there is no analogy to ask, or none whose answer shares no piece with its question")
    draw = np.random.default_rng(seed)
    first, with_inputs = count_first_answers(table, questions)
    by_chance = [count_first_answers(random_table(table, draw), questions)[0] for _ in range(RANDOM_TABLES)]
    return Accuracy(len(questions), first, with_inputs, float(np.mean(by_chance)), max(by_chance))


def count_first_answers(
    table: Embeddings, questions: Sequence[tuple[Sequence[SignedWord], SpelledWord]]
) -> tuple[int, int]:
    """How often the expected word comes first, with the words of the question left out and not."""
    counts = np.zeros(2, dtype=int)
    for terms, expected in questions:
        inputs = sorted({id for term in terms for id in term.word.ids})
        counts += np.array(answer_ranks(table, sum_of_words(table, terms), expected, inputs)) == 1
    return int(counts[0]), int(counts[1])


def answer_ranks(
    table: Embeddings, vector: Float[np.ndarray, " D"], expected: SpelledWord, inputs: Sequence[int]
) -> tuple[int, int]:
    """The place of a word by its cosine with a vector, 1 first: among all pieces but the inputs, and among all."""
    above = table.directions @ vector > to_unit_length(table.matrix([expected]))[0] @ vector
    if len(expected.ids) == 1:
        above[expected.ids[0]] = False  # not above itself, however the two products were rounded
    return 1 + int(above.sum() - above[list(inputs)].sum()), 1 + int(above.sum())


def sum_of_words(table: Embeddings, terms: Sequence[SignedWord]) -> Float[np.ndarray, " D"]:
    """The words at length 1, added with their signs."""
    directions = to_unit_length(table.matrix([term.word for term in terms]))
    return np.array([term.sign for term in terms], dtype=float) @ directions


def random_table(table: Embeddings, draw: np.random.Generator) -> Embeddings:
    """A table of the same shape that knows nothing: every number from a normal distribution."""
    return replace(table, vectors=draw.standard_normal(table.vectors.shape))
