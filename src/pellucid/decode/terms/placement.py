"""Places terms where they belong: in place of the words that translate their sources."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, takewhile

from pellucid.data.text.word_pieces import word_piece_ranges
from pellucid.data.tokenizer import EOS, Tokenizer
from pellucid.decode.alignment import align_sentences
from pellucid.decode.prepared_lines import Segment
from pellucid.decode.request import Hypothesis, SearchRequest
from pellucid.decode.terms.required import (
    EDGE,
    Spelling,
    Term,
    WordEdges,
    can_follow_any_piece,
    missing_terms,
    shortest_spelling,
    without_edges,
)
from pellucid.decode.terms.terminology import normalize_text
from pellucid.model import Transformer

SearchRequests = Callable[[Sequence[SearchRequest]], list[list[Hypothesis]]]
AlignTerms = Callable[[Sequence[Segment], Sequence[list[int]]], "list[TermAlignment]"]

# Each search writes the whole translation again: with one search for each of N terms, the time grew as N^2.
SEARCHES_BEFORE_ALL = 8  # searches of one translation after which all terms that it still lacks are placed together


@dataclass(frozen=True)
class TermAlignment:
    """Words of a translation as ranges of its tokens, and for each term the words its source is aligned with."""

    words: list[range]
    words_of_terms: list[list[int]]


@dataclass(frozen=True)
class _PlacementAttempt:
    """Prefix of a search that places a term; `replaced` is the word that the last term of the prefix replaces."""

    prefix: tuple[int, ...]
    replaced: tuple[int, ...] = ()


def search_with_terms(
    segments: Sequence[Segment], search: SearchRequests, align: AlignTerms, word_edges: WordEdges
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each segment that have its terms, and where possible each term where it belongs.

    A translation without the terms is cut where the first word begins that is aligned with the source of a missing
    term, the leftmost first; it is continued with the term, and freely after that; and so on with the next. After
    `SEARCHES_BEFORE_ALL` searches, and where a missing term is aligned with no word, all that are still missing are
    placed together. Terms that have no room where they belong begin the translation.
    """
    # A beam in which every hypothesis must have the terms (Post and Vilar 2018) finds likelier translations, in which a
    # term that the model would not write itself stands anywhere, and takes longer (benchmarks/results/terms.md).
    results: list[list[Hypothesis]] = [[] for _ in segments]
    attempts = {i: [_PlacementAttempt(segment.request.prefix)] for i, segment in enumerate(segments)}
    turn = 0
    while best := _best_attempts(segments, attempts, search):
        turn, attempts = turn + 1, {}
        for i, (attempt, hypotheses) in best.items():
            # A model may write the word that the term replaces right behind the term: search again without it.
            if turn < SEARCHES_BEFORE_ALL and (
                shorter := _skip_replaced_word(hypotheses[0].tokens, attempt, word_edges)
            ):
                attempts[i] = [shorter]
                continue
            missing = [missing_terms(hypothesis.tokens, segments[i].terms, word_edges) for hypothesis in hypotheses]
            if not missing[0]:
                pairs = zip(hypotheses, missing, strict=True)
                results[i] = [hypothesis for hypothesis, lacking in pairs if not lacking]
        unfinished = [i for i in best if i not in attempts and not results[i]]
        if turn <= SEARCHES_BEFORE_ALL:
            alignments = align([segments[i] for i in unfinished], [best[i][1][0].tokens for i in unfinished])
            for i, alignment in zip(unfinished, alignments, strict=True):
                arguments = best[i][1][0].tokens, best[i][0], segments[i], alignment, word_edges
                attempts[i] = list(_continue_with_term(*arguments)) if turn < SEARCHES_BEFORE_ALL else []
                attempts[i] = attempts[i] or [_place_missing_terms(*arguments)]
        elif turn == SEARCHES_BEFORE_ALL + 1:
            attempts |= {i: [_begin_with_terms(segments[i], word_edges)] for i in unfinished}
    return results


def _best_attempts(
    segments: Sequence[Segment], attempts: dict[int, list[_PlacementAttempt]], search: SearchRequests
) -> dict[int, tuple[_PlacementAttempt, list[Hypothesis]]]:
    """Return for each segment the attempt with the best hypothesis, and its hypotheses."""
    # All attempts of all segments are one list of requests, so that they fill batches.
    flat = [(i, attempt) for i, segment_attempts in attempts.items() for attempt in segment_attempts]
    requests = [replace(segments[i].request, prefix=attempt.prefix) for i, attempt in flat]
    best: dict[int, tuple[_PlacementAttempt, list[Hypothesis]]] = {}
    for (i, attempt), hypotheses in zip(flat, search(requests), strict=True):
        if hypotheses and (i not in best or hypotheses[0].score > best[i][1][0].score):
            best[i] = attempt, hypotheses
    return best


