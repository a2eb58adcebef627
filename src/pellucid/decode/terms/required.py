"""Required pieces of a translation: where words end, the terms that a text lacks, and prefixes; without torch."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import le, mul

from pellucid.data.text.word_pieces import is_byte_piece
from pellucid.data.tokenizer import UNK, Tokenizer

# Mark at an end of a term's spelling: no letter or digit may touch it there. It stands for no
# token, and marks are negative, so that no token has the id of one.
EDGE = -1
NEW_WORD = -2  # mark at the end of a prefix: any token that starts a word may follow

_WRITTEN_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # kana and ideographs
)


@dataclass(frozen=True)
class WordEdges:
    """Sets of the tokens of a vocabulary that begin or end within a word.

    By default no token touches another.
    """

    ends_in_letter: frozenset[int] = frozenset()  # tokens that end in a letter or digit
    # Tokens that begin with a letter or digit, without the word-start mark.
    begins_with_letter: frozenset[int] = frozenset()
    # Tokens without the word-start mark: those that continue a word, punctuation, EOS.
    without_space_mark: frozenset[int] = frozenset()

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> "WordEdges":
        """Return the word edges of a tokenizer's target side."""
        pieces = dict(enumerate(map(_piece_character, tokenizer.target_names)))
        return cls(
            frozenset(i for i, piece in pieces.items() if piece and joins_word(piece[-1])),
            frozenset(i for i, piece in pieces.items() if piece and joins_word(piece[0])),
            frozenset(i for i, piece in pieces.items() if not piece.startswith("▁")),
        )


def _piece_character(piece: str) -> str:
    """Return a piece as it is, or the character of a byte piece.

    A byte above 127 counts as part of a letter.

    >>> [_piece_character(piece) for piece in ("▁dog", "<0x2C>", "<0xC3>", "</s>")]
    ['▁dog', ',', 'a', '</s>']
    """
    if not is_byte_piece(piece):
        return piece
    byte = int(piece[3:5], 16)
    # Above 127 it is one byte of a UTF-8 sequence, mostly of a letter with an accent or of another
    # alphabet.
    return chr(byte) if byte < 128 else "a"


def joins_word(character: str) -> bool:
    """Return whether a character forms one word with its neighbours: letters, digits, accents.

    Characters of scripts that are written without spaces do not.

    >>> [joins_word(character) for character in "aß7-犬"]
    [True, True, True, False, False]
    """
    return unicodedata.category(character)[0] in "LNM" and not _WRITTEN_WITHOUT_SPACES.match(character)


def edge_positions(text: str) -> list[int]:
    """Return the positions in a text, from 0 to its length, that are not inside a word.

    >>> edge_positions("a dog!")
    [0, 1, 2, 5, 6]
    """
    inner = (i for i in range(1, len(text)) if not (joins_word(text[i - 1]) and joins_word(text[i])))
    return [0, *inner, len(text)] if text else [0]


Spelling = tuple[int, ...]
# Spellings of a term, as token ids; where one has an EDGE, first or last, no letter or digit may
# touch it.
Term = tuple[Spelling, ...]
_Counts = tuple[int, ...]  # how often each distinct term is still to come
# Ways to share the tokens of a text among the terms that are followed: there are exponentially
# many. Without the others a term may be taken for missing.
_MOST_COUNTS = 64


def missing_terms(tokens: Sequence[int], terms: Sequence[Term], words: WordEdges) -> list[int]:
    """Return the indices of the terms that a text lacks.

    Where several need the same tokens, those that come last are lacking. A text has terms when each
    stands in it, in one of its spellings, without overlap: a term given twice must stand there
    twice, and one that is part of another must stand there beside it.
    """
    totals = Counter(terms)
    distinct = list(totals)
    terms_spelled: dict[Spelling, list[int]] = defaultdict(list)
    for i, term in enumerate(distinct):
        for spelling in term:
            terms_spelled[spelling].append(i)

    spans: list[tuple[range, Spelling]] = []
    for span, spelling in _find_spellings(tokens, terms_spelled):
        if not _touches_letter(tokens, span, spelling, words):
            spans.append((span, spelling))

    is_shared = any(len(terms_spelled[spelling]) > 1 for _, spelling in spans)
    if is_shared or any(later.start < span.stop for (span, _), (later, _) in pairwise(spans)):
        to_come = _share_tokens(len(tokens), spans, totals, terms_spelled, words)
    else:
        # Nothing stands for two terms: each has what spells it.
        counts = list(totals.values())
        for _, spelling in spans:
            i = terms_spelled[spelling][0]
            counts[i] = max(0, counts[i] - 1)
        to_come = [tuple(counts)]

    # Of equal terms, the first are those that stand in the text.
    indices = {term: i for i, term in enumerate(distinct)}
    ranks: list[tuple[int, int]] = []
    earlier = Counter[int]()
    for term in terms:
        i = indices[term]
        ranks.append((i, earlier[i]))
        earlier[i] += 1

    total = list(totals.values())
    ways: list[list[bool]] = []
    for counts in to_come:
        ways.append([rank >= total[i] - counts[i] for i, rank in ranks])
    return [n for n, missing in enumerate(min(ways)) if missing]


