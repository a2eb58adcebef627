"""Finds which of the terms that a translation must have stand in a text, and what the others take."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import le, mul

from pellucid.decode.terms.word_edges import EDGE, WordEdges

Spelling = tuple[int, ...]
Term = tuple[Spelling, ...]
"""Spellings of a term, as token ids; where one has an EDGE, first or last, no letter or digit may touch it."""

_Counts = tuple[int, ...]
"""How often each distinct term is still to come."""

# Terms that share spellings or tokens have a count for every way to share them out: exponentially many.
_MOST_COUNTS = 64
"""Ways to share the tokens of a text that are followed; without the others a term may be taken for missing."""


def missing_terms(tokens: Sequence[int], terms: Sequence[Term], words: WordEdges) -> list[int]:
    """Return the indices of the terms that a text lacks; where several need the same tokens, those that come last.

    A text has terms when each stands in it, in one of its spellings, without overlap: a term given twice must stand
    there twice, and one that is part of another must stand there beside it.
    """
    totals = Counter(terms)
    distinct, shortest = list(totals), [len(without_edges(shortest_spelling(term, words))) for term in totals]
    terms_spelled: dict[Spelling, list[int]] = defaultdict(list)
    for i, term in enumerate(distinct):
        for spelling in term:
            terms_spelled[spelling].append(i)
    spans_from: dict[int, list[tuple[range, Spelling]]] = defaultdict(list)
    for span, spelling in _find_spellings(tokens, terms_spelled):
        if not _touches_letter(tokens, span, spelling, words):
            spans_from[span.start].append((span, spelling))

    def rank_counts(counts: _Counts) -> tuple[int, int, _Counts]:
        # The one that lacks the fewest tokens; of equal ones, the one whose missing terms have the most spellings.
        return sum(map(mul, counts, shortest)), -sum(map(mul, counts, map(len, distinct))), counts

    # At each position, what may still be to come there: a span may be the term that it spells, or not.
    counts_at: list[set[_Counts]] = [{tuple(totals.values())}, *(set() for _ in tokens)]
    for start in range(len(tokens)):
        useful = sorted(_drop_needless(counts_at[start]), key=rank_counts)[:_MOST_COUNTS]
        counts_at[start + 1].update(useful)
        for span, spelling in spans_from[start]:
            counts_at[span.stop] |= {
                (*counts[:i], counts[i] - 1, *counts[i + 1 :])
                for counts in useful
                for i in terms_spelled[spelling]
                if counts[i]
            }
    # Of equal terms, the first are those that stand in the text.
    indices = {term: i for i, term in enumerate(distinct)}
    ranks: list[tuple[int, int]] = []
    earlier = Counter[int]()
    for i in (indices[term] for term in terms):
        ranks.append((i, earlier[i]))
        earlier[i] += 1
    total = list(totals.values())
    is_missing = min([rank >= total[i] - counts[i] for i, rank in ranks] for counts in _drop_needless(counts_at[-1]))
    return [n for n, missing in enumerate(is_missing) if missing]


def _drop_needless(ways: Iterable[_Counts]) -> list[_Counts]:
    """Return the counts that no other makes needless, which has as few of every term still to come."""
    kept: list[_Counts] = []
    # By their sums: only one of fewer terms can make another needless.
    for counts in sorted(ways, key=lambda counts: (sum(counts), counts)):
        if not any(all(map(le, fewer, counts)) for fewer in kept):
            kept.append(counts)
    return kept


def _touches_letter(tokens: Sequence[int], span: range, spelling: Spelling, words: WordEdges) -> bool:
    """Return whether a letter or digit touches the edge of a spelling that stands in a text."""
    before, after = tokens[max(0, span.start - 1) : span.start], tokens[span.stop : span.stop + 1]
    return (
        spelling[0] == EDGE
        and tokens[span.start] in words.without_space_mark
        and any(piece in words.ends_in_letter for piece in before)
    ) or (spelling[-1] == EDGE and any(piece in words.begins_with_letter for piece in after))


def _find_spellings(tokens: Sequence[int], spellings: Iterable[Spelling]) -> Iterator[tuple[range, Spelling]]:
    """Yield each spelling that stands in a text with the range of its tokens, in order, whatever touches it."""
    # The text is cut only where a spelling may begin, and only to lengths that such spellings have.
    lengths: dict[int, set[int]] = defaultdict(set)
    by_tokens: dict[Spelling, list[Spelling]] = defaultdict(list)
    for spelling in dict.fromkeys(spellings):
        plain = without_edges(spelling)
        lengths[plain[0]].add(len(plain))
        by_tokens[plain].append(spelling)
    text = tuple(tokens)
    for start, piece in enumerate(text):
        for length in lengths.get(piece, ()):
            span = text[start : start + length]  # shorter at the end of the text
            for spelling in by_tokens.get(span, ()) if len(span) == length else ():
                yield range(start, start + length), spelling


def can_follow_any_piece(spelling: Spelling, words: WordEdges) -> bool:
    """Return whether a spelling may stand right behind any token, and touches no letter there."""
    first = spelling[spelling[0] == EDGE]
    return first not in (words.without_space_mark if spelling[0] == EDGE else words.begins_with_letter)


def without_edges(spelling: Spelling) -> Spelling:
    """Return the tokens of a spelling, without its edges."""
    return tuple(piece for piece in spelling if piece != EDGE)


def shortest_spelling(term: Term, words: WordEdges) -> Spelling:
    """Return the spelling of a term that has the fewest tokens, of those that can follow whatever was written."""
    spellings = [spelling for spelling in term if can_follow_any_piece(spelling, words)]
    assert spellings, f"no spelling of a term can follow any piece: {term}"
    return min(spellings, key=lambda spelling: len(without_edges(spelling)))


def explain_no_room(prefix: Sequence[int], terms: Sequence[Term], limit: int, words: WordEdges) -> str:
    """Return why terms do not fit into a translation of at most `limit` tokens; an empty text where they do."""
    needed = pieces_needed(prefix, terms, words)
    if needed <= limit:
        return ""
    behind = " after its prefix" if prefix else ""
    return (
        f"its {len(terms)} terms{behind} take {needed} pieces, it may have {limit}; raise max_extra or split the line"
    )


def pieces_needed(prefix: Sequence[int], terms: Sequence[Term], words: WordEdges) -> int:
    """Return the least number of tokens in a translation that begins with the prefix and has the terms behind it."""
    missing = missing_terms([piece for piece in prefix if piece >= 0], terms, words)
    return len(prefix) + sum(len(without_edges(shortest_spelling(terms[n], words))) for n in missing)
