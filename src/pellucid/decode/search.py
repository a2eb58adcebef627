"""Building blocks of the searches: the `Step` and `Rule` interfaces, rules, top-k, finished hypotheses, observers."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import fsum, inf, isfinite
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.data.tokenizer import EOS, FORBIDDEN
from pellucid.decode.request import Hypothesis, length_divisor


@runtime_checkable
class SearchState(Protocol):
    """State of a step between calls: a model's memory and cache, the prefixes of a table, or nothing."""

    def select(self, rows: Int[Tensor, " N"], sentences: Int[Tensor, " M"]) -> None:
        """Keep these of the old rows and these of the old sentences, both in this order.

        Either may repeat. Rows stand sentence by sentence, the same number for each. As many
        sentences as before are the same ones.
        """
        ...


# Function from each row's last token, and the step's own state, to the logits of each row's next
# token. An ensemble needs no other search, only another step: the logarithm of the mean of several
# models' probabilities.
Step = Callable[[Int[Tensor, " R"], Any], Float[Tensor, "R V"]]

# Function that sets, in place, the log-probabilities of the tokens a row may not write next to
# minus infinity. It is given the log-probabilities, the tokens that each row has written (without
# BOS), and the sentence of the batch that each row belongs to. Probabilities are not renormalised
# after it: they stay those that `score_pairs` finds.
Rule = Callable[[Float[Tensor, "R V"], Int[Tensor, "R T"], Int[Tensor, " R"]], None]


TOPK_BLOCK = 64  # numbers in one block of a row, in the blockwise search for the largest


def forbidden_rule(ids: tuple[int, ...] = FORBIDDEN) -> Rule:
    """Make the rule that these tokens are never written."""
    columns = list(ids)

    def rule(log_probs: Float[Tensor, "R V"], tokens: Int[Tensor, "R T"], sentences: Int[Tensor, " R"]) -> None:
        log_probs[:, columns] = -torch.inf

    return rule


def wanted_rule(checks: Iterable[Callable[[], None]]) -> Rule:
    """Make the rule that forbids nothing: it asks between two steps whether the search is still wanted.

    A check ends the whole search by raising an exception.
    """

    def rule(log_probs: Float[Tensor, "R V"], tokens: Int[Tensor, "R T"], sentences: Int[Tensor, " R"]) -> None:
        for check_wanted in checks:
            check_wanted()

    return rule


def log_probabilities(logits: Float[Tensor, "R V"]) -> Float[Tensor, "R V"]:
    """Return the log-softmax of the logits, in float32 at least."""
    # A model in bfloat16 has 8 bits of mantissa: the sum over a vocabulary would be lost in
    # rounding.
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)


def apply_rules(
    logits: Float[Tensor, "R V"],
    rules: Sequence[Rule],
    tokens: Int[Tensor, "R T"],
    sentences: Int[Tensor, " R"],
) -> Float[Tensor, "R V"]:
    """Return the log-probabilities, with minus infinity where a rule forbids a token."""
    log_probs = log_probabilities(logits)
    for rule in rules:
        rule(log_probs, tokens, sentences)
    return log_probs


def stable_topk(x: Float[Tensor, "R V"], k: int) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
    """Return the k largest numbers of each row, largest first, and their indices.

    The lower index wins a tie. The order among entries of minus infinity is unspecified.

    >>> stable_topk(torch.tensor([[2.0, 7.0, 7.0, 7.0, 1.0]]), 2)[1].tolist()
    [[1, 2]]
    """
    # One number more than asked for shows a tie between the last that is taken and the first that
    # is not.
    values, indices = _blockwise_topk(x, min(k + 1, x.shape[1]))
    # topk does not say which of equal numbers it takes, so rows where that matters are looked at
    # again.
    tied = ((values[:, 1:] == values[:, :-1]) & (values[:, 1:] != -torch.inf)).any(dim=1).nonzero()[:, 0]
    if len(tied):
        sorted_values, sorted_indices = _sort_at_least(x[tied], values[tied, -1:])
        values[tied] = sorted_values[:, : values.shape[1]]
        indices[tied] = sorted_indices[:, : values.shape[1]]
    return values[:, :k], indices[:, :k]


