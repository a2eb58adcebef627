"""Analogies as sums and differences of embeddings, compared with the answers of tables of random numbers.

Vectors are brought to length 1 before they are added (3CosAdd, Mikolov et al. 2013). Published analogies leave the
words of the question out of the answers; otherwise the answer is often one of them (Linzen 2016). Both are given.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from pellucid.inspect.embeddings import Embeddings, Neighbour, SpelledWord, to_unit_length

RANDOM_TABLES = 10
"""Random tables that a model's table is compared with."""


@dataclass(frozen=True)
class SignedWord:
    """Word of a question, with the sign it is added with."""

    sign: int
    word: SpelledWord


@dataclass(frozen=True)
class Analogy:
    """Question, its answers with its own words left out and let in, and the ranks of the expected word, 1 first.

    `by_chance` is how often the expected word ranks as high or higher in tables of random numbers, where every
    candidate is as likely as any other to have any rank.
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
        """The question as it is written: king - man + woman."""
        words = [f"{'+' if term.sign > 0 else '-'} {term.word.text}" for term in self.terms]
        return " ".join(words).removeprefix("+ ")

    @property
    def holds(self) -> bool | None:
        """Whether the expected word is the best answer outside the question; None where none is expected."""
        return None if self.rank is None else self.rank == 1

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
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
    """Number of analogies that come out, inputs left out and let in, and how many do in random tables."""

    count: int
    right: int
    right_with_inputs: int
    random: float
    most_random: int

    @property
    def verdict(self) -> str:
        """The result in a sentence: above chance means more than the luckiest random table."""
        says = "more than chance" if self.right > self.most_random else "this model does not"
        return (
            f"{says}: {self.right:,} of {self.count:,} come out, of tables of random numbers "
            f"{self.random:.2f} on average and {self.most_random:,} at most"
        )


def parse_question(words: Sequence[str], table: Embeddings) -> tuple[SignedWord, ...]:
    """Parse `king - man + woman`, or three words a b c for a - b + c; ValueError for anything else."""
    if len(words) == 3 and not {"+", "-"} & set(words):
        words = [words[0], "-", words[1], "+", words[2]]
    # a question may begin with its sign, as in - man + king + woman
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
    """Find the nearest pieces to the sum of the words, and the rank of an expected word among them.

    A word of several pieces is ranked by the mean of their vectors. Raises ValueError if the words cancel out, and for
    an expected word that shares a piece with the question.
    """
    inputs = sorted({id for term in terms for id in term.word.ids})
    total = sum_of_words(table, terms)
    if not total.any():
        raise ValueError("the words of the question cancel out: their sum is zero")
    analogy = Analogy(tuple(terms), table.neighbours(total, count, without=inputs), table.neighbours(total, count))
    if expected is None:
        return analogy
    if not can_be_asked(terms, expected):
        raise ValueError(
            f"{expected.text!r} shares a piece with the question, whose pieces are left out of the answers"
        )
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


def measure_accuracy(
    table: Embeddings, questions: Sequence[tuple[Sequence[SignedWord], SpelledWord]], *, seed: int = 1
) -> Accuracy:
    """Count the questions whose expected word comes first, in this table and in random ones.

    Raises ValueError if there is no question.
    """
    if not questions:
        raise ValueError("there is no analogy to ask, or none whose answer shares no piece with its question")
    generator = np.random.default_rng(seed)
    first, with_inputs = count_first_answers(table, questions)
    # one generator for all tables, so that every table is another and the seed repeats them all
    by_chance = [count_first_answers(random_table(table, generator), questions)[0] for _ in range(RANDOM_TABLES)]
    return Accuracy(len(questions), first, with_inputs, float(np.mean(by_chance)), max(by_chance))


def count_first_answers(
    table: Embeddings, questions: Sequence[tuple[Sequence[SignedWord], SpelledWord]]
) -> tuple[int, int]:
    """Count how often the expected word comes first, with the words of the question left out and let in."""
    counts = np.zeros(2, dtype=int)
    for terms, expected in questions:
        inputs = sorted({id for term in terms for id in term.word.ids})
        # rank 1 with the inputs left out, and with them let in
        counts += np.array(answer_ranks(table, sum_of_words(table, terms), expected, inputs)) == 1
    return int(counts[0]), int(counts[1])


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


def random_table(table: Embeddings, generator: np.random.Generator) -> Embeddings:
    """Return a table of equal shape that knows nothing: every number from a normal distribution."""
    return replace(table, vectors=generator.standard_normal(table.vectors.shape))
