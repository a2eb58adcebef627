"""Terms put where they belong: in the place of the words that the model read from their sources."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from pellucid.data.tokenizer import EOS, Tokenizer
from pellucid.decode.alignment import bare_words, links, piece_alignments, without_end, words
from pellucid.decode.hypothesis import Hypothesis
from pellucid.decode.line_preparation import Part
from pellucid.decode.request import Request
from pellucid.decode.required_terms import Spelling, Term, detached, pieces, pieces_needed
from pellucid.decode.terms import same_text
from pellucid.decode.word_edges import EDGE, Words
from pellucid.model import Transformer

Search = Callable[[Sequence[Request]], list[list[Hypothesis]]]
Align = Callable[[Sequence[Part], Sequence[list[int]]], "list[Aligned]"]

ONE_BY_ONE = 8
"""Searches of one translation after which all terms that it still lacks are put in their places together.

Each search writes the whole translation again: with one for each of N terms, N of them took a time that grew as N².
"""

FEW = 32
"""Pieces of all terms of a translation up to which they are searched for: the beam grows by each, the time as N³."""


@dataclass(frozen=True)
class Aligned:
    """The words of a translation as ranges of its pieces, and for each term the numbers of those its source is in."""

    words: list[range]
    of_terms: list[list[int]]


@dataclass(frozen=True)
class Attempt:
    """What a translation is to begin with; `replaced` is the word in whose place the last term there stands."""

    prefix: tuple[int, ...]
    replaced: tuple[int, ...] = ()


def with_terms(parts: Sequence[Part], search: Search, align: Align, parts_of_words: Words) -> list[list[Hypothesis]]:
    """The hypotheses of each part: they have its terms, and where there is a way, in their places.

    The search for terms finds the likeliest translation that has them. It serves for terms the model knows; one it
    would never write costs the same wherever it stands, and so comes to stand at the end, or anywhere. That shows when
    no word of it is aligned with its source. Then, and for placeholders from the start, the translation without terms
    says where they belong, and for terms of more than `FEW` pieces. Where that leads to nothing, what the search for
    terms found stays.
    """
    known = [i for i, part in enumerate(parts) if few(part) and not any(place.kept for place in part.places)]
    found = dict(zip(known, search([parts[i].request for i in known]), strict=True))
    some = [i for i in known if found[i]]
    aligned = align([parts[i] for i in some], [found[i][0].tokens for i in some])
    done = {i for i, each in zip(some, aligned, strict=True) if in_place(found[i][0].tokens, parts[i], each)}
    others = [i for i in range(len(parts)) if i not in done]
    put = placed([parts[i] for i in others], search, align, parts_of_words)
    found.update({i: each for i, each in zip(others, put, strict=True) if each})
    rest = [i for i, part in enumerate(parts) if i not in found and few(part)]
    found.update(zip(rest, search([parts[i].request for i in rest]), strict=True))
    return [found.get(i, []) for i in range(len(parts))]


def placed(parts: Sequence[Part], search: Search, align: Align, parts_of_words: Words) -> list[list[Hypothesis]]:
    """The hypotheses that have the terms, forced where they belong; none for a part where that did not succeed.

    A translation without the terms is cut where the first word begins that is aligned with the source of a missing
    term, the leftmost first; it is continued with the term, and freely after that; and so on with the next, until
    there were `ONE_BY_ONE` searches. Where the term is followed by the very word in whose place it stands, that word
    is left out. Terms of more than `FEW` pieces that have no room where they belong begin the translation.
    """
    found: list[list[Hypothesis]] = [[] for _ in parts]
    attempts = {i: [Attempt(part.request.prefix)] for i, part in enumerate(parts)}
    turn = 0
    while tried := best(parts, attempts, search):
        turn, attempts = turn + 1, {}
        for i, (attempt, hypotheses) in tried.items():
            terms = parts[i].request.terms
            if turn < ONE_BY_ONE and (shorter := without_replaced(hypotheses[0].tokens, attempt, parts_of_words)):
                attempts[i] = [shorter]
            elif not missing(hypotheses[0].tokens, terms, parts_of_words):
                found[i] = [each for each in hypotheses if not missing(each.tokens, terms, parts_of_words)]
        left = [i for i in tried if i not in attempts and not found[i]]
        if turn <= ONE_BY_ONE:
            aligned = align([parts[i] for i in left], [tried[i][1][0].tokens for i in left])
            for i, each in zip(left, aligned, strict=True):
                at_hand = tried[i][1][0].tokens, tried[i][0], parts[i], each, parts_of_words
                attempts[i] = list(continued(*at_hand)) if turn < ONE_BY_ONE else []
                if not attempts[i] and (turn == ONE_BY_ONE or not few(parts[i])):
                    attempts[i] = [together(*at_hand)]
        elif turn == ONE_BY_ONE + 1:
            attempts |= {i: [first_of_all(parts[i], parts_of_words)] for i in left if not few(parts[i])}
    return found


def best(
    parts: Sequence[Part], attempts: dict[int, list[Attempt]], search: Search
) -> dict[int, tuple[Attempt, list[Hypothesis]]]:
    """For each part the attempt with the best hypothesis, and what it led to."""
    flat = [(i, attempt) for i, some in attempts.items() for attempt in some]
    requests = [replace(parts[i].request, prefix=attempt.prefix, terms=()) for i, attempt in flat]
    found: dict[int, tuple[Attempt, list[Hypothesis]]] = {}
    for (i, attempt), hypotheses in zip(flat, search(requests), strict=True):
        if hypotheses and (i not in found or hypotheses[0].score > found[i][1][0].score):
            found[i] = attempt, hypotheses
    return found


def continued(
    tokens: list[int], attempt: Attempt, part: Part, aligned: Aligned, parts_of_words: Words
) -> Iterator[Attempt]:
    """What to begin with so that the leftmost missing term stands in its place, for each of its spellings."""
    places = [
        (aligned.words[aligned.of_terms[n][0]], n)
        for n in missing(tokens, part.request.terms, parts_of_words)
        if aligned.of_terms[n]
    ]
    if not places:
        return
    word, n = min(places, key=lambda place: (place[0].start, place[1]))
    given = sum(piece >= 0 for piece in attempt.prefix)
    cut = max(word.start, given)
    replaced = () if part.places[n].kept else tuple(tokens[cut : word.stop])
    for spelling in part.request.terms[n]:
        if detached(spelling, parts_of_words):
            edge = (EDGE,) if spelling[-1] == EDGE else ()
            yield Attempt((*tokens[:cut], *pieces(spelling), *edge), replaced)


def few(part: Part) -> bool:
    """Whether its terms are so short that a search for them takes no time to speak of."""
    return sum(max(map(len, term)) for term in part.request.terms) <= FEW


def together(tokens: list[int], attempt: Attempt, part: Part, aligned: Aligned, parts_of_words: Words) -> Attempt:
    """What to begin with so that all missing terms stand in their places.

    One that is aligned with nothing stands behind the one before it in the source.
    """
    given = sum(piece >= 0 for piece in attempt.prefix)
    lacking = missing(tokens, part.request.terms, parts_of_words)
    word = range(given, given)
    places: list[tuple[range, int]] = []
    for n in sorted(lacking, key=lambda n: part.places[n].start):
        word = aligned.words[aligned.of_terms[n][0]] if aligned.of_terms[n] else range(word.start, word.start)
        places.append((word, n))
    prefix, done = list(tokens[:given]), given
    for word, n in sorted(places, key=lambda place: place[0].start):
        prefix += [*tokens[done : word.start], *written_anywhere(part.request.terms[n], parts_of_words)]
        done = max(done, word.start if part.places[n].kept else word.stop)
    return Attempt(last_edge_only(prefix))


def first_of_all(part: Part, parts_of_words: Words) -> Attempt:
    """To begin with all terms, in the order of their sources: they have room there if they have it anywhere."""
    order = sorted(range(len(part.places)), key=lambda n: part.places[n].start)
    terms = [piece for n in order for piece in written_anywhere(part.request.terms[n], parts_of_words)]
    return Attempt(last_edge_only([*part.request.prefix, *terms]))


def written_anywhere(term: Term, parts_of_words: Words) -> Spelling:
    """The shortest spelling of a term that may stand behind any piece, without an edge before it."""
    shortest = min((each for each in term if detached(each, parts_of_words)), key=lambda each: len(pieces(each)))
    return (*pieces(shortest), *[EDGE] * (shortest[-1] == EDGE))


def last_edge_only(prefix: Sequence[int]) -> tuple[int, ...]:
    """A prefix that says of its end only what may follow: what stands within it is given."""
    return (*(piece for piece in prefix[:-1] if piece >= 0), *prefix[-1:])


def without_replaced(tokens: list[int], attempt: Attempt, parts_of_words: Words) -> Attempt | None:
    """The beginning up to what follows the word a term replaces, if that word stands right behind it all the same."""
    given = tuple(piece for piece in attempt.prefix if piece >= 0)
    behind = tokens[len(given) :]
    same = takewhile(
        lambda pair: pair[0] == pair[1] and pair[0] in parts_of_words.open, zip(behind, attempt.replaced, strict=False)
    )
    size = len([*same])
    if not 0 < size < len(behind) or behind[size] in parts_of_words.going_on:
        return None
    return Attempt((*given, behind[size]))


def missing(tokens: Sequence[int], terms: Sequence[Term], parts_of_words: Words) -> list[int]:
    """The numbers of the terms that a text lacks."""
    numbers = [n for n, term in enumerate(terms) if standing(tokens, term)]
    # Mostly all that stand somewhere are there; only where two may share pieces are they counted one by one.
    if pieces_needed(tokens, [terms[n] for n in numbers], parts_of_words) > len(tokens):
        there: list[int] = []
        for n in numbers:
            if pieces_needed(tokens, [terms[k] for k in (*there, n)], parts_of_words) == len(tokens):
                there.append(n)
        numbers = there
    return [n for n in range(len(terms)) if n not in numbers]


def in_place(tokens: list[int], part: Part, aligned: Aligned) -> bool:
    """Whether each term stands where its source is aligned to, and no other such word right behind it."""
    for term, numbers in zip(part.request.terms, aligned.of_terms, strict=True):
        words_there = [
            {n for n, word in enumerate(aligned.words) if word.start < place.stop and place.start < word.stop}
            for place in standing(tokens, term)
        ]
        if not any(some & {*numbers} and max(some) + 1 not in numbers for some in words_there):
            return False
    return True


def standing(tokens: Sequence[int], term: Term) -> list[range]:
    """Where the pieces of a term stand."""
    return [
        range(i, i + len(some))
        for some in map(pieces, term)
        for i in range(len(tokens))
        if tuple(tokens[i : i + len(some)]) == some
    ]


def aligned(
    model: Transformer, tokenizer: Tokenizer, parts: Sequence[Part], targets: Sequence[list[int]]
) -> list[Aligned]:
    """The words of each translation, and which of them its terms are aligned with, from one pass over all."""
    found = []
    ended = [[*target, EOS][: model.config.max_positions] for target in targets]  # what was cut has no end mark
    norms = piece_alignments(model, [part.request.source for part in parts], ended)
    for part, target, norm in zip(parts, targets, norms, strict=True):
        text, of_terms = cut_at_terms(part)
        read = bare_words(tokenizer.source_pieces(without_end(part.request.source)), text)
        written = tokenizer.target_pieces(target), tokenizer.decode_target(target)
        pairs = links(norm, read, bare_words(*written))
        found.append(Aligned(words(*written), [sorted({j for i, j in pairs if i in numbers}) for numbers in of_terms]))
    return found


def cut_at_terms(part: Part) -> tuple[str, list[range]]:
    """The text with a space at either end of each term, and the numbers of the words of each term in it."""
    text = same_text(part.marked.text)
    cuts = sorted({0, len(text), *(at for place in part.places for at in (place.start, place.end))})
    between = {start: text[start:end] for start, end in pairwise(cuts)}

    def words_before(at: int) -> int:
        return sum(len(each.split()) for start, each in between.items() if start < at)

    return " ".join(between.values()), [range(words_before(each.start), words_before(each.end)) for each in part.places]
