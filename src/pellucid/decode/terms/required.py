"""Tracks, token by token, which of the terms that a translation must have a text already contains."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pellucid.decode.terms.word_edges import EDGE, WordEdges

Spelling = tuple[int, ...]
Term = tuple[Spelling, ...]
Reading = tuple[tuple[int, ...], Spelling]
"""One way to read a text: how often each term is still to come, and the tokens that the term begun last lacks."""
Readings = frozenset[Reading]


class RequiredTerms:
    """The terms of one sentence; a text has them when each stands in it, in one of its spellings, without overlap.

    A term given twice must stand there twice, and one that is part of another must stand there beside it. Where a
    spelling has an EDGE, first or last, no letter or digit may touch it. Each term needs a spelling that can follow
    whatever was written.
    """

    def __init__(self, terms: Sequence[Term], words: WordEdges):
        # A text may be read in several ways: what has begun may be a term, or a longer one, or neither. All readings
        # that no other makes needless are kept, so no term is found too late.
        counts = Counter(terms)
        self.words = words
        self.terms = tuple(counts)
        self.start: Readings = frozenset([(tuple(counts.values()), ())])
        self.shortest = tuple(min(self.usable_lengths(term)) for term in self.terms)

    def usable_lengths(self, term: Term) -> list[int]:
        """Return the lengths of the spellings that can follow any token."""
        lengths = [len(without_edges(spelling)) for spelling in term if can_follow_any_piece(spelling, self.words)]
        assert lengths, f"no spelling of a term can follow any piece: {term}"
        return lengths

    def pieces_lacking(self, readings: Readings) -> int:
        """Return the least number of tokens until every term is there."""
        return min(
            len(without_edges(unfinished))
            + sum(times * length for times, length in zip(counts, self.shortest, strict=True))
            for counts, unfinished in readings
        )

    def advance(self, readings: Readings, before: int | None, piece: int) -> Readings:
        """Return the readings of a text after one more token; `before` is the last token so far, if any."""
        return self.advance_by_kind(
            readings, before in self.words.ends_in_letter, piece, piece in self.words.begins_with_letter
        )

    def advance_by_kind(self, readings: Readings, open_: bool, piece: int | None, going_on: bool) -> Readings:
        """Return the readings after one more token, where of both tokens only the kind is known.

        `open_` says that the last token ended in a letter or digit, `going_on` that the new one begins with one. None
        is any token that is not among the `next_pieces`.
        """
        return drop_needless_readings(
            {new for reading in readings for new in self.next_readings(reading, open_, piece, going_on)}
        )

    def next_readings(self, reading: Reading, open_: bool, piece: int | None, going_on: bool) -> Iterator[Reading]:
        """Yield every reading that one reading may become."""
        counts, unfinished = reading
        if unfinished == (EDGE,):
            # A letter right behind the term makes it part of a longer word: this reading leads nowhere.
            if going_on:
                return
            unfinished = ()
        if unfinished:
            if unfinished[0] == piece:
                yield counts, unfinished[1:]
            return
        # The token may belong to no term, even where it could begin one.
        yield counts, ()
        for fewer_counts, spelling in self.begin_terms(counts):
            has_edge = spelling[0] == EDGE
            if spelling[has_edge] == piece and not (has_edge and open_ and piece in self.words.without_space_mark):
                yield fewer_counts, spelling[has_edge + 1 :]

    def begin_terms(self, counts: tuple[int, ...]) -> Iterator[Reading]:
        """Yield every spelling of every term still to come, with the counts of terms that would then be left."""
        for i, term in enumerate(self.terms):
            if counts[i]:
                fewer_counts = (*counts[:i], counts[i] - 1, *counts[i + 1 :])
                yield from ((fewer_counts, spelling) for spelling in term)

    def next_pieces(self, readings: Readings) -> set[int]:
        """Return the tokens that begin a term or continue one."""
        tokens = set()
        for counts, unfinished in readings:
            if unfinished and unfinished[0] != EDGE:
                tokens.add(unfinished[0])
            else:
                # True is 1: the first token stands behind the EDGE, if there is one.
                tokens |= {spelling[spelling[0] == EDGE] for _, spelling in self.begin_terms(counts)}
        return tokens


def can_follow_any_piece(spelling: Spelling, words: WordEdges) -> bool:
    """Return whether a spelling may stand right behind any token, and touches no letter there."""
    return without_edges(spelling)[0] not in (
        words.without_space_mark if spelling[0] == EDGE else words.begins_with_letter
    )


def without_edges(spelling: Spelling) -> Spelling:
    """Return the tokens of a spelling, without its edges."""
    return tuple(piece for piece in spelling if piece != EDGE)


def drop_needless_readings(readings: Iterable[Reading]) -> Readings:
    """Return the readings that no other reading makes needless."""
    # Another makes one needless that has as few of every term to come, and is in the middle of none or of the same.
    distinct = set(readings)
    return frozenset(
        reading
        for reading in distinct
        if not any(
            other != reading
            and other[1] in ((), reading[1])
            and all(a <= b for a, b in zip(other[0], reading[0], strict=True))
            for other in distinct
        )
    )


def pieces_needed(prefix: Sequence[int], terms: Sequence[Term], words: WordEdges) -> int:
    """Return the least number of tokens in a translation that begins with the prefix and has the terms."""
    required = RequiredTerms(terms, words)
    readings, before = required.start, None
    for piece in prefix:
        readings, before = required.advance(readings, before, piece), piece
    return len(prefix) + required.pieces_lacking(readings)


def explain_no_room(prefix: Sequence[int], terms: Sequence[Term], limit: int, words: WordEdges) -> str:
    """Return why terms do not fit into a translation of at most `limit` tokens; an empty text where they do."""
    needed = pieces_needed(prefix, terms, words)
    if needed <= limit:
        return ""
    behind = " after its prefix" if prefix else ""
    return (
        f"its {len(terms)} terms{behind} take {needed} pieces, it may have {limit}; raise max_extra or split the line"
    )
