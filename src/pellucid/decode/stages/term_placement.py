"""Places terms where they belong: in place of the words that translate their sources."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from pellucid.data.term_spans import find_term_words, is_inflected, split_term_words
from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.line_segments import NOT_FOUND, Search, SearchResult, Segment
from pellucid.decode.request import SearchBounds, SearchConfig, map_in_batches
from pellucid.decode.terms.required import (
    EDGE,
    Spelling,
    Term,
    WordEdges,
    can_follow_any_piece,
    explain_no_room,
    missing_terms,
    shortest_spelling,
    without_edges,
    without_marks,
)
from pellucid.decode.terms.spellings import target_spellings
from pellucid.decode.terms.term_alignment import TermAlignment, align_terms

if TYPE_CHECKING:
    from pellucid.decode.torch_engine import TorchEngine

# German and its relatives write all nouns with a capital.
CAPITAL_NOUNS = frozenset(("de", "lb", "gsw", "nds", "bar"))

AlignTerms = Callable[[Sequence[Segment], Sequence[list[int]]], list[TermAlignment]]

# Each search writes the whole translation again: with one search for each of N terms, the time grew
# as N^2.
SEARCHES_BEFORE_ALL = 8  # searches of one translation after which all terms that it still lacks are placed together


@dataclass(frozen=True)
class _PlacementAttempt:
    """Prefix of a search that places a term.

    `replaced` is the word that the last term of the prefix replaces.
    """

    prefix: tuple[int, ...]
    replaced: tuple[int, ...] = ()


@dataclass(frozen=True)
class PlaceTerms:
    """The stage that searches for segments with terms until each term has its place.

    The others are searched once. Where the terms of a segment have no room in its translation, it
    is not searched for, and a note says so.
    """

    find_engine: "Callable[[], TorchEngine]"
    tokenizer: Tokenizer
    bounds: SearchBounds
    config: SearchConfig
    target_language: str | None = None

    def __call__(self, segments: list[Segment], search: Search) -> list[SearchResult]:
        if not any(segment.terms for segment in segments):
            return search(segments)

        word_edges = self.find_engine().word_edges
        results: dict[int, SearchResult] = {}
        plain, with_terms = [], []
        for i, segment in enumerate(segments):
            if not segment.terms:
                plain.append(i)
            elif reason := self.explain_missing_room(segment, word_edges):
                results[i] = SearchResult(segment, [], notes=(reason,))
            else:
                with_terms.append(i)

        results.update(zip(plain, search([segments[i] for i in plain]), strict=True))
        marks = self.tokenizer.term_marks
        marked = []
        for i in with_terms:
            if marks is not None and marks[0] in segments[i].request.source:
                marked.append(i)

        asked = [segments[i] for i in marked]
        told = dict(zip(marked, self.search_marked(asked, search, word_edges), strict=True))
        results.update({i: result for i, result in told.items() if result.hypotheses})

        with_terms = [i for i in with_terms if i not in results]
        waiting = [told[i].segment if i in told else segments[i] for i in with_terms]
        placed = search_with_terms(waiting, search, self.align, word_edges) if waiting else []
        results.update(zip(with_terms, placed, strict=True))
        return [results[i] for i in range(len(segments))]

    def search_marked(self, segments: list[Segment], search: Search, word_edges: WordEdges) -> list[SearchResult]:
        """Return the hypotheses of segments with marked terms, none where some term is missing.

        A term may stand in a translation in another form than the one that was asked for. The
        segment of a result has these forms among the spellings of its terms.
        """
        if not segments:
            return []

        results = []
        for segment, result in zip(segments, search(segments), strict=True):
            complete = None
            if result.hypotheses:
                tokens = result.hypotheses[0].tokens
                language = self.target_language
                segment = accept_forms(segment, tokens, self.tokenizer, word_edges, language)
                complete = _keep_complete(segment, result, word_edges)
            results.append(complete or SearchResult(segment, []))
        return results

    def align(self, segments: Sequence[Segment], targets: Sequence[list[int]]) -> list[TermAlignment]:
        """Return which words of each translation the sources of the terms are aligned with."""
        engine = self.find_engine()
        pairs = list(zip(segments, targets, strict=True))
        lengths = [max(len(segment.request.source), len(target) + 1) for segment, target in pairs]
        align_batch = partial(align_terms, engine.models[0], self.tokenizer)
        return map_in_batches(align_batch, pairs, lengths, self.config.batch or engine.batch_size)

    def explain_missing_room(self, segment: Segment, word_edges: WordEdges) -> str:
        """Return why the terms of a segment have no room in its translation.

        The text is empty where they have.
        """
        limit = self.bounds.max_pieces(segment.request, self.config)
        return explain_no_room(segment.request.prefix, segment.terms, limit, word_edges)


def accept_forms(
    segment: Segment,
    tokens: Sequence[int],
    tokenizer: Tokenizer,
    word_edges: WordEdges,
    target_language: str | None = None,
) -> Segment:
    """Return a segment with more spellings of the terms that a translation has in another form.

    Each form in the translation stands for one term. A term with a capital is a name, unless the
    language writes all nouns so, and has no other form.
    """
    missing = missing_terms(tokens, segment.terms, word_edges)
    if not missing:
        return segment

    terms, used = list(segment.terms), set[int]()
    words = find_term_words(tokenizer.decode_target(tokens))
    for n in missing:
        if segment.term_spans[n].protected:
            continue

        targets = tokenizer.decode_targets([without_edges(spelling) for spelling in terms[n]])
        for target in dict.fromkeys(targets):
            is_name = target != target.lower() and target_language not in CAPITAL_NOUNS
            form = None if is_name else _find_form(target, words, used)
            if form is not None:
                terms[n] = (*terms[n], *target_spellings(tokenizer, [form]))
                break
    return replace(segment, terms=tuple(terms))


def _find_form(target: str, words: Sequence[re.Match[str]], used: set[int]) -> str | None:
    """Return another form of a term that stands in the words of a text; its words are then `used`."""
    size = len(split_term_words(target))
    for first in range(len(words) - size + 1):
        places = range(first, first + size)
        if not used.isdisjoint(places):
            continue
        form = words[0].string[words[first].start() : words[places.stop - 1].end()]
        if form.lower() != target.lower() and is_inflected(form, target):
            used.update(places)
            return form
    return None


def search_with_terms(
    segments: Sequence[Segment], search: Search, align: AlignTerms, word_edges: WordEdges
) -> list[SearchResult]:
    """Return the hypotheses of each segment that have its terms, and where possible each term where it belongs.

    A translation without the terms is cut where the first word begins that is aligned with the
    source of a missing term, the leftmost first; it is continued with the term, and freely after
    that; and so on with the next. After `SEARCHES_BEFORE_ALL` searches, and where a missing term is
    aligned with no word, all that are still missing are placed together. Terms that have no room
    where they belong begin the translation.
    """
    # A beam in which every hypothesis must have the terms (Post and Vilar 2018) finds likelier
    # translations, in which a term that the model would not write itself stands anywhere, and takes
    # longer (benchmarks/results/terms.md).
    results = [SearchResult(segment, [], notes=(NOT_FOUND,)) for segment in segments]
    attempts = {i: [_PlacementAttempt(segment.request.prefix)] for i, segment in enumerate(segments)}
    turn = 0
    while best := _best_attempts(segments, attempts, search):
        turn, attempts = turn + 1, {}
        for i, (attempt, result) in best.items():
            # A model may write the word that the term replaces right behind the term: search again
            # without it.
            shorter = None
            if turn < SEARCHES_BEFORE_ALL:
                shorter = _skip_replaced_word(result.hypotheses[0].tokens, attempt, word_edges)
            if shorter:
                attempts[i] = [shorter]
            else:
                complete = _keep_complete(segments[i], result, word_edges)
                results[i] = complete or results[i]

        unfinished = [i for i in best if i not in attempts and not results[i].hypotheses]
        if turn <= SEARCHES_BEFORE_ALL:
            tokens = {i: best[i][1].hypotheses[0].tokens for i in unfinished}
            alignments = align([segments[i] for i in unfinished], list(tokens.values()))
            for i, alignment in zip(unfinished, alignments, strict=True):
                arguments = tokens[i], best[i][0], segments[i], alignment, word_edges
                attempts[i] = list(_continue_with_term(*arguments)) if turn < SEARCHES_BEFORE_ALL else []
                attempts[i] = attempts[i] or [_place_missing_terms(*arguments)]
        elif turn == SEARCHES_BEFORE_ALL + 1:
            for i in unfinished:
                attempts[i] = [_begin_with_terms(segments[i], word_edges)]
    return results


def _best_attempts(
    segments: Sequence[Segment], attempts: dict[int, list[_PlacementAttempt]], search: Search
) -> dict[int, tuple[_PlacementAttempt, SearchResult]]:
    """Return for each segment the attempt with the best hypothesis, and its hypotheses."""
    # All attempts of all segments are one list, so that they fill batches.
    flat: list[tuple[int, _PlacementAttempt]] = []
    begun: list[Segment] = []
    for i, segment_attempts in attempts.items():
        for attempt in segment_attempts:
            flat.append((i, attempt))
            request = replace(segments[i].request, prefix=attempt.prefix)
            begun.append(replace(segments[i], request=request))

    best: dict[int, tuple[_PlacementAttempt, SearchResult]] = {}
    for (i, attempt), result in zip(flat, search(begun), strict=True):
        if not result.hypotheses:
            continue
        if i not in best or result.hypotheses[0].score > best[i][1].hypotheses[0].score:
            best[i] = attempt, result
    return best


def _keep_complete(segment: Segment, result: SearchResult, word_edges: WordEdges) -> SearchResult | None:
    """Return the hypotheses that have all terms of a segment.

    It is None where the best one lacks some.
    """
    hypotheses, texts = [], []
    for n, (hypothesis, text) in enumerate(zip(result.hypotheses, result.texts, strict=True)):
        if not missing_terms(hypothesis.tokens, segment.terms, word_edges):
            hypotheses.append(hypothesis)
            texts.append(text)
        elif n == 0:
            return None
    return SearchResult(segment, hypotheses, texts)


def _continue_with_term(
    tokens: list[int],
    attempt: _PlacementAttempt,
    segment: Segment,
    alignment: TermAlignment,
    word_edges: WordEdges,
) -> Iterator[_PlacementAttempt]:
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
            yield _PlacementAttempt((*tokens[:cut], *without_edges(spelling), *edge), replaced)


def _place_missing_terms(
    tokens: list[int],
    attempt: _PlacementAttempt,
    segment: Segment,
    alignment: TermAlignment,
    word_edges: WordEdges,
) -> _PlacementAttempt:
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
    return _PlacementAttempt(_keep_last_edge(prefix))


def _begin_with_terms(segment: Segment, word_edges: WordEdges) -> _PlacementAttempt:
    """Return a prefix of all terms, in the order of their sources: they have room there if they have it anywhere."""
    prefix = without_marks(segment.request.prefix)
    missing = missing_terms(prefix, segment.terms, word_edges)
    order = sorted(missing, key=lambda n: segment.term_spans[n].start)
    for n in order:
        prefix.extend(_shortest_detached_spelling(segment.terms[n], word_edges))
    return _PlacementAttempt(_keep_last_edge(prefix))


def _shortest_detached_spelling(term: Term, word_edges: WordEdges) -> Spelling:
    """Return the shortest spelling of a term that may stand behind any token, without an edge before it."""
    shortest = shortest_spelling(term, word_edges)
    return (*without_edges(shortest), *[EDGE] * (shortest[-1] == EDGE))


def _keep_last_edge(prefix: Sequence[int]) -> tuple[int, ...]:
    """Return a prefix without the marks inside it.

    A mark at its end stays, for it says what may follow.
    """
    return (*without_marks(prefix[:-1]), *prefix[-1:])


def _skip_replaced_word(
    tokens: list[int], attempt: _PlacementAttempt, word_edges: WordEdges
) -> _PlacementAttempt | None:
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
    return _PlacementAttempt((*prefix, behind[size]))
