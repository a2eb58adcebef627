"""BPE dropout: cuts the text of every epoch into other pieces by skipping random merges (Provilkov et al. 2020)."""

from collections.abc import Callable
from dataclasses import replace

from pellucid.data.batching import EncodedPairs, PackedSentences
from pellucid.data.stream import hash_to_seed, pack_sentences
from pellucid.data.tokenizer import Tokenizer

SENTENCES_PER_BLOCK = 100_000
"""The number of sentences that are decoded to text at a time, which limits memory."""


def with_bpe_dropout(encoded: EncodedPairs, tokenizer: Tokenizer, rate: float, limit: int) -> EncodedPairs:
    """Return the pairs with a `recut` that skips each merge with probability `rate`, as a function of (seed, epoch).

    A sentence that would have more than `limit` tokens stays as it is.
    """

    def recut_epoch(encoded: EncodedPairs, seed: int, epoch: int) -> EncodedPairs:
        def recut_side(
            side: PackedSentences,
            number: int,
            decode: Callable[[list[int]], str],
            encode: Callable[..., list[list[int]]],
        ):
            rows: list[list[int]] = []
            for start in range(0, len(side), SENTENCES_PER_BLOCK):
                old = [side[i].tolist() for i in range(start, min(start + SENTENCES_PER_BLOCK, len(side)))]
                # The text is decoded from the ids, because shards hold no text: both sources of data give the same.
                new = encode(map(decode, old), dropout=rate, seed=hash_to_seed(seed, epoch, number, start))
                # Other pieces may be too many for the model.
                rows += [b if len(b) <= limit else a for a, b in zip(old, new, strict=True)]
            return pack_sentences(rows, side.ids.dtype.type)

        return replace(
            encoded,
            sources=recut_side(encoded.sources, 0, tokenizer.decode_source, tokenizer.encode_source),
            targets=recut_side(encoded.targets, 1, tokenizer.decode_target, tokenizer.encode_target),
        )

    return replace(encoded, recut=recut_epoch)
