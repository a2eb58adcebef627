"""Steps that can be checked by hand: next-piece probabilities from a table, or made from the prefix and a seed."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.tokenizer import EOS

Prefix = tuple[int, ...]


class Prefixes:
    """The state of a table: which sentence each row belongs to and what it has written."""

    def __init__(self, sentences: list[int]):
        self.sentences = sentences
        self.rows: list[tuple[int, Prefix]] | None = None

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        self.sentences = [self.sentences[i] for i in sentences.tolist()]
        if self.rows is not None:
            self.rows = [self.rows[i] for i in rows.tolist()]
            width = len(self.rows) // max(1, len(self.sentences))
            assert [sentence for sentence, _ in self.rows] == [s for s in self.sentences for _ in range(width)]

    def grow(self, ids: list[int]) -> list[tuple[int, Prefix]]:
        """Return the rows with one more piece each; the first piece, the start token, is left out."""
        if self.rows is None:
            width = len(ids) // len(self.sentences)
            self.rows = [(sentence, ()) for sentence in self.sentences for _ in range(width)]
        else:
            self.rows = [(s, (*prefix, piece)) for (s, prefix), piece in zip(self.rows, ids, strict=True)]
        return self.rows


def step_from(logits: Callable[[int, Prefix], Tensor]) -> Callable[[Tensor, Prefixes], Tensor]:
    def step(ids: Int[Tensor, " R"], state: Prefixes) -> Float[Tensor, "R V"]:
        return torch.stack([logits(sentence, prefix) for sentence, prefix in state.grow(ids.tolist())])

    return step


LETTERS = {".": EOS, "a": 4, "b": 5, "c": 6}


def step_from_table(table: Mapping[str, Mapping[str, float]]) -> Callable[[Tensor, Prefixes], Tensor]:
    """Return a step with these probabilities of the next letter after each text.

    "." is the end token, and certain after every text that the table does not have.
    """

    def logits(_: int, prefix: Prefix) -> Tensor:
        row = torch.zeros(7)
        for letter, probability in table.get(words(prefix), {".": 1.0}).items():
            row[LETTERS[letter]] = probability
        return row.log()

    return step_from(logits)


def random_logits(seed: int, vocabulary: int) -> Callable[[int, Prefix], Tensor]:
    """Return a function for logits that depend on the sentence and on everything written so far."""
    return lambda sentence, prefix: torch.tensor(
        np.random.default_rng([seed, sentence, *prefix]).normal(scale=1.5, size=vocabulary)
    )


def words(tokens: Sequence[int]) -> str:
    return "".join({number: letter for letter, number in LETTERS.items()}.get(i, "?") for i in tokens)


def limit(*pieces: int) -> Int[Tensor, " B"]:
    return torch.tensor(pieces)
