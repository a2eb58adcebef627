"""Places terms where they belong: in place of the words that translate their sources."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pellucid.data.tokenizer import Tokenizer
from pellucid.decode.line_segments import NOT_FOUND, Search, SearchResult, Segment
from pellucid.decode.request import Hypothesis, SearchBounds, SearchConfig, map_in_batches
from pellucid.decode.terms.inflected import accept_forms
from pellucid.decode.terms.placement_prefixes import (
    PlacementAttempt,
    begin_with_terms,
    continue_with_term,
    place_missing_terms,
    skip_replaced_word,
)
from pellucid.decode.terms.required import WordEdges, explain_no_room, missing_terms
from pellucid.decode.terms.term_alignment import TermAlignment, align_terms

if TYPE_CHECKING:
    from pellucid.decode.torch_engine import TorchEngine

AlignTerms = Callable[[Sequence[Segment], Sequence[list[int]]], list[TermAlignment]]

# Each search writes the whole translation again: with one search for each of N terms, the time grew
# as N^2.
SEARCHES_BEFORE_ALL = 8  # searches of one translation after which all terms that it still lacks are placed together


@dataclass(frozen=True)
class PlaceTerms:
    """The stage that searches for segments with terms until each term has its place.

    Where the best hypothesis lacks a term, the others of the beam are looked at; where all of them
    lack one, the missing terms are placed. Where the terms of a segment have no room in its
    translation, it is not searched for, and a note says so. `search_beam` is the same search, and
    gives all hypotheses of its beam.
    """

    find_engine: "Callable[[], TorchEngine]"
    find_word_edges: Callable[[], WordEdges]
    tokenizer: Tokenizer
    bounds: SearchBounds
    config: SearchConfig
    search_beam: Search
    target_language: str | None = None

    def __call__(self, segments: list[Segment], search: Search) -> list[SearchResult]:
        if not any(segment.terms for segment in segments):
            return search(segments)

        word_edges = self.find_word_edges()
        results: dict[int, SearchResult] = {}
        wanted, in_beam = [], []
        for i, segment in enumerate(segments):
            reason = self.explain_missing_room(segment, word_edges) if segment.terms else ""
            if reason:
                results[i] = SearchResult(segment, [], notes=(reason,))
            elif segment.plain:
                in_beam.append(i)
            else:
                wanted.append(i)

        incomplete: dict[int, SearchResult] = {}
        has_more = self.config.method == "beam" and self.config.n_best < self.config.beam
        for i, result in zip(wanted, search([segments[i] for i in wanted]), strict=True):
            results[i] = self.keep_complete(result, word_edges) if segments[i].terms else result
            if segments[i].terms and not results[i].hypotheses:
                incomplete[i] = result
                in_beam += [i] * has_more

        for i, result in zip(in_beam, self.search_beam([segments[i] for i in in_beam]), strict=True):
            results[i] = self.keep_complete(result, word_edges)
            incomplete[i] = result

        lacking = [i for i in incomplete if not results[i].hypotheses]
        first = []
        for i in lacking:
            result = incomplete[i]
            tokens = result.hypotheses[0].tokens if result.hypotheses else []
            segment = self.accept_forms(result.segment, tokens, word_edges)
            first.append(replace(result, segment=segment))
        results.update(zip(lacking, search_with_terms(first, search, self.align, word_edges), strict=True))
        return [results[i] for i in range(len(segments))]

    def keep_complete(self, result: SearchResult, word_edges: WordEdges) -> SearchResult:
        """Return a result with only the hypotheses that have all terms, as many as were asked for.

        What the model writes without being told the terms comes first if it is among them: there
        the terms stand in other forms, and all words agree.
        """
        found = list(zip(result.hypotheses, result.texts, strict=True))
        plain = [*result.segment.plain]
        if plain:
            found.sort(key=lambda hypothesis_and_text: hypothesis_and_text[0].tokens != plain)

        hypotheses: list[Hypothesis] = []
        texts: list[str] = []
        for hypothesis, text in found:
            segment = self.accept_forms(result.segment, hypothesis.tokens, word_edges)
            if not missing_terms(hypothesis.tokens, segment.terms, word_edges):
                hypotheses.append(hypothesis)
                texts.append(text)
            if len(hypotheses) == self.config.n_best:
                break

        return replace(result, hypotheses=hypotheses, texts=texts)

    def accept_forms(self, segment: Segment, tokens: Sequence[int], word_edges: WordEdges) -> Segment:
        """Return a segment that accepts the forms in which these tokens have terms that were marked in its source."""
        marks = self.tokenizer.term_marks
        if marks is None or marks[0] not in segment.request.source:
            return segment
        return accept_forms(segment, tokens, self.tokenizer, word_edges, self.target_language)

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


def search_with_terms(
    first: Sequence[SearchResult], search: Search, align: AlignTerms, word_edges: WordEdges
) -> list[SearchResult]:
    """Return for each result hypotheses that have the terms of its segment, where possible each term where it belongs.

    The `first` results are of searches that know no terms. A translation that lacks some is cut
    where the first word begins that is aligned with the source of a missing term, the leftmost
    first; it is continued with the term, and freely after that; and so on with the next. After
    `SEARCHES_BEFORE_ALL` searches, and where a missing term is aligned with no word, all that are
    still missing are placed together. Terms that have no room where they belong begin the
    translation.
    """
    # A beam in which every hypothesis must have the terms (Post and Vilar 2018) finds likelier
    # translations, in which a term that the model would not write itself stands anywhere, and takes
    # longer (benchmarks/results/terms.md).
    segments = [result.segment for result in first]
    results = [SearchResult(segment, [], notes=(NOT_FOUND,)) for segment in segments]
    best: dict[int, tuple[PlacementAttempt, SearchResult]] = {}
    for i, result in enumerate(first):
        if result.hypotheses:
            best[i] = PlacementAttempt(segments[i].request.prefix), result

    turn = 0
    while best:
        turn += 1
        attempts: dict[int, list[PlacementAttempt]] = {}
        for i, (attempt, result) in best.items():
            # A model may write the word that the term replaces right behind the term: search again
            # without it.
            shorter = None
            if turn < SEARCHES_BEFORE_ALL:
                shorter = skip_replaced_word(result.hypotheses[0].tokens, attempt, word_edges)
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
                attempts[i] = list(continue_with_term(*arguments)) if turn < SEARCHES_BEFORE_ALL else []
                attempts[i] = attempts[i] or [place_missing_terms(*arguments)]
        elif turn == SEARCHES_BEFORE_ALL + 1:
            for i in unfinished:
                attempts[i] = [begin_with_terms(segments[i], word_edges)]
        best = _best_attempts(segments, attempts, search)
    return results


def _best_attempts(
    segments: Sequence[Segment], attempts: dict[int, list[PlacementAttempt]], search: Search
) -> dict[int, tuple[PlacementAttempt, SearchResult]]:
    """Return for each segment the attempt with the best hypothesis, and its hypotheses."""
    # All attempts of all segments are one list, so that they fill batches.
    flat: list[tuple[int, PlacementAttempt]] = []
    begun: list[Segment] = []
    for i, segment_attempts in attempts.items():
        for attempt in segment_attempts:
            flat.append((i, attempt))
            request = replace(segments[i].request, prefix=attempt.prefix)
            begun.append(replace(segments[i], request=request))

    best: dict[int, tuple[PlacementAttempt, SearchResult]] = {}
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
