"""Scores given translations: their log-probability under a model, piece by piece."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, isfinite
from typing import TYPE_CHECKING

from pellucid.data.context import encode_with_context
from pellucid.decode.corpus_sources import join_document
from pellucid.decode.request import BLOCK, map_in_batches, refuse_long_lines, require_finite

if TYPE_CHECKING:
    from pellucid.decode.translator import Translator


@dataclass(frozen=True)
class Score:
    """Log-probability of a given translation: the sum, and one natural logarithm for each piece, EOS included."""

    log_prob: float
    pieces: list[str]
    per_piece: list[float]


def score_pairs(
    translator: "Translator",
    sources: Sequence[str],
    targets: Sequence[str],
    batch: int,
    document: bool = False,
    first_line: int = 1,
    before: Sequence[str] = (),
) -> list[Score]:
    """Return the model's log-probability of each target given its source, all positions in one pass, in order.

    Batches are formed within blocks of `BLOCK` lines, so that the rounding of a score does not
    depend on the lines of other blocks. With `document` each source is read with its context
    (`join_document`). Lines that begin in the middle of a file are counted from `first_line`, and
    `before` are the sources that stand before them. Raises ValueError for unequal numbers of lines,
    and, naming them, for lines with more pieces than the model takes.
    """
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} sources and {len(targets)} targets: each source needs its target")

    tokenizer = translator.tokenizer
    if document:
        source_ids = encode_with_context(tokenizer, join_document(translator, sources, before))
    else:
        source_ids = tokenizer.encode_source(sources)

    target_ids = tokenizer.encode_target(targets)
    for side, ids in (("source", source_ids), ("target", target_ids)):
        refuse_long_lines(side, dict(enumerate(map(len, ids), first_line)), translator.lengths.longest)

    pairs = list(zip(source_ids, target_ids, strict=True))
    lengths = [max(len(source), len(target)) for source, target in pairs]
    scores, per_piece = list[Score](), list[list[float]]()
    with translator.models.inference():
        engine = translator.torch
        for start in range(0, len(pairs), BLOCK):
            block = slice(start, start + BLOCK)
            sentences = batch or engine.batch_size
            per_piece += map_in_batches(engine.log_probs, pairs[block], lengths[block], sentences)

        for number, (ids, log_probs) in enumerate(zip(target_ids, per_piece, strict=True), first_line):
            log_prob = fsum(log_probs)
            # Damaged weights are the likeliest reason, and the message that helps.
            if not isfinite(log_prob):
                translator.models.refuse_damaged()
            require_finite(log_prob, f"line {number}")
            scores.append(Score(log_prob, tokenizer.target_pieces(ids), log_probs))
    return scores
