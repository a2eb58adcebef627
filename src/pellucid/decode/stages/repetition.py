"""Searches again where a translation repeats itself, as one does that found no way out of a loop, or is empty."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pellucid.data.text.sentences import sentence_ends
from pellucid.decode.line_segments import Search, SearchResult, Segment

LONGEST_BLOCK = 16  # tokens of the longest block that is looked for
# People write "ha ha ha" and "......": fewer repetitions, or shorter ones, are no fault.
TIMES = 4  # least number of times a block stands in a row
FEWEST = 8  # least number of tokens that the repetitions fill
# Two characters that come again soon are asked for first: at most places of a text there are none.
_REPEATED_CHARACTERS = re.compile(
    rf"(?=(.{{2}}).{{0,{LONGEST_BLOCK - 2}}}\1)(.{{2,{LONGEST_BLOCK}}}?)\2{{{TIMES - 1}}}",
    re.DOTALL,
)
_MARKS = ".,;:!?…。，、！？؟،।\"'»”“’)"  # what may stand after a word
_LONG_PHRASE = 3  # words of a phrase inside which a mark may stand
NO_REPEAT_NGRAM = 4  # no sequence of so many tokens may stand twice in the second search
EMPTIED = "the likeliest translation was empty; this is the likeliest one that is not"


@dataclass(frozen=True)
class SearchAgain:
    """The stage that searches again, under a rule, where a translation repeats itself or is empty.

    A model that has seen whole sentences alone may give a single word, such as a cell of a table,
    no translation. Nothing that a user wrote shall vanish so.
    """

    if_repeated: bool
    if_empty: bool

    def __call__(self, segments: list[Segment], search: Search) -> list[SearchResult]:
        results = self.fill_empty(segments, search(segments), search)
        if not self.if_repeated:
            return results

        repeated = [i for i, segment in enumerate(segments) if _is_caught_in_loop(segment, results[i])]
        if not repeated:
            return results

        under_rule = _ask_again(segments, repeated, no_repeat=NO_REPEAT_NGRAM)
        searched = self.fill_empty(under_rule, search(under_rule), search)
        note = f"repeated itself; searched again with no {NO_REPEAT_NGRAM} pieces twice"
        for i, again in zip(repeated, searched, strict=True):
            # Terms and prefixes may repeat themselves although the rule forbids it, so the second
            # search can fail too; an alarm tells of that.
            if again.hypotheses and not has_repetition(again.hypotheses[0].tokens):
                results[i] = replace(again, notes=(note,))
        return results

    def fill_empty(
        self, segments: Sequence[Segment], results: list[SearchResult], search: Search
    ) -> list[SearchResult]:
        """Return results in which those without a single piece are searched for once more."""
        empty = []
        for i, result in enumerate(results):
            if self.if_empty and result.hypotheses and not result.hypotheses[0].tokens:
                empty.append(i)
        if not empty:
            return results

        filled = list(results)
        for i, again in zip(empty, search(_ask_again(segments, empty, not_empty=True)), strict=True):
            if again.hypotheses:
                filled[i] = replace(again, notes=(EMPTIED,))
        return filled


def _ask_again(segments: Sequence[Segment], chosen: Iterable[int], **rule: Any) -> list[Segment]:
    """Return the chosen segments with requests that have one more rule."""
    under_rule = []
    for i in chosen:
        request = replace(segments[i].request, **rule)
        under_rule.append(replace(segments[i], request=request))
    return under_rule


def _is_caught_in_loop(segment: Segment, result: SearchResult) -> bool:
    """Return whether the best hypothesis repeats itself, and its source does not."""
    if not result.hypotheses or not has_repetition(result.hypotheses[0].tokens):
        return False
    return not has_repetition(segment.request.source)


def has_repetition(tokens: Sequence[int]) -> bool:
    """Return whether a block of 1 to 16 tokens stands 4 times in a row or more and fills 8 tokens at least.

    Check the source too: where it repeats itself, its translation may do so.

    >>> (has_repetition([5, *[7, 9] * 4, 6]), has_repetition([5, *[7, 9] * 3, 6]), has_repetition([7] * 8),
    ...  has_repetition([7] * 7))
    (True, False, True, False)
    """
    # What is counted repeats six tokens at least, so sentences with fewer repeated ones are done
    # here, and most are.
    if len(tokens) - len(set(tokens)) < FEWEST - FEWEST // TIMES:
        return False

    for size in range(1, LONGEST_BLOCK + 1):
        needed = max(TIMES * size, FEWEST) - size
        run = 0  # tokens in a row that equal the one a block before them
        for earlier, token in zip(tokens, tokens[size:], strict=False):
            run = run + 1 if earlier == token else 0
            if run == needed:
                return True
    return False


def has_repeated_characters(text: str) -> bool:
    """Return whether up to 16 characters stand 4 times in a row or more and fill 8 characters at least.

    >>> has_repeated_characters("Ein Jonononononon"), has_repeated_characters("Hahaha...")
    (True, False)
    """
    return _REPEATED_CHARACTERS.search(text) is not None


def has_doubled_phrase(text: str) -> bool:
    """Return whether two words or more stand twice in a row in a text, or one word three times.

    A mark between them makes it none, nor may one stand inside a phrase of two words: people write
    "books, books, books" and "he did, he did".

    >>> has_doubled_phrase("bebió la leche la leche."), has_doubled_phrase("er lief lief lief weg")
    (True, True)
    >>> has_doubled_phrase("die die Milch mögen"), has_doubled_phrase("Very, very, very good.")
    (False, False)
    """
    tokens = text.casefold().split()
    words = [token.rstrip(_MARKS) for token in tokens]
    if len(words) - len(set(words)) < 2:
        return False

    # How far each word stands from where it stood last: a doubled phrase is as long as one of these
    # distances.
    last, distances = dict[str, int](), set[int]()
    for position, word in enumerate(words):
        if word in last:
            distances.add(position - last[word])
        last[word] = position

    for distance in distances:
        run = 0  # words in a row that equal the one a distance before them
        for earlier, token, word in zip(words, tokens, words[distance:], strict=False):
            is_marked = token != earlier
            is_break = earlier != word or (is_marked and distance < _LONG_PHRASE)
            run = 0 if is_break else run + 1
            # `earlier` ends the phrase as it stands first.
            if run >= max(2, distance) and not is_marked:
                return True
    return False


def has_doubled_sentence(text: str) -> bool:
    """Return whether a sentence stands twice in a row.

    >>> has_doubled_sentence("Er geht. Er geht."), has_doubled_sentence("Er geht. Sie geht.")
    (True, False)
    """
    ends = [0, *sentence_ends(text, 0, len(text))]
    sentences = [text[start:end].strip() for start, end in pairwise(ends)]
    return any(a == b for a, b in pairwise(sentences))
