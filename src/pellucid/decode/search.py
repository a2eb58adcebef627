"""What the searches over a step share: the step, the rules, the largest numbers of a row, what is finished."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import fsum, inf, isfinite
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.decode.hypothesis import FORBIDDEN, Hypothesis, length_divisor


@runtime_checkable
class SearchState(Protocol):
    """What a step keeps between calls: a model's memory and cache, the prefixes of a table, or nothing."""

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        """Keep these of the old rows and these of the old sentences, both in this order; either may repeat.

        Rows stand sentence by sentence, the same number for each. As many sentences as before are the same ones.
        """
        ...


Step = Callable[[Int[Tensor, " R"], Any], Float[Tensor, "R V"]]
"""Each row's last piece, and the state, which is the step's own business: logits for each row's next piece.

An ensemble needs no other search, only another step: the logarithm of the mean of several models' probabilities.
"""

Rule = Callable[[Float[Tensor, "R V"], Int[Tensor, "R T"], Int[Tensor, " R"]], None]
"""Sets to minus infinity, in place, the log-probabilities of what a row may not write next.

It sees what each row has written, without the start mark, and which sentence of the batch each row belongs to. What is
taken from the forbidden is not given to the others: the numbers stay those that `Translator.score` finds.
"""


TOPK_BLOCK = 64
"""Numbers of a row that are looked at together in the search for the largest."""


def forbidden_rule(pieces: tuple[int, ...] = FORBIDDEN) -> Rule:
    """The rule that these pieces are not written, by anyone, anywhere."""
    columns = list(pieces)

    def rule(log_probs: Float[Tensor, "R V"], written: Int[Tensor, "R T"], sentences: Int[Tensor, " R"]) -> None:
        log_probs[:, columns] = -torch.inf

    return rule


def log_probabilities(logits: Float[Tensor, "R V"]) -> Float[Tensor, "R V"]:
    """The model's log-probabilities, in float32 at least."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)


def apply_rules(
    logits: Float[Tensor, "R V"], rules: Sequence[Rule], written: Int[Tensor, "R T"], sentences: Int[Tensor, " R"]
) -> Float[Tensor, "R V"]:
    """The log-probabilities, with minus infinity where a rule forbids."""
    log_probs = log_probabilities(logits)
    for rule in rules:
        rule(log_probs, written, sentences)
    return log_probs


def stable_topk(x: Float[Tensor, "R V"], k: int) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
    """The k largest numbers of each row, largest first, and where they stand; of equal ones the lower index is first.

    Which of several minus infinities come last is not said.

    >>> stable_topk(torch.tensor([[2.0, 7.0, 7.0, 7.0, 1.0]]), 2)[1].tolist()
    [[1, 2]]
    """
    values, indices = blockwise_topk(x, min(k + 1, x.shape[1]))
    # topk does not say which of equal numbers it takes, so rows where that matters are looked at again.
    tied = ((values[:, 1:] == values[:, :-1]) & (values[:, 1:] != -torch.inf)).any(dim=1).nonzero()[:, 0]
    if len(tied):
        values[tied], indices[tied] = (part[:, : values.shape[1]] for part in sort_at_least(x[tied], values[tied, -1:]))
    return values[:, :k], indices[:, :k]


def sort_at_least(
    x: Float[Tensor, "R V"], least: Float[Tensor, "R 1"]
) -> tuple[Float[Tensor, "R N"], Int[Tensor, "R N"]]:
    """All numbers of each row that are not below `least`, and some others, sorted; of equal ones the first is first."""
    values, indices = blockwise_topk(x, int((~(x < least)).sum(dim=1).max()))
    indices, order = indices.sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, indices.gather(1, order)


def blockwise_topk(x: Float[Tensor, "R V"], k: int) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
    """`x.topk(k)`, several times as fast on a CPU for long rows: only blocks with a large number are looked into.

    The k largest numbers stand in the k blocks with the largest maxima. Of equal numbers any may be taken.
    """
    blocks = x.shape[1] // TOPK_BLOCK
    if x.is_cuda or blocks < 2 * k:
        return x.topk(k)
    whole = x[:, : blocks * TOPK_BLOCK].unflatten(1, (blocks, TOPK_BLOCK))
    chosen = whole.amax(dim=2).topk(k).indices
    found = whole.gather(1, chosen[:, :, None].expand(-1, -1, TOPK_BLOCK)).flatten(1)
    values, places = torch.cat([found, x[:, blocks * TOPK_BLOCK :]], dim=1).topk(k)
    inside = chosen.gather(1, (places // TOPK_BLOCK).clamp(max=k - 1)) * TOPK_BLOCK + places % TOPK_BLOCK
    return values, torch.where(places < k * TOPK_BLOCK, inside, places + (blocks - k) * TOPK_BLOCK)


def rank_hypotheses(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Best first: those that ended before those that were cut off, then by score, then as they came."""
    return sorted(hypotheses, key=lambda hypothesis: (hypothesis.stop != "eos", -hypothesis.score))


@dataclass
class FinishedHypotheses:
    """The hypotheses that are done, kept as tensors while a search runs and made into lists when it is over."""

    length_penalty: float
    sentences: int
    chunks: list[tuple[Tensor, Tensor, Tensor, Literal["eos", "length"]]] = field(default_factory=list)
    margins: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def add(
        self,
        sentences: Int[Tensor, " N"],
        pieces: Int[Tensor, "N T"],
        log_probs: Float[Tensor, "N T"],
        stop: Literal["eos", "length"],
    ) -> None:
        self.chunks.append((sentences, pieces, log_probs, stop))

    def close(self, sentences: Int[Tensor, " N"], margins: Float[Tensor, " N"]) -> None:
        """These sentences are over, and this is how near each came to another outcome."""
        self.margins.append((sentences, margins))

    def best_lists(self, n_best: int) -> list[list[Hypothesis]]:
        """For each sentence its best, at most n_best; none where the step gave numbers that are no probabilities."""
        margins = {n: m for some, each in self.margins for n, m in zip(some.tolist(), each.tolist(), strict=True)}
        found: list[list[Hypothesis]] = [[] for _ in range(self.sentences)]
        unsound = set[int]()
        for numbers, pieces, log_probs, stop in self.chunks:
            for number, tokens, each in zip(numbers.tolist(), pieces.tolist(), log_probs.tolist(), strict=True):
                log_prob = fsum(each)
                if not isfinite(log_prob):
                    unsound.add(number)
                score = log_prob / length_divisor(len(each), self.length_penalty)
                found[number].append(Hypothesis(tokens[:-1] if stop == "eos" else tokens, score, log_prob, stop, each))
        return [
            [] if number in unsound else best_with_margin(some, n_best, margins.get(number, inf))
            for number, some in enumerate(found)
        ]


def best_with_margin(found: list[Hypothesis], n_best: int, margin: float) -> list[Hypothesis]:
    """The first n_best of one sentence; how near the next of each comes counts for its margin."""
    order = rank_hypotheses(found)
    following = [(a, b) for a, b in pairwise(order[: n_best + 1]) if a.stop == b.stop]
    margin = min([margin, *(a.score - b.score for a, b in following)])
    return [replace(each, margin=margin) for each in order[:n_best]]
