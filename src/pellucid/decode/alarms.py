"""Alarms: what went wrong in a translation, as far as its text and its source tell."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from unicodedata import east_asian_width

from pellucid.data.source_profile import BEGINNING, SourceProfile
from pellucid.data.text.casing import is_in_capitals, is_in_title_case
from pellucid.data.text.copied_words import count_copied_words
from pellucid.data.text.numbers import count_differing_numbers
from pellucid.data.text.sentences import count_sentences
from pellucid.decode.stages.repetition import (
    has_doubled_phrase,
    has_doubled_sentence,
    has_repeated_characters,
)

ALARMS = {  # each alarm by its name, with the sentence that says it; always told in this order
    "empty": "the translation has no words",
    "copy": "words of the line stand in the translation untranslated",
    "numbers": "a number of the line is not in the translation, or another one is",
    "names": "a name of the line is not in the translation",
    "repeats": "the translation repeats itself, and the line does not",
    "length": "the translation is more than three times as long as the line, or less than a third",
    "sentences": "the translation has fewer sentences than the line",
}

# Words from which untranslated ones are a copy; of a line that is copied as a whole, two are
# enough. They must be more than half of the words, three of four if they are no more than three:
# people leave so many in one of 10,000 lines, between French and Spanish too. What else is said of
# people here was measured, too: benchmarks/results/alarms.md.
_WORDS_OF_A_COPY, _WORDS_OF_A_WHOLE_COPY = 3, 2
_COPIED_SHARE, _COPIED_SHARE_OF_FEW, _COPIED_SHARE_OF_RELATIVES = 0.5, 0.7, 0.9
# Letters of one side beyond the triple of the other; people write so much more in one of 5,000
# lines.
_LONGER_TIMES, _LONGER_LETTERS = 3, 20
_WIDE_LETTERS = 3  # letters that one of Chinese or Japanese is worth
# Letters of a name, and of its beginning, which endings and other spellings leave as it is.
_LETTERS_OF_A_NAME, _NAME_BEGINNING = 4, 3
# Share of letters in common from which a word may be the name as another language spells it.
_ALIKE = 0.5
_END_MARKS = tuple(".!?…。！？।؟")
_WITHOUT_ENDS = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff]")  # a letter of Thai, Lao or Khmer
# A letter that may be a syllable or a word.
_WIDE = re.compile("[\u1100-\u11ff\u2e80-\uffdc\U00020000-\U0003ffff]")
_WORDS = re.compile(r"[^\W\d_]+")
# A capital after a word or a comma does not begin a sentence.
_CAPITALISED = re.compile(r"(?<=[^\W_] )[^\W\d_]+|(?<=[^\W_], )[^\W\d_]+")


def find_alarms(
    source: str,
    translation: str,
    profile: SourceProfile | None = None,
    missing_sentences: int | None = None,
) -> tuple[str, ...]:
    """Return the names of what went wrong in a translation, in the order of `ALARMS`.

    - "empty": the source has letters or digits and the translation has none, or has nothing but the source's numbers.
    - "copy": most of the words that are to be translated, and three at least, stand in the translation as they were.
    - "numbers": a number is missing, was changed or was added (`count_differing_numbers` says what may differ).
    - "names": a word with a capital inside a sentence, which the training text never had, is missing; a word that
      begins alike, or has half of its letters, may be the name in another form.
    - "repeats": the translation says something twice in a row or more often, and the source does not.
    - "length": one of the two has more than three times as many letters as the other.
    - "sentences": `missing_sentences`, which are counted unless they are given.

    `profile` describes the training text: with its words, names are told from other words. Without
    it there is no alarm about names, nor for a language that writes its nouns with a capital.

    >>> find_alarms("The dog sleeps on 250 sofas.", "Der dog sleeps on 205 sofas.")
    ('copy', 'numbers')
    """
    if missing_sentences is None:
        missing_sentences = count_missing_sentences(source, translation)

    if _is_empty(source, translation):
        return ("empty", "sentences") if missing_sentences else ("empty",)

    checks = {
        "copy": _has_copy(source, translation, profile),
        "numbers": _has_other_numbers(source, translation),
        "names": bool(profile is not None and find_lost_names(source, translation, profile)),
        "repeats": _repeats_itself(source, translation),
        "length": _has_odd_length(source, translation),
        "sentences": missing_sentences > 0,
    }
    return tuple(name for name, is_found in checks.items() if is_found)


def count_missing_sentences(source: str, translation: str) -> int:
    """Count how many sentences fewer than its source a translation has, as the ends of sentences tell.

    >>> count_missing_sentences("It is late. We go home.", "Es ist spät.")
    1
    """
    # Thai, Lao and Khmer separate sentences by a space, which tells nothing.
    if _WITHOUT_ENDS.search(translation):
        return 0
    # In small letters, a sentence ends where the next one needs no capital.
    comparable = translation.lower() if source.islower() else translation
    return max(0, count_sentences(source) - count_sentences(comparable))


def sort_alarms(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of alarms, each once, in the order of `ALARMS`."""
    found = set(names)
    return tuple(name for name in ALARMS if name in found)


