"""Terms put where they belong: in the place of the words that the model read from their sources."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from pellucid.data.tokenizer import EOS, Tokenizer
from pellucid.decode.alignment import (
    link_words,
    piece_alignments,
    strip_eos,
    word_piece_ranges,
    words_without_punctuation,
)
from pellucid.decode.hypothesis import Hypothesis
from pellucid.decode.line_preparation import Segment
from pellucid.decode.request import SearchRequest
from pellucid.decode.required_terms import Spelling, Term, can_follow_any_piece, pieces_needed, without_edges
from pellucid.decode.terms import normalize_text
from pellucid.decode.word_edges import EDGE, WordEdges
from pellucid.model import Transformer

SearchRequests = Callable[[Sequence[SearchRequest]], list[list[Hypothesis]]]
AlignTerms = Callable[[Sequence[Segment], Sequence[list[int]]], "list[TermAlignment]"]

SEARCHES_BEFORE_ALL = 8
"""Searches of one translation after which all terms that it still lacks are put in their places together.

Each search writes the whole translation again: with one for each of N terms, N of them took a time that grew as N².
"""

SHORT_TERMS = 32
"""Pieces of all terms of a translation up to which they are searched for: the beam grows by each, the time as N³."""


@dataclass(frozen=True)
class TermAlignment:
    """The words of a translation as ranges of its pieces, and for each term the numbers of those its source is in."""

    words: list[range]
    of_terms: list[list[int]]


@dataclass(frozen=True)
class PlacementAttempt:
    """What a translation is to begin with; `replaced` is the word in whose place the last term there stands."""

    prefix: tuple[int, ...]
    replaced: tuple[int, ...] = ()


def search_with_terms(
    parts: Sequence[Segment], search: SearchRequests, align: AlignTerms, parts_of_words: WordEdges
) -> list[list[Hypothesis]]:
    """The hypotheses of each part: they have its terms, and where there is a way, in their places.

    The search for terms finds the likeliest translation that has them. It serves for terms the model knows; one it
    would never write costs the same wherever it stands, and so comes to stand at the end, or anywhere. That shows when
    no word of it is aligned with its source. Then, and for placeholders from the start, the translation without terms
    says where they belong, and for terms of more than `SHORT_TERMS` pieces. Where that leads to nothing, what the
    search for terms found stays.
    """
    known = [
        i
        for i, part in enumerate(parts)
        if has_short_terms(part) and not any(place.protected for place in part.term_spans)
    ]
    found = dict(zip(known, search([parts[i].request for i in known]), strict=True))
    some = [i for i in known if found[i]]
    aligned = align([parts[i] for i in some], [found[i][0].tokens for i in some])
    done = {i for i, each in zip(some, aligned, strict=True) if terms_in_place(found[i][0].tokens, parts[i], each)}
    others = [i for i in range(len(parts)) if i not in done]
    put = place_terms([parts[i] for i in others], search, align, parts_of_words)
    found.update({i: each for i, each in zip(others, put, strict=True) if each})
    rest = [i for i, part in enumerate(parts) if i not in found and has_short_terms(part)]
    found.update(zip(rest, search([parts[i].request for i in rest]), strict=True))
    return [found.get(i, []) for i in range(len(parts))]


def place_terms(
    parts: Sequence[Segment], search: SearchRequests, align: AlignTerms, parts_of_words: WordEdges
) -> list[list[Hypothesis]]:
    """The hypotheses that have the terms, forced where they belong; none for a part where that did not succeed.

    A translation without the terms is cut where the first word begins that is aligned with the source of a missing
    term, the leftmost first; it is continued with the term, and freely after that; and so on with the next, until
    there were `SEARCHES_BEFORE_ALL` searches. Where the term is followed by the very word in whose place it stands,
    that word is left out. Terms of more than `SHORT_TERMS` pieces that have no room where they belong begin the
    translation.
    """
    found: list[list[Hypothesis]] = [[] for _ in parts]
    attempts = {i: [PlacementAttempt(part.request.prefix)] for i, part in enumerate(parts)}
    turn = 0
    while tried := best_attempts(parts, attempts, search):
        turn, attempts = turn + 1, {}
        for i, (attempt, hypotheses) in tried.items():
            terms = parts[i].request.terms
            if turn < SEARCHES_BEFORE_ALL and (
                shorter := skip_replaced_word(hypotheses[0].tokens, attempt, parts_of_words)
            ):
                attempts[i] = [shorter]
            elif not missing_terms(hypotheses[0].tokens, terms, parts_of_words):
                found[i] = [each for each in hypotheses if not missing_terms(each.tokens, terms, parts_of_words)]
        left = [i for i in tried if i not in attempts and not found[i]]
        if turn <= SEARCHES_BEFORE_ALL:
            aligned = align([parts[i] for i in left], [tried[i][1][0].tokens for i in left])
            for i, each in zip(left, aligned, strict=True):
                at_hand = tried[i][1][0].tokens, tried[i][0], parts[i], each, parts_of_words
                attempts[i] = list(continue_with_term(*at_hand)) if turn < SEARCHES_BEFORE_ALL else []
                if not attempts[i] and (turn == SEARCHES_BEFORE_ALL or not has_short_terms(parts[i])):
                    attempts[i] = [place_missing_terms(*at_hand)]
        elif turn == SEARCHES_BEFORE_ALL + 1:
            attempts |= {i: [begin_with_terms(parts[i], parts_of_words)] for i in left if not has_short_terms(parts[i])}
    return found


def best_attempts(
    parts: Sequence[Segment], attempts: dict[int, list[PlacementAttempt]], search: SearchRequests
) -> dict[int, tuple[PlacementAttempt, list[Hypothesis]]]:
    """For each part the attempt with the best hypothesis, and what it led to."""
    flat = [(i, attempt) for i, some in attempts.items() for attempt in some]
    requests = [replace(parts[i].request, prefix=attempt.prefix, terms=()) for i, attempt in flat]
    found: dict[int, tuple[PlacementAttempt, list[Hypothesis]]] = {}
    for (i, attempt), hypotheses in zip(flat, search(requests), strict=True):
        if hypotheses and (i not in found or hypotheses[0].score > found[i][1][0].score):
            found[i] = attempt, hypotheses
    return found


def continue_with_term(
    tokens: list[int], attempt: PlacementAttempt, part: Segment, aligned: TermAlignment, parts_of_words: WordEdges
) -> Iterator[PlacementAttempt]:
    """What to begin with so that the leftmost missing term stands in its place, for each of its spellings."""
    places = [
        (aligned.words[aligned.of_terms[n][0]], n)
        for n in missing_terms(tokens, part.request.terms, parts_of_words)
        if aligned.of_terms[n]
    ]
    if not places:
        return
    word, n = min(places, key=lambda place: (place[0].start, place[1]))
    given = sum(piece >= 0 for piece in attempt.prefix)
    cut = max(word.start, given)
    replaced = () if part.term_spans[n].protected else tuple(tokens[cut : word.stop])
    for spelling in part.request.terms[n]:
        if can_follow_any_piece(spelling, parts_of_words):
            edge = (EDGE,) if spelling[-1] == EDGE else ()
            yield PlacementAttempt((*tokens[:cut], *without_edges(spelling), *edge), replaced)


def has_short_terms(part: Segment) -> bool:
    """Whether its terms are so short that a search for them takes no time to speak of."""
    return sum(max(map(len, term)) for term in part.request.terms) <= SHORT_TERMS


def place_missing_terms(
    tokens: list[int], attempt: PlacementAttempt, part: Segment, aligned: TermAlignment, parts_of_words: WordEdges
) -> PlacementAttempt:
    """What to begin with so that all missing terms stand in their places.

    One that is aligned with nothing stands behind the one before it in the source.
    """
    given = sum(piece >= 0 for piece in attempt.prefix)
    lacking = missing_terms(tokens, part.request.terms, parts_of_words)
    word = range(given, given)
    places: list[tuple[range, int]] = []
    for n in sorted(lacking, key=lambda n: part.term_spans[n].start):
        word = aligned.words[aligned.of_terms[n][0]] if aligned.of_terms[n] else range(word.start, word.start)
        places.append((word, n))
    prefix, done = list(tokens[:given]), given
    for word, n in sorted(places, key=lambda place: place[0].start):
        prefix += [*tokens[done : word.start], *shortest_detached_spelling(part.request.terms[n], parts_of_words)]
        done = max(done, word.start if part.term_spans[n].protected else word.stop)
    return PlacementAttempt(keep_last_edge(prefix))


def begin_with_terms(part: Segment, parts_of_words: WordEdges) -> PlacementAttempt:
    """To begin with all terms, in the order of their sources: they have room there if they have it anywhere."""
    order = sorted(range(len(part.term_spans)), key=lambda n: part.term_spans[n].start)
    terms = [piece for n in order for piece in shortest_detached_spelling(part.request.terms[n], parts_of_words)]
    return PlacementAttempt(keep_last_edge([*part.request.prefix, *terms]))


def shortest_detached_spelling(term: Term, parts_of_words: WordEdges) -> Spelling:
    """The shortest spelling of a term that may stand behind any piece, without an edge before it."""
    shortest = min(
        (each for each in term if can_follow_any_piece(each, parts_of_words)), key=lambda each: len(without_edges(each))
    )
    return (*without_edges(shortest), *[EDGE] * (shortest[-1] == EDGE))


def keep_last_edge(prefix: Sequence[int]) -> tuple[int, ...]:
    """A prefix that says of its end only what may follow: what stands within it is given."""
    return (*(piece for piece in prefix[:-1] if piece >= 0), *prefix[-1:])


def skip_replaced_word(
    tokens: list[int], attempt: PlacementAttempt, parts_of_words: WordEdges
) -> PlacementAttempt | None:
    """The beginning up to what follows the word a term replaces, if that word stands right behind it all the same."""
    given = tuple(piece for piece in attempt.prefix if piece >= 0)
    behind = tokens[len(given) :]
    same = takewhile(
        lambda pair: pair[0] == pair[1] and pair[0] in parts_of_words.ends_in_letter,
        zip(behind, attempt.replaced, strict=False),
    )
    size = len([*same])
    if not 0 < size < len(behind) or behind[size] in parts_of_words.begins_with_letter:
        return None
    return PlacementAttempt((*given, behind[size]))


def missing_terms(tokens: Sequence[int], terms: Sequence[Term], parts_of_words: WordEdges) -> list[int]:
    """The numbers of the terms that a text lacks."""
    numbers = [n for n, term in enumerate(terms) if find_term(tokens, term)]
    # Mostly all that stand somewhere are there; only where two may share pieces are they counted one by one.
    if pieces_needed(tokens, [terms[n] for n in numbers], parts_of_words) > len(tokens):
        there: list[int] = []
        for n in numbers:
            if pieces_needed(tokens, [terms[k] for k in (*there, n)], parts_of_words) == len(tokens):
                there.append(n)
        numbers = there
    return [n for n in range(len(terms)) if n not in numbers]


def terms_in_place(tokens: list[int], part: Segment, aligned: TermAlignment) -> bool:
    """Whether each term stands where its source is aligned to, and no other such word right behind it."""
    for term, numbers in zip(part.request.terms, aligned.of_terms, strict=True):
        words_there = [
            {n for n, word in enumerate(aligned.words) if word.start < place.stop and place.start < word.stop}
            for place in find_term(tokens, term)
        ]
        if not any(some & {*numbers} and max(some) + 1 not in numbers for some in words_there):
            return False
    return True


def find_term(tokens: Sequence[int], term: Term) -> list[range]:
    """Where the pieces of a term stand."""
    return [
        range(i, i + len(some))
        for some in map(without_edges, term)
        for i in range(len(tokens))
        if tuple(tokens[i : i + len(some)]) == some
    ]


def align_terms(
    model: Transformer, tokenizer: Tokenizer, parts: Sequence[Segment], targets: Sequence[list[int]]
) -> list[TermAlignment]:
    """The words of each translation, and which of them its terms are aligned with, from one pass over all."""
    found = []
    ended = [[*target, EOS][: model.config.max_positions] for target in targets]  # what was cut has no end mark
    norms = piece_alignments(model, [part.request.source for part in parts], ended)
    for part, target, norm in zip(parts, targets, norms, strict=True):
        text, of_terms = cut_at_terms(part)
        read = words_without_punctuation(tokenizer.source_pieces(strip_eos(part.request.source)), text)
        written = tokenizer.target_pieces(target), tokenizer.decode_target(target)
        pairs = link_words(norm, read, words_without_punctuation(*written))
        found.append(
            TermAlignment(
                word_piece_ranges(*written), [sorted({j for i, j in pairs if i in numbers}) for numbers in of_terms]
            )
        )
    return found


def cut_at_terms(part: Segment) -> tuple[str, list[range]]:
    """The text with a space at either end of each term, and the numbers of the words of each term in it."""
    text = normalize_text(part.marked.text)
    cuts = sorted({0, len(text), *(at for place in part.term_spans for at in (place.start, place.end))})
    between = {start: text[start:end] for start, end in pairwise(cuts)}

    def words_before(at: int) -> int:
        return sum(len(each.split()) for start, each in between.items() if start < at)

    return " ".join(between.values()), [
        range(words_before(each.start), words_before(each.end)) for each in part.term_spans
    ]
