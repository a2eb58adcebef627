"""Forced prefixes: the pieces of a text that a translation begins with, and the rule that a search keeps them by."""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.tokenizer import UNK, Tokenizer
from pellucid.decode.search import Rule
from pellucid.decode.terms.word_edges import EDGE, WordEdges

NEW_WORD = -2
"""Mark at the end of a prefix: any token that starts a word may follow."""

_ANYTHING = -3
"""Entry of the table of `prefix_rule` at a position behind the prefix."""


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


def prefix_pieces(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """Return the tokens that a translation with this beginning starts with; () for a blank text.

    A text that ends in a letter may continue the same word: "Der Hu" with "nd". A space at the end says that the word
    is complete: what follows starts a new one. Spaces are otherwise as the tokenizer has them: none in front, and one
    where there are several. Raises ValueError for a line feed, and for a character the model cannot write.
    """
    if "\n" in text:
        raise ValueError(
            f"the prefix {text!r:.60} has a line feed; a translation is one line, so its prefix must be one line too"
        )
    if not text.strip(" "):
        return ()
    [ids] = tokenizer.encode_target([text])
    if UNK in ids:
        raise ValueError(f"the prefix {text!r:.60} has a character this model cannot write")
    # A space at the end is no token of its own, so NEW_WORD stands for it; the last id is EOS.
    return (*ids[:-1], NEW_WORD) if text.endswith(" ") else tuple(ids[:-1])


def refuse_long_prefixes(prefixes: Iterable[tuple[int, tuple[int, ...], int]]) -> None:
    """Raise ValueError if a prefix, given as (line, prefix, limit), has more tokens than its translation may have."""
    too_long = [
        f"line {line} has {len(prefix)}, its translation at most {limit}"
        for line, prefix, limit in prefixes
        if len(prefix) > limit
    ]
    if too_long:
        # Five lines show the pattern; a file of thousands would fill the screen.
        more = f", and {len(too_long) - 5} more lines" if len(too_long) > 5 else ""
        raise ValueError(
            f"prefixes of too many pieces: {'; '.join(too_long[:5])}{more}; shorten them or raise max_extra"
        )
