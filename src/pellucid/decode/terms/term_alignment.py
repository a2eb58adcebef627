"""Finds the words of a translation that the sources of its terms are aligned with."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from pellucid.data.text.word_pieces import word_piece_ranges
from pellucid.data.tokenizer import EOS, Tokenizer
from pellucid.decode.line_segments import Segment
from pellucid.decode.terms.matches import normalize_text

if TYPE_CHECKING:
    from pellucid.model import Transformer


@dataclass(frozen=True)
class TermAlignment:
    """Words of a translation as ranges of its tokens, and for each term the words its source is aligned with."""

    words: list[range]
    words_of_terms: list[list[int]]


def align_terms(
    model: "Transformer",
    tokenizer: Tokenizer,
    segments: Sequence[Segment],
    targets: Sequence[list[int]],
) -> list[TermAlignment]:
    """Return the words of each translation, and which of them its terms are aligned with, from one pass over all."""
    # Where every translation has its terms, torch is not loaded.
    from pellucid.decode.alignment import align_sentences

    sources = [segment.request.source for segment in segments]
    cut_texts = [cut_at_terms(segment) for segment in segments]
    texts = tokenizer.decode_targets(targets)
    # A translation that was cut off at the longest length has no position left for EOS.
    ended = [[*target, EOS][: model.config.max_positions] for target in targets]
    links = align_sentences(model, tokenizer, sources, ended, [text for text, _ in cut_texts], texts)

    alignments = []
    for n, target in enumerate(targets):
        _, words_of_terms = cut_texts[n]
        aligned: list[list[int]] = []
        for numbers in words_of_terms:
            aligned.append(sorted({j for i, j in links[n] if i in numbers}))
        words = word_piece_ranges(tokenizer.target_pieces(target), texts[n])
        alignments.append(TermAlignment(words, aligned))
    return alignments


def cut_at_terms(segment: Segment) -> tuple[str, list[range]]:
    """Return the text with a space at either end of each term, and the range of words of each term in it."""
    text = normalize_text(segment.read.text)
    # So a term in the middle of a word, as a placeholder may be, becomes a word of its own.
    cuts = sorted(
        {
            0,
            len(text),
            *(position for span in segment.term_spans for position in (span.start, span.end)),
        }
    )
    stretches = [text[start:end] for start, end in pairwise(cuts)]
    words_before = dict(
        zip(
            cuts,
            accumulate((len(stretch.split()) for stretch in stretches), initial=0),
            strict=True,
        )
    )
    return " ".join(stretches), [range(words_before[span.start], words_before[span.end]) for span in segment.term_spans]
