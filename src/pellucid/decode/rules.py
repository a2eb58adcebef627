"""Rules of a search beside `forbidden_rule`: forced prefixes, and no repeated n-grams."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.decode.search import Rule
from pellucid.decode.word_edges import EDGE, NEW_WORD, WordEdges

_ANYTHING = -3


def prefix_rule(prefixes: Sequence[tuple[int, ...]], words: WordEdges) -> Rule:
    """Make the rule that sentence i begins with the tokens `prefixes[i]` and is free after them.

    A NEW_WORD at the end of a prefix is any token that starts a word, an EDGE any that does not continue one.
    """
    longest = max(map(len, prefixes), default=0)
    table = torch.tensor([[*prefix, *[_ANYTHING] * (longest - len(prefix))] for prefix in prefixes], dtype=torch.int64)
    refused = {NEW_WORD: words.without_space_mark, EDGE: words.begins_with_letter}
    columns = {mark: torch.tensor(sorted(ids), dtype=torch.int64) for mark, ids in refused.items()}

    def rule(log_probs: Float[Tensor, "R V"], tokens: Int[Tensor, "R T"], sentences: Int[Tensor, " R"]) -> None:
        if tokens.shape[1] >= longest:
            return
        required = table.to(log_probs.device)[sentences, tokens.shape[1]]
        for mark, ids in columns.items():
            log_probs[(required == mark).nonzero(), ids.to(log_probs.device)] = -torch.inf
        rows = (required >= 0).nonzero()
        # A forced token keeps the log-probability the model gives it: only the others are forbidden.
        required_log_probs = log_probs[rows, required[rows]]
        log_probs[rows[:, 0]] = -torch.inf
        log_probs[rows, required[rows]] = required_log_probs

    return rule


def no_repeat_rule(sizes: Sequence[int], prefixes: Sequence[tuple[int, ...]] = ()) -> Rule:
    """Make the rule that sentence i has no `sizes[i]` tokens in a row twice; 0 leaves a sentence alone.

    The prefix that `prefix_rule` demands of a sentence may repeat itself, as a placeholder that is given twice does.
    """
    assert all(size >= 0 for size in sizes)
    size_of_sentence = torch.tensor(sizes, dtype=torch.int64)
    prefix_lengths = torch.tensor([len(prefix) for prefix in prefixes] or [0] * len(sizes), dtype=torch.int64)
    distinct_sizes = sorted(set(sizes) - {0})

    def rule(log_probs: Float[Tensor, "R V"], tokens: Int[Tensor, "R T"], sentences: Int[Tensor, " R"]) -> None:
        # Inside the prefix the rule is off: with two rules that each forbid what the other leaves, nothing is allowed.
        is_free = tokens.shape[1] >= prefix_lengths.to(sentences.device)[sentences]
        size_of_row = size_of_sentence.to(sentences.device)[sentences] * is_free
        for size in distinct_sizes:
            if tokens.shape[1] < size:
                continue
            windows = tokens.unfold(1, size, 1)
            last_tokens = tokens[:, tokens.shape[1] - size + 1 :]
            # EOS is never forbidden: it is not written before the end, so it stands in no window.
            repeats = (windows[:, :, :-1] == last_tokens[:, None]).all(dim=2) & (size_of_row == size)[:, None]
            penalties = torch.zeros_like(repeats, dtype=log_probs.dtype).masked_fill_(repeats, -torch.inf)
            log_probs.scatter_add_(1, windows[:, :, -1], penalties)

    return rule
