"""BPE dropout: every epoch cuts its sentences anew, some merges left out (Provilkov et al. 2020)."""

from collections.abc import Callable
from dataclasses import replace

from pellucid.data.batching import Encoded, Sentences
from pellucid.data.stream import hashed, joined
from pellucid.data.tokenizer import Tokenizer

BLOCK = 100_000
"""Sentences that are text at a time."""


def with_bpe_dropout(encoded: Encoded, tokenizer: Tokenizer, share: float, limit: int) -> Encoded:
    """The same pairs, cut anew for each epoch, a function of (seed, epoch): each merge is left out with probability
    `share`.

    The text is read off the pieces, so that text in memory and shards give the same. A sentence that would have more
    than `limit` pieces stays as it is.
    """

    def anew(encoded: Encoded, seed: int, epoch: int) -> Encoded:
        def cut(side: Sentences, number: int, text: Callable[[list[int]], str], pieces: Callable[..., list[list[int]]]):
            rows: list[list[int]] = []
            for start in range(0, len(side), BLOCK):
                old = [side[i].tolist() for i in range(start, min(start + BLOCK, len(side)))]
                new = pieces(map(text, old), dropout=share, seed=hashed(seed, epoch, number, start))
                rows += [b if len(b) <= limit else a for a, b in zip(old, new, strict=True)]
            return joined(rows, side.ids.dtype.type)

        return replace(
            encoded,
            sources=cut(encoded.sources, 0, tokenizer.decode_source, tokenizer.encode_source),
            targets=cut(encoded.targets, 1, tokenizer.decode_target, tokenizer.encode_target),
        )

    return replace(encoded, anew=anew)
