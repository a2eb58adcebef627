"""Prefixes of searches that place terms: a translation up to the word that a term replaces, and the term there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from pellucid.decode.line_segments import Segment
from pellucid.decode.terms.required import (
    EDGE,
    Spelling,
    Term,
    WordEdges,
    can_follow_any_piece,
    missing_terms,
    shortest_spelling,
    without_edges,
    without_marks,
)
from pellucid.decode.terms.term_alignment import TermAlignment


@dataclass(frozen=True)
class PlacementAttempt:
    """Prefix of a search that places a term.

    `replaced` is the word that the last term of the prefix replaces.
    """

    prefix: tuple[int, ...]
    replaced: tuple[int, ...] = ()


def continue_with_term(
    tokens: list[int],
    attempt: PlacementAttempt,
    segment: Segment,
    alignment: TermAlignment,
    word_edges: WordEdges,
) -> Iterator[PlacementAttempt]:
    """Yield a prefix for each spelling of the leftmost missing term, with the term where it belongs."""
    words: list[tuple[range, int]] = []
    for n in missing_terms(tokens, segment.terms, word_edges):
        if alignment.words_of_terms[n]:
            words.append((alignment.words[alignment.words_of_terms[n][0]], n))

    if not words:
        return

    word, n = min(words, key=lambda word_and_term: (word_and_term[0].start, word_and_term[1]))
    prefix_length = len(without_marks(attempt.prefix))
    cut = max(word.start, prefix_length)
    # Protected text is put before the word, which stays.
    replaced = () if segment.term_spans[n].protected else tuple(tokens[cut : word.stop])
    for spelling in segment.terms[n]:
        if can_follow_any_piece(spelling, word_edges):
            edge = (EDGE,) if spelling[-1] == EDGE else ()
            yield PlacementAttempt((*tokens[:cut], *without_edges(spelling), *edge), replaced)


def place_missing_terms(
    tokens: list[int],
    attempt: PlacementAttempt,
    segment: Segment,
    alignment: TermAlignment,
    word_edges: WordEdges,
) -> PlacementAttempt:
    """Return a prefix with all missing terms where they belong.

    A term that is aligned with no word stands behind the term before it in the source.
    """
    prefix_length = len(without_marks(attempt.prefix))
    missing = missing_terms(tokens, segment.terms, word_edges)
    word = range(prefix_length, prefix_length)
    words: list[tuple[range, int]] = []
    for n in sorted(missing, key=lambda n: segment.term_spans[n].start):
        if alignment.words_of_terms[n]:
            word = alignment.words[alignment.words_of_terms[n][0]]
        else:
            word = range(word.start, word.start)  # empty: nothing is replaced
        words.append((word, n))

    # The prefix alternates between stretches of the translation and the terms.
    prefix, copied = list(tokens[:prefix_length]), prefix_length
    for word, n in sorted(words, key=lambda word_and_term: word_and_term[0].start):
        prefix += [
            *tokens[copied : word.start],
            *_shortest_detached_spelling(segment.terms[n], word_edges),
        ]
        copied = max(copied, word.start if segment.term_spans[n].protected else word.stop)
    return PlacementAttempt(_keep_last_edge(prefix))


def begin_with_terms(segment: Segment, word_edges: WordEdges) -> PlacementAttempt:
    """Return a prefix of all terms, in the order of their sources: they have room there if they have it anywhere."""
    prefix = without_marks(segment.request.prefix)
    missing = missing_terms(prefix, segment.terms, word_edges)
    order = sorted(missing, key=lambda n: segment.term_spans[n].start)
    for n in order:
        prefix.extend(_shortest_detached_spelling(segment.terms[n], word_edges))
    return PlacementAttempt(_keep_last_edge(prefix))


def _shortest_detached_spelling(term: Term, word_edges: WordEdges) -> Spelling:
    """Return the shortest spelling of a term that may stand behind any token, without an edge before it."""
    shortest = shortest_spelling(term, word_edges)
    return (*without_edges(shortest), *[EDGE] * (shortest[-1] == EDGE))


def _keep_last_edge(prefix: Sequence[int]) -> tuple[int, ...]:
    """Return a prefix without the marks inside it.

    A mark at its end stays, for it says what may follow.
    """
    return (*without_marks(prefix[:-1]), *prefix[-1:])


def skip_replaced_word(tokens: list[int], attempt: PlacementAttempt, word_edges: WordEdges) -> PlacementAttempt | None:
    """Return a prefix that leaves out the word a term replaces, or None where it does not stand behind the term."""
    prefix = without_marks(attempt.prefix)
    behind = tokens[len(prefix) :]
    same = takewhile(
        lambda pair: pair[0] == pair[1] and pair[0] in word_edges.ends_in_letter,
        zip(behind, attempt.replaced, strict=False),
    )
    size = len([*same])
    # A letter next: only the beginning of a longer word is the same.
    if not 0 < size < len(behind) or behind[size] in word_edges.begins_with_letter:
        return None
    return PlacementAttempt((*prefix, behind[size]))
