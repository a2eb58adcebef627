"""The terms a translation must have, and how far a text has come with them, piece by piece."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pellucid.decode.word_edges import EDGE, WordEdges

Spelling = tuple[int, ...]
Term = tuple[Spelling, ...]
Reading = tuple[tuple[int, ...], Spelling]
"""One way to read a text: how often each term is still to come, and what the term begun last still lacks."""
Readings = frozenset[Reading]


class RequiredTerms:
    """The terms of one sentence. A text has them when each stands at a place of its own in one of its spellings.

    No two places overlap: a term given twice must stand there twice, and one that is part of another must stand there
    beside it. Where a spelling has an EDGE, first or last, no letter or digit may touch it. Each term needs a spelling
    that can follow whatever was written.

    A text may be read in several ways: what has begun may be a term, or a longer one, or neither. All readings that no
    other makes needless are kept, so nothing is found too late.
    """

    def __init__(self, terms: Sequence[Term], words: WordEdges):
        counts = Counter(terms)
        self.words = words
        self.terms = tuple(counts)
        self.start: Readings = frozenset([(tuple(counts.values()), ())])
        self.shortest = tuple(min(self.usable_lengths(term)) for term in self.terms)

    def usable_lengths(self, term: Term) -> list[int]:
        """The lengths of the spellings that can follow anything."""
        lengths = [len(without_edges(each)) for each in term if can_follow_any_piece(each, self.words)]
        assert lengths, f"no spelling of a term can follow any piece: {term}"
        return lengths

    def pieces_lacking(self, readings: Readings) -> int:
        """How many pieces it takes, at least, until every term is there."""
        return min(
            len(without_edges(rest)) + sum(times * length for times, length in zip(left, self.shortest, strict=True))
            for left, rest in readings
        )

    def advance(self, readings: Readings, before: int | None, piece: int) -> Readings:
        """How the text can be read when one more piece is written; `before` is the last piece so far, if any."""
        return self.advance_by_kind(
            readings, before in self.words.ends_in_letter, piece, piece in self.words.begins_with_letter
        )

    def advance_by_kind(self, readings: Readings, open_: bool, piece: int | None, going_on: bool) -> Readings:
        """The same, by what is to be known of the pieces: `open_` says that the last one ended in a letter or digit.

        None is any piece that is not among the `next_pieces`.
        """
        return drop_needless_readings(
            {new for each in readings for new in self.next_readings(each, open_, piece, going_on)}
        )

    def next_readings(self, reading: Reading, open_: bool, piece: int | None, going_on: bool) -> Iterator[Reading]:
        """What one reading may become."""
        left, rest = reading
        if rest == (EDGE,):
            if going_on:
                return
            rest = ()
        if rest:
            if rest[0] == piece:
                yield left, rest[1:]
            return
        yield left, ()
        for fewer, spelling in self.begin_terms(left):
            edged = spelling[0] == EDGE
            if spelling[edged] == piece and not (edged and open_ and piece in self.words.without_space_mark):
                yield fewer, spelling[edged + 1 :]

    def begin_terms(self, left: tuple[int, ...]) -> Iterator[Reading]:
        """Every spelling of every term still to come, and what would then be left."""
        for i, term in enumerate(self.terms):
            if left[i]:
                fewer = (*left[:i], left[i] - 1, *left[i + 1 :])
                yield from ((fewer, spelling) for spelling in term)

    def next_pieces(self, readings: Readings) -> set[int]:
        """The pieces that begin a term or go on with one."""
        found = set()
        for left, rest in readings:
            if rest and rest[0] != EDGE:
                found.add(rest[0])
            else:
                found |= {spelling[spelling[0] == EDGE] for _, spelling in self.begin_terms(left)}
        return found


def can_follow_any_piece(spelling: Spelling, words: WordEdges) -> bool:
    """Whether it may stand right behind any piece, and touches no letter there."""
    return without_edges(spelling)[0] not in (
        words.without_space_mark if spelling[0] == EDGE else words.begins_with_letter
    )


def without_edges(spelling: Spelling) -> Spelling:
    """A spelling without its edges."""
    return tuple(piece for piece in spelling if piece != EDGE)


def drop_needless_readings(readings: Iterable[Reading]) -> Readings:
    """Those that no other makes needless: one with as few terms to come, and in the middle of none or of the same."""
    some = set(readings)
    return frozenset(
        each
        for each in some
        if not any(
            other != each and other[1] in ((), each[1]) and all(a <= b for a, b in zip(other[0], each[0], strict=True))
            for other in some
        )
    )


def pieces_needed(prefix: Sequence[int], terms: Sequence[Term], words: WordEdges) -> int:
    """How many pieces a translation takes, at least, that begins with the prefix and has the terms."""
    required = RequiredTerms(terms, words)
    readings, before = required.start, None
    for piece in prefix:
        readings, before = required.advance(readings, before, piece), piece
    return len(prefix) + required.pieces_lacking(readings)


def explain_no_room(prefix: Sequence[int], terms: Sequence[Term], limit: int, words: WordEdges) -> str:
    """What to say where terms do not fit into a translation of at most `limit` pieces; nothing where they do."""
    needs = pieces_needed(prefix, terms, words)
    if needs <= limit:
        return ""
    behind = " after its prefix" if prefix else ""
    return f"its {len(terms)} terms{behind} take {needs} pieces, it may have {limit}; raise max_extra or split the line"
