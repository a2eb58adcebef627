"""Marks the user's terms in sources, for a model that was trained with terms (`data.terms`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pellucid.data.term_marks import MarkedTerm, Marks, SpelledSource, mark_terms
from pellucid.data.tokenizer import Tokenizer, strip_eos
from pellucid.decode.line_segments import Search, SearchResult, Segment
from pellucid.decode.terms.matches import normalize_text
from pellucid.decode.terms.required import WordEdges, missing_terms, without_edges


@dataclass(frozen=True)
class MarkTerms:
    """The stage that puts the translations of terms into the sources of segments, between marks.

    Each segment is searched first without its terms: a translation that has all of them stays as it
    is, so that a glossary changes nothing where the model keeps to it anyway. In the others the
    missing terms are marked. A source that would be longer than the `longest` that the model takes,
    in pieces, stays as it is, and so does protected text.
    """

    find_word_edges: Callable[[], WordEdges]
    tokenizer: Tokenizer
    marks: Marks
    longest: int

    def __call__(self, segments: list[Segment], search: Search) -> list[SearchResult]:
        with_terms = set[int]()
        for i, segment in enumerate(segments):
            if any(not span.protected for span in segment.term_spans):
                with_terms.add(i)
        if not with_terms:
            return search(segments)

        without = list(segments)
        for i in with_terms:
            without[i] = replace(segments[i], terms=(), term_spans=())

        word_edges = self.find_word_edges()
        results = dict(enumerate(search(without)))
        told: dict[int, Segment] = {}
        for i in sorted(with_terms):
            segment, result = segments[i], results[i]
            tokens = result.hypotheses[0].tokens if result.hypotheses else []
            missing = missing_terms(tokens, segment.terms, word_edges)
            if missing:
                told[i] = self.mark(segment, missing, tokens)
            else:
                searched = replace(result.segment, terms=segment.terms, term_spans=segment.term_spans)
                results[i] = replace(result, segment=searched)

        results.update(zip(told, search([*told.values()]), strict=True))
        return [results[i] for i in range(len(segments))]

    def mark(self, segment: Segment, missing: Sequence[int], tokens: Sequence[int]) -> Segment:
        """Return a segment with marks around the terms that its `plain` translation, these tokens, lacks."""
        terms = self.find_terms(segment, missing)
        longer = mark_terms(segment.request.source, terms, self.marks)
        if not terms or len(longer) > self.longest:
            return segment

        request = replace(segment.request, source=longer)
        return replace(segment, request=request, plain=tuple(tokens))

    def find_terms(self, segment: Segment, chosen: Sequence[int]) -> list[MarkedTerm]:
        """Return the chosen terms of a segment with their tokens and one translation each."""
        own = strip_eos(segment.request.source[segment.context :])
        spelled = SpelledSource(self.tokenizer.source_pieces(own))
        text, read = normalize_text(spelled.text), normalize_text(segment.read.text)
        if text != (read.lower() if self.tokenizer.lowercase else read):
            # The pieces spell the text in another way, so that nothing is known of its places.
            return []

        places = find_places(spelled.text)
        terms: list[MarkedTerm] = []
        stop = 0
        in_order = sorted(chosen, key=lambda n: segment.term_spans[n].start)
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
