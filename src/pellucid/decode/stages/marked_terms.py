"""Marks the user's terms in sources, for a model that was trained with terms (`data.terms`)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pellucid.data.term_marks import MarkedTerm, Marks, SpelledSource, mark_terms
from pellucid.data.tokenizer import Tokenizer, strip_eos
from pellucid.decode.line_segments import Search, SearchResult, Segment
from pellucid.decode.terms.matches import normalize_text
from pellucid.decode.terms.required import without_edges


@dataclass(frozen=True)
class MarkTerms:
    """The stage that puts the translations of terms into the sources of segments, between marks.

    A source that would be longer than the `longest` that the model takes, in pieces, stays as it
    is, and so does protected text.
    """

    tokenizer: Tokenizer
    marks: Marks
    longest: int

    def __call__(self, segments: list[Segment], search: Search) -> list[SearchResult]:
        marked = []
        for segment in segments:
            terms = self.find_terms(segment) if segment.terms else []
            source = segment.request.source
            longer = mark_terms(source, terms, self.marks)
            if terms and len(longer) <= self.longest:
                segment = replace(segment, request=replace(segment.request, source=longer))
            marked.append(segment)
        return search(marked)

    def find_terms(self, segment: Segment) -> list[MarkedTerm]:
        """Return the terms of a segment with their tokens and one translation each."""
        own = strip_eos(segment.request.source[segment.context :])
        spelled = SpelledSource(self.tokenizer.source_pieces(own))
        text, read = normalize_text(spelled.text), normalize_text(segment.read.text)
        if text != (read.lower() if self.tokenizer.lowercase else read):
            # The pieces spell the text in another way, so that nothing is known of its places.
            return []

        places = find_places(spelled.text)
        terms: list[MarkedTerm] = []
        stop = 0
        in_order = sorted(range(len(segment.terms)), key=lambda n: segment.term_spans[n].start)
        for n in in_order:
            span = segment.term_spans[n]
            if span.protected:
                continue
            tokens = spelled.find_tokens(places[span.start], places[span.end])
            # Two terms in one piece cannot both be marked.
            if tokens.start >= stop:
                here = range(segment.context + tokens.start, segment.context + tokens.stop)
                terms.append(MarkedTerm(here, without_edges(segment.terms[n][0])))
                stop = tokens.stop
        return terms


def find_places(text: str) -> Sequence[int]:
    """Return the place in a text where each character of its `normalize_text` begins, and the end.

    >>> find_places(" a  cafe\\u0301 ")
    [1, 2, 4, 5, 6, 7, 9]
    """
    normal = normalize_text(text)
    if normal == text.strip():
        start = len(text) - len(text.lstrip())
        return range(start, start + len(normal) + 1)
    places: list[int] = []
    for end in range(1, len(text) + 1):
        # The bar keeps a space at the end.
        length = len(normalize_text(text[:end] + "|")) - 1
        places += [end - 1] * (length - len(places))
    return [*places[: len(normal)], len(text.rstrip())]
