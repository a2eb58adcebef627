"""Rules of a search, beside `never`: how a text begins, and that nothing in it stands twice."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.decode.search import Rule
from pellucid.decode.word_edges import EDGE, NEW_WORD, WordEdges

_ANYTHING = -3


def prefix_rule(prefixes: Sequence[tuple[int, ...]], words: WordEdges) -> Rule:
    """The rule that sentence i begins with the pieces `prefixes[i]`; after them it is free.

    A NEW_WORD at its end is any piece that starts a word, an EDGE any that does not go on with one. The numbers of the
    forced pieces stay the model's own.
    """
    longest = max(map(len, prefixes), default=0)
    table = torch.tensor([[*each, *[_ANYTHING] * (longest - len(each))] for each in prefixes], dtype=torch.int64)
    refused = {NEW_WORD: words.without_space_mark, EDGE: words.begins_with_letter}
    columns = {mark: torch.tensor(sorted(some), dtype=torch.int64) for mark, some in refused.items()}

    def rule(log_probs: Float[Tensor, "R V"], written: Int[Tensor, "R T"], sentences: Int[Tensor, " R"]) -> None:
        if written.shape[1] >= longest:
            return
        wanted = table.to(log_probs.device)[sentences, written.shape[1]]
        for mark, pieces in columns.items():
            log_probs[(wanted == mark).nonzero(), pieces.to(log_probs.device)] = -torch.inf
        rows = (wanted >= 0).nonzero()
        own = log_probs[rows, wanted[rows]]
        log_probs[rows[:, 0]] = -torch.inf
        log_probs[rows, wanted[rows]] = own

    return rule


def no_repeat_rule(sizes: Sequence[int], prefixes: Sequence[tuple[int, ...]] = ()) -> Rule:
    """The rule that in sentence i no `sizes[i]` pieces in a row stand twice; 0 leaves a sentence alone.

    What `prefix_rule` demands of a sentence with the same `prefixes` may repeat itself, as a placeholder that is given
    twice does: two rules that each forbid what the other leaves would allow nothing. Behind the prefix the end mark is
    always allowed, for it is not written before the end.
    """
    assert all(size >= 0 for size in sizes)
    of_sentence = torch.tensor(sizes, dtype=torch.int64)
    demanded = torch.tensor([len(prefix) for prefix in prefixes] or [0] * len(sizes), dtype=torch.int64)
    kinds = sorted(set(sizes) - {0})

    def rule(log_probs: Float[Tensor, "R V"], written: Int[Tensor, "R T"], sentences: Int[Tensor, " R"]) -> None:
        behind = written.shape[1] >= demanded.to(sentences.device)[sentences]
        wanted = of_sentence.to(sentences.device)[sentences] * behind
        for size in kinds:
            if written.shape[1] < size:
                continue
            windows = written.unfold(1, size, 1)
            beginning = written[:, written.shape[1] - size + 1 :]
            same = (windows[:, :, :-1] == beginning[:, None]).all(dim=2) & (wanted == size)[:, None]
            ban = torch.zeros_like(same, dtype=log_probs.dtype).masked_fill_(same, -torch.inf)
            log_probs.scatter_add_(1, windows[:, :, -1], ban)

    return rule
