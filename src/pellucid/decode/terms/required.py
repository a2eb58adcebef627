"""Tracks, token by token, which of the terms that a translation must have a text already contains."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter, le, mul

from pellucid.decode.terms.word_edges import EDGE, WordEdges

Spelling = tuple[int, ...]
Term = tuple[Spelling, ...]
Reading = tuple[tuple[int, ...], Spelling]
"""One way to read a text: how often each term is still to come, and the tokens that the term begun last lacks."""
Readings = frozenset[Reading]

# Terms that share spellings or tokens have a reading for every way to share them out: exponentially many.
MOST_READINGS = 64
"""Readings of a text that are followed; without the others a term may be found too late, but never where it is not."""


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
        self.first_pieces = [{_first_piece(spelling) for spelling in term} for term in self.terms]
        """Tokens that begin each term."""
        # A step looks only at what its token begins, not at all terms.
        self.beginnings: dict[int | None, list[tuple[int, Spelling]]] = defaultdict(list)
        """Spellings that a token begins, each with the index of its term."""
        for i, term in enumerate(self.terms):
            for spelling in term:
                self.beginnings[_first_piece(spelling)].append((i, spelling))

    def usable_lengths(self, term: Term) -> list[int]:
        """Return the lengths of the spellings that can follow any token."""
        lengths = [len(without_edges(spelling)) for spelling in term if can_follow_any_piece(spelling, self.words)]
        assert lengths, f"no spelling of a term can follow any piece: {term}"
        return lengths

    def pieces_lacking(self, readings: Readings) -> int:
        """Return the least number of tokens until every term is there."""
        return min(map(self.pieces_lacking_by, readings))

    def pieces_lacking_by(self, reading: Reading) -> int:
        """Return the least number of tokens until every term is there, where the text is read in this way."""
        counts, unfinished = reading
        return len(without_edges(unfinished)) + sum(map(mul, counts, self.shortest))

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
        return self.keep_readings(
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
        for i, spelling in self.beginnings.get(piece, ()):
            has_edge = spelling[0] == EDGE
            if counts[i] and not (has_edge and open_ and piece in self.words.without_space_mark):
                yield _count_down(counts, i), spelling[has_edge + 1 :]

    def keep_readings(self, readings: Iterable[Reading]) -> Readings:
        """Return the readings that no other makes needless, the best `MOST_READINGS` of them if there are more."""
        kept = _drop_needless_readings(readings)
        if len(kept) <= MOST_READINGS:
            return kept

        def rank_reading(reading: Reading) -> tuple[int, int, Reading]:
            # The one that lacks least stays: a search counts on it that each token of a term leaves one less to come.
            # Of equal ones, those that can go on in more ways: what they lack has more spellings.
            return self.pieces_lacking_by(reading), -sum(map(mul, reading[0], map(len, self.terms))), reading

        return frozenset(sorted(kept, key=rank_reading)[:MOST_READINGS])

    def next_pieces(self, readings: Readings) -> set[int]:
        """Return the tokens that begin a term or continue one."""
        tokens = set()
        for counts, unfinished in readings:
            if unfinished and unfinished[0] != EDGE:
                tokens.add(unfinished[0])
            else:
                tokens.update(*(pieces for count, pieces in zip(counts, self.first_pieces, strict=True) if count))
        return tokens


def _count_down(counts: tuple[int, ...], i: int) -> tuple[int, ...]:
    """Return how often each term is still to come after one more of the term with this index."""
    return (*counts[:i], counts[i] - 1, *counts[i + 1 :])


def can_follow_any_piece(spelling: Spelling, words: WordEdges) -> bool:
    """Return whether a spelling may stand right behind any token, and touches no letter there."""
    return _first_piece(spelling) not in (words.without_space_mark if spelling[0] == EDGE else words.begins_with_letter)


def _first_piece(spelling: Spelling) -> int:
    """Return the first token of a spelling, which stands behind the EDGE if there is one."""
    return spelling[spelling[0] == EDGE]


def without_edges(spelling: Spelling) -> Spelling:
    """Return the tokens of a spelling, without its edges."""
    return tuple(piece for piece in spelling if piece != EDGE)


def _drop_needless_readings(readings: Iterable[Reading]) -> Readings:
    """Return the readings that no other reading makes needless."""
    distinct = frozenset(readings)
    if len(distinct) < 2:
        return distinct
    # Another makes one needless that has as few of every term to come, and is in the middle of none or of the same: it
    # has the same terms to come, or fewer in all.
    kept: dict[Spelling, list[tuple[int, ...]]] = defaultdict(list)
    by_total = sorted((sum(counts), counts, unfinished) for counts, unfinished in distinct)
    for _, equally_many in groupby(by_total, key=itemgetter(0)):
        needed = [
            (counts, unfinished)
            for _, counts, unfinished in equally_many
            if not (unfinished and (counts, ()) in distinct)
            and not any(all(map(le, fewer, counts)) for ending in {(), unfinished} for fewer in kept[ending])
        ]
        for counts, unfinished in needed:
            kept[unfinished].append(counts)
    return frozenset((counts, unfinished) for unfinished, rows in kept.items() for counts in rows)


def pieces_needed(prefix: Sequence[int], terms: Sequence[Term], words: WordEdges) -> int:
    """Return the least number of tokens in a translation that begins with the prefix and has the terms."""
    required = RequiredTerms(terms, words)
    readings, before = required.start, None
    for piece in prefix:
        readings, before = required.advance(readings, before, piece), piece
    return len(prefix) + required.pieces_lacking(readings)


def find_spellings(tokens: Sequence[int], spellings: Iterable[Spelling]) -> Iterator[tuple[range, Spelling]]:
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


def missing_terms(tokens: Sequence[int], terms: Sequence[Term], words: WordEdges) -> list[int]:
    """Return the indices of the terms that a text lacks; where several need the same tokens, those that come last."""
    required = RequiredTerms(terms, words)
    terms_spelled: dict[Spelling, list[int]] = defaultdict(list)
    for i, term in enumerate(required.terms):
        for spelling in term:
            terms_spelled[spelling].append(i)
    spans_from: dict[int, list[tuple[range, Spelling]]] = defaultdict(list)
    for span, spelling in find_spellings(tokens, terms_spelled):
        if not _touches_letter(tokens, span, spelling, words):
            spans_from[span.start].append((span, spelling))
    # All of the text is known, so a reading takes each term as a whole, and is never in the middle of one.
    readings_at: list[set[Reading]] = [{*required.start}, *(set() for _ in tokens)]
    for start in range(len(tokens)):
        readings = required.keep_readings(readings_at[start])
        readings_at[start + 1] |= readings
        for span, spelling in spans_from[start]:
            readings_at[span.stop] |= {
                (_count_down(counts, i), ()) for counts, _ in readings for i in terms_spelled[spelling] if counts[i]
            }
    # Of equal terms, the first are those that stand in the text.
    [(totals, _)] = required.start
    indices = {term: i for i, term in enumerate(required.terms)}
    ranks: list[tuple[int, int]] = []
    earlier = Counter[int]()
    for i in (indices[term] for term in terms):
        ranks.append((i, earlier[i]))
        earlier[i] += 1
    is_missing = min(
        [rank >= totals[i] - counts[i] for i, rank in ranks] for counts, _ in required.keep_readings(readings_at[-1])
    )
    return [n for n, missing in enumerate(is_missing) if missing]


def _touches_letter(tokens: Sequence[int], span: range, spelling: Spelling, words: WordEdges) -> bool:
    """Return whether a letter or digit touches the edge of a spelling that stands in a text."""
    before, after = tokens[max(0, span.start - 1) : span.start], tokens[span.stop : span.stop + 1]
    return (
        spelling[0] == EDGE
        and tokens[span.start] in words.without_space_mark
        and any(piece in words.ends_in_letter for piece in before)
    ) or (spelling[-1] == EDGE and any(piece in words.begins_with_letter for piece in after))


def explain_no_room(prefix: Sequence[int], terms: Sequence[Term], limit: int, words: WordEdges) -> str:
    """Return why terms do not fit into a translation of at most `limit` tokens; an empty text where they do."""
    needed = pieces_needed(prefix, terms, words)
    if needed <= limit:
        return ""
    behind = " after its prefix" if prefix else ""
    return (
        f"its {len(terms)} terms{behind} take {needed} pieces, it may have {limit}; raise max_extra or split the line"
    )