def count_alarms(alarms: Iterable[Iterable[str]]) -> dict[str, int]:
    """Count in how many translations each of `ALARMS` was found.

    `alarms` has the names found in each translation.
    """
    counts = Counter(name for names in alarms for name in set(names))
    return {name: counts[name] for name in ALARMS}


def _is_empty(source: str, translation: str) -> bool:
    """Whether a source with words or numbers has a translation without words."""
    if any(map(str.isalpha, translation)) or not any(map(str.isalnum, source)):
        return False
    if not any(map(str.isdigit, translation)):
        return True
    # "Room 12" is not translated by "12", but "twelve" is, and "1st" by "1.".
    words = any(token.isalpha() for token in _strip_tokens(source))
    numbers, written = (re.findall(r"\d+", text) for text in (source, translation))
    return words and set(written) <= set(numbers)


def _strip_tokens(text: str) -> Iterator[str]:
    """Yield what stands between spaces, without the marks around it."""
    for token in text.split():
        yield re.sub(r"^\W+|\W+$", "", token)


def _has_copy(source: str, translation: str, profile: SourceProfile | None) -> bool:
    """Whether most words of a source were left untranslated, more than the training text leaves so."""
    if profile is not None and profile.shares_most_words:
        return False

    found = count_copied_words(source, translation, None if profile is None else profile.word_forms)
    if found.is_whole and found.copied == found.words:
        # Two words that the training text never had may be a name, but hardly with a mark at the
        # end.
        sure = found.copied if source.rstrip().endswith(_END_MARKS) else found.known
        if sure >= _WORDS_OF_A_WHOLE_COPY:
            return True

    if found.copied < _WORDS_OF_A_COPY:
        return False

    # Between languages as close as Spanish and Italian, many words are right in both.
    if profile is not None and profile.shares_words:
        return found.copied > _COPIED_SHARE_OF_RELATIVES * found.words

    share = _COPIED_SHARE if found.copied > _WORDS_OF_A_COPY else _COPIED_SHARE_OF_FEW
    return found.copied > share * found.words


def _has_other_numbers(source: str, translation: str) -> bool:
    """Whether the numbers outside of text that must stay as it is differ."""
    return count_differing_numbers(source, translation) > 0


def find_lost_names(source: str, translation: str, profile: SourceProfile) -> list[str]:
    """Return the names of a source that nothing in the translation resembles.

    There are none where names cannot be recognised. A name has a capital inside a sentence, and the
    training text never had it, nor small words that begin like it, as "western" is like
    "Westerners". Where the last of a row of words with capitals is an ordinary word, as in "Supreme
    Court", none of them is taken for a name.
    """
    forms = profile.word_forms
    if not forms or profile.capitalises_nouns or source[1:].islower():
        return []

    candidates = list(_list_unknown_names(source, profile))
    if not candidates or is_in_capitals(source) or is_in_title_case(source, forms):
        return []

    written = _fold(translation)
    words = set(_WORDS.findall(written))
    lost = [name for name in candidates if not _is_reminded_of(_fold(name), written, words)]
    # Another script spells a name with other letters.
    return [name for name in lost if _script_of(name) == _main_script(translation)]


