"""The rule by which a search begins each translation with its prefix."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.decode.search import Rule
from pellucid.decode.terms.required import EDGE, NEW_WORD, WordEdges


def prefix_rule(prefixes: Sequence[tuple[int, ...]], words: WordEdges) -> Rule:
    """Make the rule that sentence i begins with the tokens `prefixes[i]` and is free after them.

    A NEW_WORD at the end of a prefix is any token that starts a word, an EDGE any that does not
    continue one.
    """
    longest, anything = max(map(len, prefixes), default=0), -3
    table = torch.tensor([[*prefix, *[anything] * (longest - len(prefix))] for prefix in prefixes], dtype=torch.int64)
    refused = {NEW_WORD: words.without_space_mark, EDGE: words.begins_with_letter}
    columns = {mark: torch.tensor(sorted(ids), dtype=torch.int64) for mark, ids in refused.items()}

    def rule(log_probs: Float[Tensor, "R V"], tokens: Int[Tensor, "R T"], sentences: Int[Tensor, " R"]) -> None:
        if tokens.shape[1] >= longest:
            return
        required = table.to(log_probs.device)[sentences, tokens.shape[1]]
        for mark, ids in columns.items():
            log_probs[(required == mark).nonzero(), ids.to(log_probs.device)] = -torch.inf
        rows = (required >= 0).nonzero()
        # A forced token keeps the log-probability the model gives it: only the others are
        # forbidden.
        required_log_probs = log_probs[rows, required[rows]]
        log_probs[rows[:, 0]] = -torch.inf
        log_probs[rows, required[rows]] = required_log_probs

    return rule
