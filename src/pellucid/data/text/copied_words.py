"""Counts the words of a text that should have been translated, and stand in the translation as they were."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pellucid.data.text.casing import is_in_capitals, is_in_title_case
from pellucid.data.text.protected import find_protected
from pellucid.data.text.sentences import UNSPACED_LETTER

# What stands around a word and is not of it.
_MARKS = "".join(
    """!"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~¡§«»¿–—‘’‚“”„…‹›、。「」『』（），．：；？！·•"""
)
# After one of these, a capital says nothing about its word.
_SENTENCE_MARKS = tuple('.!?…:;。！？।؟"“„«»(「')
# In a line of capitals, or with a capital on each word, names
# look like other words: "Hotel New York".
_ORDINARY_SHARE = 0.8
_WORDS_OF_CAPITALS = 5


@dataclass(frozen=True)
class CopiedWords:
    """Counts of the words of a source that are to be translated, of all and of the ones found in the translation.

    `is_whole` says that the translation is the source again, but for case and punctuation; `known`
    counts the copied words that the training text had as ordinary words.
    """

    words: float = 0
    copied: float = 0
    known: float = 0
    is_whole: bool = False


_NOTHING_COPIED = CopiedWords()


def count_copied_words(
    source: str, translation: str, word_forms: Mapping[str, str] | None = None
) -> CopiedWords:
    """Count the words of a source that stand in its translation as they were, without names, numbers and addresses.

    A word counts if it is written small, or if `word_forms` (the spelling of known words inside a
    sentence, by the word in capitals) says that only the beginning of a sentence gave it its
    capital. A word of one letter, one with a digit and text that must stay as it is do not count.
    In scripts without spaces, each two characters in a row count half.

    >>> count_copied_words("The dog sleeps in Berlin.", "Der dog schläft in Berlin.", {"THE": "the", "DOG": "dog"})
    CopiedWords(words=4.0, copied=2.0, known=1.0, is_whole=False)
    """
    # Most translations have no word of their source.
    source_parts, target_parts = source.casefold().split(), translation.casefold().split()
    is_unspaced = UNSPACED_LETTER.search(source) and UNSPACED_LETTER.search(translation)
    if set(source_parts).isdisjoint(target_parts) and not is_unspaced:
        return _NOTHING_COPIED
    source_words = _split_words(source)
    plain_source = [word.casefold() for word, _ in source_words]
    plain_target = [word.casefold() for word, _ in _split_words(translation)]
    target_words = Counter(plain_target)
    if sum(word in target_words for word in plain_source) < 2:
        return _NOTHING_COPIED

    words = copied = known = 0.0
    for word in _ordinary_words(source, source_words, word_forms or {}):
        plain = word.casefold()
        weight = 0.5 if UNSPACED_LETTER.match(word) else 1.0
        words += weight
        if target_words[plain] > 0:
            target_words[plain] -= 1
            copied += weight
            known += weight if word_forms and word.upper() in word_forms else 0

    return CopiedWords(words, copied, known, is_whole=plain_source == plain_target)


def _split_words(text: str) -> list[tuple[str, bool]]:
    """Split a text into words, each with whether a sentence may begin there; of scripts without spaces, into pairs."""
    words = list[tuple[str, bool]]()
    is_first = True
    for token in _remove_protected(text).split():
        word = token.strip(_MARKS)
        if not word.isascii() and UNSPACED_LETTER.search(word):
            for a, b in pairwise(word):
                if UNSPACED_LETTER.match(a) and UNSPACED_LETTER.match(b):
                    words.append((a + b, False))
        elif word:
            words.append((word, is_first or token.startswith(_SENTENCE_MARKS)))

        ends_sentence = token.endswith(_SENTENCE_MARKS)
        is_first = ends_sentence if word else is_first or ends_sentence
    return words


def _remove_protected(text: str) -> str:
    """Return a text with a space in place of what must stay as it is."""
    parts, previous_end = [], 0
    for match in find_protected(text):
        parts.append(text[previous_end : match.start()])
        previous_end = match.end()
    return " ".join([*parts, text[previous_end:]]) if parts else text


def _ordinary_words(
    text: str, words: Sequence[tuple[str, bool]], word_forms: Mapping[str, str]
) -> list[str]:
    """Return the words that are no names, as far as their capitals and the training text tell."""
    countable: list[tuple[str, bool]] = []
    for word, is_first in words:
        if len(word) > 1 and (word.isalpha() or not _has_digit(word)):
            countable.append((word, is_first))
    if is_in_capitals(text):
        if not word_forms:
            return [word for word, _ in countable] if len(countable) >= _WORDS_OF_CAPITALS else []
    elif not is_in_title_case(text, word_forms or None):
        return [word for word, first in countable if _is_ordinary(word, first, word_forms)]

    ordinary = [word for word, _ in countable if _is_ordinary(word, True, word_forms)]
    return ordinary if len(ordinary) > _ORDINARY_SHARE * len(countable) else []


def _is_ordinary(word: str, may_be_first: bool, word_forms: Mapping[str, str]) -> bool:
    """Whether a word is no name: written small, or given its capital by the beginning of a sentence alone."""
    form = word_forms.get(word.upper())
    if word[0].isupper():
        return may_be_first and form is not None and form[0].islower()
    return form is None or not form[0].isupper()


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))