def _list_unknown_names(text: str, profile: SourceProfile) -> Iterator[str]:
    """Yield words with a capital inside a sentence that are in no training source, nor like a small one of theirs."""
    end = -1  # of the row of words with capitals so far
    row: list[str] = []
    for match in _CAPITALISED.finditer(text):
        word = match[0]
        if not word[0].isupper():
            continue
        if match.start() > end + 1:
            yield from _names_of_row(row, profile)
            row = []
        row.append(word)
        end = match.end()

    yield from _names_of_row(row, profile)


def _names_of_row(row: list[str], profile: SourceProfile) -> list[str]:
    """Return the unknown words of a row of words with capitals, none where the last is an ordinary word."""
    if not row or profile.word_forms.get(row[-1].upper(), row[-1])[0].islower():
        return []
    names = []
    for word in row:
        is_short = len(word) < _LETTERS_OF_A_NAME or word.isupper()
        if not is_short and not _is_known(word, profile):
            names.append(word)
    return names


def _is_known(word: str, profile: SourceProfile) -> bool:
    """Whether the training text had a word, its singular, or small words that begin like it."""
    capitals = word.upper()
    if capitals in profile.word_forms or capitals.removesuffix("S") in profile.word_forms:
        return True
    return word[:BEGINNING].lower() in profile.small_beginnings


def _is_reminded_of(name: str, written: str, words: set[str]) -> bool:
    """Whether a word of a translation may be a name in another form.

    All of them are in small letters without accents.
    """
    if name[:_NAME_BEGINNING] in written:
        return True
    matcher = SequenceMatcher(b=name, autojunk=False)
    for word in words:
        matcher.set_seq1(word)
        if matcher.real_quick_ratio() >= _ALIKE and matcher.ratio() >= _ALIKE:
            return True
    return False


def _fold(text: str) -> str:
    """Return a text in small letters and without accents."""
    small = text.casefold()
    if small.isascii():
        return small
    letters = unicodedata.normalize("NFKD", small)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _script_of(word: str) -> str:
    """Return the script of a word's first letter, which is the first word of that letter's name in Unicode."""
    return unicodedata.name(word[0], "").partition(" ")[0]


def _main_script(text: str) -> str:
    """Return the script of most words of a text."""
    scripts = Counter(map(_script_of, _WORDS.findall(text)))
    return max(scripts, key=scripts.__getitem__, default="")


def _repeats_itself(source: str, translation: str) -> bool:
    """Whether a translation says something again and again that its source says once."""
    if has_repeated_characters(translation) and not has_repeated_characters(source):
        return True
    if has_doubled_phrase(translation) and not has_doubled_phrase(source):
        return True
    # "Thank you very much. Thank you." may be two times the same elsewhere, but one sentence is not
    # two.
    if not has_doubled_sentence(translation):
        return False
    return count_sentences(translation) > count_sentences(source)


def _has_odd_length(source: str, translation: str) -> bool:
    """Whether one side has more than three times as many letters as the other, and more than a few."""
    shorter, longer = sorted(map(_count_letters, (source, translation)))
    return longer > _LONGER_TIMES * shorter + _LONGER_LETTERS


def _count_letters(text: str) -> int:
    """Count the letters and digits of a text.

    A letter of a script whose letters are syllables or words counts for three.

    >>> _count_letters("It is 5."), _count_letters("五時です")
    (5, 12)
    """
    if text.isascii() or not _WIDE.search(text):
        return sum(map(str.isalnum, text))
    return sum(_WIDE_LETTERS if east_asian_width(x) in "WF" else 1 for x in text if x.isalnum())