def _share_tokens(
    length: int,
    spans: Sequence[tuple[range, Spelling]],
    totals: Mapping[Term, int],
    terms_spelled: Mapping[Spelling, Sequence[int]],
    words: WordEdges,
) -> list[_Counts]:
    """Return the ways to share the tokens of a text among terms that need the same ones.

    Each way is how often each term is still to come behind the text.
    """
    shortest = [len(without_edges(shortest_spelling(term, words))) for term in totals]
    spellings = [len(term) for term in totals]
    spans_from: dict[int, list[tuple[range, Spelling]]] = defaultdict(list)
    for span, spelling in spans:
        spans_from[span.start].append((span, spelling))

    def rank_counts(counts: _Counts) -> tuple[int, int, _Counts]:
        # The one that lacks the fewest tokens; of equal ones, the one whose missing terms have the
        # most spellings.
        return sum(map(mul, counts, shortest)), -sum(map(mul, counts, spellings)), counts

    # At each position, what may still be to come there: a span may be the term that it spells, or
    # not.
    counts_at: list[set[_Counts]] = [{tuple(totals.values())}, *(set() for _ in range(length))]
    for start in range(length):
        useful = sorted(_drop_needless(counts_at[start]), key=rank_counts)[:_MOST_COUNTS]
        counts_at[start + 1].update(useful)

        for span, spelling in spans_from[start]:
            for counts in useful:
                for i in terms_spelled[spelling]:
                    if counts[i]:
                        counts_at[span.stop].add((*counts[:i], counts[i] - 1, *counts[i + 1 :]))

    return _drop_needless(counts_at[-1])


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
    """Yield every spelling that occurs in a text, with its token range, in order, without checking its neighbours."""
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


def without_marks(prefix: Sequence[int]) -> list[int]:
    """Return the tokens that a prefix writes: marks such as EDGE are negative, and write nothing."""
    return [piece for piece in prefix if piece >= 0]


def shortest_spelling(term: Term, words: WordEdges) -> Spelling:
    """Return the spelling with the fewest tokens, among the spellings of a term that can follow any piece."""
    spellings = [spelling for spelling in term if can_follow_any_piece(spelling, words)]
    assert spellings, f"no spelling of a term can follow any piece: {term}"
    return min(spellings, key=lambda spelling: len(without_edges(spelling)))


def explain_no_room(prefix: Sequence[int], terms: Sequence[Term], limit: int, words: WordEdges) -> str:
    """Return why terms do not fit into a translation of at most `limit` tokens.

    The text is empty where they do.
    """
    needed = pieces_needed(prefix, terms, words)
    if needed <= limit:
        return ""
    behind = " after its prefix" if prefix else ""
    return (
        f"its {len(terms)} terms{behind} take {needed} pieces, it may have {limit}; raise max_extra or split the line"
    )


def pieces_needed(prefix: Sequence[int], terms: Sequence[Term], words: WordEdges) -> int:
    """Return the least number of tokens in a translation that begins with the prefix and has the terms behind it."""
    missing = missing_terms(without_marks(prefix), terms, words)
    return len(prefix) + sum(len(without_edges(shortest_spelling(terms[n], words))) for n in missing)


def prefix_pieces(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """Return the tokens that a translation with this beginning starts with; () for a blank text.

    A text that ends in a letter may continue the same word: "Der Hu" with "nd". A space at the end
    says that the word is complete: what follows starts a new one. Spaces are otherwise as the
    tokenizer has them: none in front, and one where there are several. Raises ValueError for a line
    feed, and for a character the model cannot write.
    """
    if "\n" in text:
        raise ValueError(
            f"the prefix {text!r:.60} has a line feed; a translation is one line, so its prefix must be one line too"
        )

    if not text.strip(" "):
        return ()

    [ids] = tokenizer.encode_target([text])
    if UNK in ids:
        raise ValueError(f"the prefix {text!r:.60} has a character this model cannot write")
    # A space at the end is no token of its own, so NEW_WORD stands for it; the last id is EOS.
    return (*ids[:-1], NEW_WORD) if text.endswith(" ") else tuple(ids[:-1])


def refuse_long_prefixes(prefixes: Iterable[tuple[int, tuple[int, ...], int]]) -> None:
    """Raise ValueError if a prefix, given as (line, prefix, limit), has more tokens than its translation may have."""
    too_long = []
    for line, prefix, limit in prefixes:
        if len(prefix) > limit:
            too_long.append(f"line {line} has {len(prefix)}, its translation at most {limit}")
    if too_long:
        # Five lines show the pattern; a file of thousands would fill the screen.
        more = f", and {len(too_long) - 5} more lines" if len(too_long) > 5 else ""
        raise ValueError(
            f"prefixes of too many pieces: {'; '.join(too_long[:5])}{more}; shorten them or raise max_extra"
        )
