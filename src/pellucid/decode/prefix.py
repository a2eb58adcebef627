"""Forced prefixes: the beginning of a translation, given."""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.tokenizer import UNK, Tokenizer
from pellucid.decode.search import Rule
from pellucid.decode.words import EDGE, NEW_WORD, Words

_ANYTHING = -3


def begins_with(prefixes: Sequence[tuple[int, ...]], words: Words) -> Rule:
    """The rule that sentence i begins with the pieces `prefixes[i]`; after them it is free.

    A NEW_WORD at its end is any piece that starts a word, an EDGE any that does not go on with one. The numbers of the
    forced pieces stay the model's own.
    """
    longest = max(map(len, prefixes), default=0)
    table = torch.tensor([[*each, *[_ANYTHING] * (longest - len(each))] for each in prefixes], dtype=torch.int64)
    refused = {NEW_WORD: words.unmarked, EDGE: words.going_on}
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


def prefix_pieces(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """The pieces a translation with this beginning starts with; () for a blank text.

    A text that ends in a letter may go on with the same word: "Der Hu" with "nd". A space at the end says that the word
    is complete: what follows starts a new one. Spaces are otherwise as the tokenizer has them: none in front, and one
    where there are several. Raises ValueError for a line feed, and for a character the model cannot write.
    """
    if "\n" in text:
        raise ValueError(f"the prefix {text!r:.60} has a line feed; a translation is one line, so give one line of it")
    if not text.strip(" "):
        return ()
    [ids] = tokenizer.encode_target([text])
    if UNK in ids:
        raise ValueError(f"the prefix {text!r:.60} has a character this model cannot write")
    return (*ids[:-1], NEW_WORD) if text.endswith(" ") else tuple(ids[:-1])


def refuse_long_prefixes(asked: Iterable[tuple[int, tuple[int, ...], int]]) -> None:
    """ValueError if a prefix has more pieces than its translation may have; each comes as (line, prefix, limit)."""
    long = [
        f"line {line} has {len(prefix)}, its translation at most {limit}"
        for line, prefix, limit in asked
        if len(prefix) > limit
    ]
    if long:
        more = f", and {len(long) - 5} more lines" if len(long) > 5 else ""
        raise ValueError(f"prefixes of too many pieces: {'; '.join(long[:5])}{more}; shorten them or raise max_extra")
