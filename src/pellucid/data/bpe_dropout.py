"""BPE dropout: every epoch cuts its sentences anew, some merges left out (Provilkov et al. 2020)."""

from collections.abc import Callable
from dataclasses import replace

from pellucid.data.batching import EncodedPairs, PackedSentences
from pellucid.data.stream import hash_to_seed, pack_sentences
from pellucid.data.tokenizer import Tokenizer

SENTENCES_PER_BLOCK = 100_000
"""Sentences that are text at a time."""


def with_bpe_dropout(encoded: EncodedPairs, tokenizer: Tokenizer, rate: float, limit: int) -> EncodedPairs:
    """The same pairs, cut anew for each epoch, a function of (seed, epoch): each merge is left out with probability
    `rate`.

    The text is read off the pieces, so that text in memory and shards give the same. A sentence that would have more
    than `limit` pieces stays as it is.
    """

    def anew(encoded: EncodedPairs, seed: int, epoch: int) -> EncodedPairs:
        def cut(
            side: PackedSentences, number: int, text: Callable[[list[int]], str], pieces: Callable[..., list[list[int]]]
        ):
            rows: list[list[int]] = []
            for start in range(0, len(side), SENTENCES_PER_BLOCK):
                old = [side[i].tolist() for i in range(start, min(start + SENTENCES_PER_BLOCK, len(side)))]
                new = pieces(map(text, old), dropout=rate, seed=hash_to_seed(seed, epoch, number, start))
                rows += [b if len(b) <= limit else a for a, b in zip(old, new, strict=True)]
            return pack_sentences(rows, side.ids.dtype.type)

        return replace(
            encoded,
            sources=cut(encoded.sources, 0, tokenizer.decode_source, tokenizer.encode_source),
            targets=cut(encoded.targets, 1, tokenizer.decode_target, tokenizer.encode_target),
        )

    return replace(encoded, recut=anew)