def _sort_at_least(
    x: Float[Tensor, "R V"], least: Float[Tensor, "R 1"]
) -> tuple[Float[Tensor, "R N"], Int[Tensor, "R N"]]:
    """Sort the numbers of each row that are not below `least`, and some others.

    The lower index wins a tie.
    """
    # Rows have different counts, so each takes as many as the row with most: hence "and some
    # others".
    values, indices = _blockwise_topk(x, int((~(x < least)).sum(dim=1).max()))
    # By index first: the stable sort by value then leaves equal numbers in the order of their
    # indices.
    indices, order = indices.sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, indices.gather(1, order)


def _blockwise_topk(x: Float[Tensor, "R V"], k: int) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
    """Return `x.topk(k)`, several times as fast for long rows on a CPU.

    Any of several equal numbers may be taken.
    """
    blocks = x.shape[1] // TOPK_BLOCK
    if x.is_cuda or blocks < 2 * k:
        return x.topk(k)

    blocked = x[:, : blocks * TOPK_BLOCK].unflatten(1, (blocks, TOPK_BLOCK))
    # The k largest numbers stand in the k blocks with the largest maxima: no other block is looked
    # into.
    chosen_blocks = blocked.amax(dim=2).topk(k).indices
    candidates = blocked.gather(1, chosen_blocks[:, :, None].expand(-1, -1, TOPK_BLOCK)).flatten(1)
    # The numbers behind the last full block are candidates too.
    values, positions = torch.cat([candidates, x[:, blocks * TOPK_BLOCK :]], dim=1).topk(k)
    block_of_position = chosen_blocks.gather(1, (positions // TOPK_BLOCK).clamp(max=k - 1))
    in_blocks = block_of_position * TOPK_BLOCK + positions % TOPK_BLOCK
    behind_blocks = positions + (blocks - k) * TOPK_BLOCK
    return values, torch.where(positions < k * TOPK_BLOCK, in_blocks, behind_blocks)


def rank_hypotheses(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Sort hypotheses, best first: those that ended before those that were cut off, then by score, then as given."""
    return sorted(hypotheses, key=lambda hypothesis: (hypothesis.stop != "eos", -hypothesis.score))


@dataclass
class FinishedHypotheses:
    """Finished hypotheses of a batch, kept as tensors while a search runs and turned into lists at its end."""

    length_penalty: float
    sentences: int
    chunks: list[tuple[Tensor, Tensor, Tensor, Literal["eos", "length"]]] = field(default_factory=list)
    margins: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def add(
        self,
        sentences: Int[Tensor, " N"],
        tokens: Int[Tensor, "N T"],
        log_probs: Float[Tensor, "N T"],
        stop: Literal["eos", "length"],
    ) -> None:
        """Add hypotheses of equal length, with the log-probabilities of their tokens."""
        self.chunks.append((sentences, tokens, log_probs, stop))

    def close(self, sentences: Int[Tensor, " N"], margins: Float[Tensor, " N"]) -> None:
        """Record that the search for these sentences is over, and how near each came to another outcome."""
        self.margins.append((sentences, margins))

    def best_lists(self, n_best: int) -> list[list[Hypothesis]]:
        """Return the best `n_best` hypotheses of each sentence.

        There are none where the step gave infinite or NaN numbers.
        """
        margins: dict[int, float] = {}
        for numbers, values in self.margins:
            margins.update(zip(numbers.tolist(), values.tolist(), strict=True))

        hypotheses: list[list[Hypothesis]] = [[] for _ in range(self.sentences)]
        unsound = set[int]()
        for numbers, token_rows, log_prob_rows, stop in self.chunks:
            for number, tokens, log_probs in zip(
                numbers.tolist(), token_rows.tolist(), log_prob_rows.tolist(), strict=True
            ):
                # Rounded once, so the sum does not depend on how it is added up.
                log_prob = fsum(log_probs)
                if not isfinite(log_prob):
                    unsound.add(number)
                # The divisor counts EOS; the tokens of a hypothesis do not include it.
                score = log_prob / length_divisor(len(log_probs), self.length_penalty)
                written = tokens[:-1] if stop == "eos" else tokens
                hypothesis = Hypothesis(written, score, log_prob, stop, log_probs)
                hypotheses[number].append(hypothesis)

        for number in unsound:
            hypotheses[number] = []

        best = []
        for number, candidates in enumerate(hypotheses):
            best.append(_best_with_margin(candidates, n_best, margins.get(number, inf)))
        return best


def _best_with_margin(hypotheses: list[Hypothesis], n_best: int, margin: float) -> list[Hypothesis]:
    """Return the first `n_best` hypotheses of one sentence, with a margin that covers their order too."""
    order = rank_hypotheses(hypotheses)
    # One that ended goes before one that was cut off; scores do not decide it, so it is never a
    # close call.
    neighbours = [(a, b) for a, b in pairwise(order[: n_best + 1]) if a.stop == b.stop]
    margin = min([margin, *(a.score - b.score for a, b in neighbours)])
    return [replace(hypothesis, margin=margin) for hypothesis in order[:n_best]]


@dataclass(frozen=True)
class SearchStep:
    """The N candidates of one step for each of the B sentences still being searched, best first, and their fate.

    A parent is an index, from 0, among the hypotheses that the step before kept, best first.
    `log_probs` belong to `tokens`, `totals` to the whole hypotheses. Impossible candidates, whose
    total is minus infinity, may fill the end. A candidate that is neither kept nor finished was
    dropped.
    """

    # There is one candidate more than the search can use: it only shows how near the next one came.
    sentences: Int[Tensor, " B"]
    parents: Int[Tensor, "B N"]
    tokens: Int[Tensor, "B N"]
    log_probs: Float[Tensor, "B N"]
    totals: Float[Tensor, "B N"]
    kept: Bool[Tensor, "B N"]
    finished: Bool[Tensor, "B N"]


# Function that is called with every step of a search, before any candidate is dropped.
StepObserver = Callable[[SearchStep], None]


def not_empty_rule(asked: Sequence[bool]) -> Rule:
    """Make the rule that the text of sentence i, where `asked[i]`, does not end before it has a token."""
    is_asked = torch.tensor(asked)

    def rule(log_probs: Float[Tensor, "R V"], tokens: Int[Tensor, "R T"], sentences: Int[Tensor, " R"]) -> None:
        if tokens.shape[1] == 0:
            log_probs[is_asked.to(sentences.device)[sentences], EOS] = -torch.inf

    return rule


def no_repeat_rule(sizes: Sequence[int], prefixes: Sequence[tuple[int, ...]] = ()) -> Rule:
    """Make the rule that sentence i has no `sizes[i]` tokens in a row twice.

    0 leaves a sentence alone. The prefix that `prefix_rule` demands of a sentence may repeat
    itself, as a placeholder that is given twice does.
    """
    assert all(size >= 0 for size in sizes)
    size_of_sentence = torch.tensor(sizes, dtype=torch.int64)
    lengths = [len(prefix) for prefix in prefixes] or [0] * len(sizes)
    prefix_lengths = torch.tensor(lengths, dtype=torch.int64)
    distinct_sizes = sorted(set(sizes) - {0})

    def rule(log_probs: Float[Tensor, "R V"], tokens: Int[Tensor, "R T"], sentences: Int[Tensor, " R"]) -> None:
        # Inside the prefix the rule is off: with two rules that each forbid what the other leaves,
        # nothing is allowed.
        is_free = tokens.shape[1] >= prefix_lengths.to(sentences.device)[sentences]
        size_of_row = size_of_sentence.to(sentences.device)[sentences] * is_free
        for size in distinct_sizes:
            if tokens.shape[1] < size:
                continue
            windows = tokens.unfold(1, size, 1)
            last_tokens = tokens[:, tokens.shape[1] - size + 1 :]
            # EOS is never forbidden: it is not written before the end, so it stands in no window.
            repeats = (windows[:, :, :-1] == last_tokens[:, None]).all(dim=2)
            repeats &= (size_of_row == size)[:, None]
            penalties = torch.zeros_like(repeats, dtype=log_probs.dtype)
            penalties.masked_fill_(repeats, -torch.inf)
            log_probs.scatter_add_(1, windows[:, :, -1], penalties)

    return rule