def _continue_with_term(
    tokens: list[int], attempt: _PlacementAttempt, segment: Segment, alignment: TermAlignment, word_edges: WordEdges
) -> Iterator[_PlacementAttempt]:
    """Yield a prefix for each spelling of the leftmost missing term, with the term where it belongs."""
    words = [
        (alignment.words[alignment.words_of_terms[n][0]], n)
        for n in missing_terms(tokens, segment.terms, word_edges)
        if alignment.words_of_terms[n]
    ]
    if not words:
        return
    word, n = min(words, key=lambda word_and_term: (word_and_term[0].start, word_and_term[1]))
    # Marks such as EDGE are negative and write nothing.
    prefix_length = sum(piece >= 0 for piece in attempt.prefix)
    cut = max(word.start, prefix_length)
    # Protected text is put before the word, which stays.
    replaced = () if segment.term_spans[n].protected else tuple(tokens[cut : word.stop])
    for spelling in segment.terms[n]:
        if can_follow_any_piece(spelling, word_edges):
            edge = (EDGE,) if spelling[-1] == EDGE else ()
            yield _PlacementAttempt((*tokens[:cut], *without_edges(spelling), *edge), replaced)


def _place_missing_terms(
    tokens: list[int], attempt: _PlacementAttempt, segment: Segment, alignment: TermAlignment, word_edges: WordEdges
) -> _PlacementAttempt:
    """Return a prefix with all missing terms where they belong.

    A term that is aligned with no word stands behind the term before it in the source.
    """
    prefix_length = sum(piece >= 0 for piece in attempt.prefix)
    missing = missing_terms(tokens, segment.terms, word_edges)
    word = range(prefix_length, prefix_length)
    words: list[tuple[range, int]] = []
    for n in sorted(missing, key=lambda n: segment.term_spans[n].start):
        # An empty range where no word is aligned: nothing is replaced.
        word = (
            alignment.words[alignment.words_of_terms[n][0]]
            if alignment.words_of_terms[n]
            else range(word.start, word.start)
        )
        words.append((word, n))
    # The prefix alternates between stretches of the translation and the terms.
    prefix, copied = list(tokens[:prefix_length]), prefix_length
    for word, n in sorted(words, key=lambda word_and_term: word_and_term[0].start):
        prefix += [*tokens[copied : word.start], *_shortest_detached_spelling(segment.terms[n], word_edges)]
        copied = max(copied, word.start if segment.term_spans[n].protected else word.stop)
    return _PlacementAttempt(_keep_last_edge(prefix))


def _begin_with_terms(segment: Segment, word_edges: WordEdges) -> _PlacementAttempt:
    """Return a prefix of all terms, in the order of their sources: they have room there if they have it anywhere."""
    prefix = [piece for piece in segment.request.prefix if piece >= 0]
    missing = missing_terms(prefix, segment.terms, word_edges)
    order = sorted(missing, key=lambda n: segment.term_spans[n].start)
    terms = [piece for n in order for piece in _shortest_detached_spelling(segment.terms[n], word_edges)]
    return _PlacementAttempt(_keep_last_edge([*prefix, *terms]))


def _shortest_detached_spelling(term: Term, word_edges: WordEdges) -> Spelling:
    """Return the shortest spelling of a term that may stand behind any token, without an edge before it."""
    shortest = shortest_spelling(term, word_edges)
    return (*without_edges(shortest), *[EDGE] * (shortest[-1] == EDGE))


def _keep_last_edge(prefix: Sequence[int]) -> tuple[int, ...]:
    """Return a prefix without the marks inside it; a mark at its end stays, for it says what may follow."""
    return (*(piece for piece in prefix[:-1] if piece >= 0), *prefix[-1:])


def _skip_replaced_word(
    tokens: list[int], attempt: _PlacementAttempt, word_edges: WordEdges
) -> _PlacementAttempt | None:
    """Return a prefix that leaves out the word a term replaces, or None where it does not stand behind the term."""
    prefix = tuple(piece for piece in attempt.prefix if piece >= 0)
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


def align_terms(
    model: Transformer, tokenizer: Tokenizer, segments: Sequence[Segment], targets: Sequence[list[int]]
) -> list[TermAlignment]:
    """Return the words of each translation, and which of them its terms are aligned with, from one pass over all."""
    sources, cut_texts = [segment.request.source for segment in segments], list(map(cut_at_terms, segments))
    texts = tokenizer.decode_targets(targets)
    # A translation that was cut off at the longest length has no position left for EOS.
    ended = [[*target, EOS][: model.config.max_positions] for target in targets]
    links = align_sentences(model, tokenizer, sources, ended, [text for text, _ in cut_texts], texts)
    return [
        TermAlignment(
            word_piece_ranges(tokenizer.target_pieces(target), text),
            [sorted({j for i, j in pairs if i in numbers}) for numbers in words_of_terms],
        )
        for target, text, (_, words_of_terms), pairs in zip(targets, texts, cut_texts, links, strict=True)
    ]


def cut_at_terms(segment: Segment) -> tuple[str, list[range]]:
    """Return the text with a space at either end of each term, and the range of words of each term in it."""
    text = normalize_text(segment.read.text)
    # So a term in the middle of a word, as a placeholder may be, becomes a word of its own.
    cuts = sorted({0, len(text), *(position for span in segment.term_spans for position in (span.start, span.end))})
    stretches = [text[start:end] for start, end in pairwise(cuts)]
    words_before = dict(zip(cuts, accumulate((len(stretch.split()) for stretch in stretches), initial=0), strict=True))
    return " ".join(stretches), [range(words_before[span.start], words_before[span.end]) for span in segment.term_spans]
