"""Gives a model each text in a spelling and a case that it has learned, and its translation the user's own."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING

from pellucid.data.source_profile import SourceProfile
from pellucid.data.text.casing import (
    Casing,
    is_in_capitals,
    is_in_small_letters,
    is_in_title_case,
    recase_capital_words,
    recase_sentence,
    restore_capital_words,
    restore_casing,
)
from pellucid.data.text.misspellings import LONE_WORD, KnownWords
from pellucid.data.text.protected import find_protected
from pellucid.data.text.spelling import PlainText, plain_counterpart, show_character, spell_plainly
from pellucid.data.tokenizer import UNK, Tokenizer

if TYPE_CHECKING:
    from pellucid.decode.terms.matches import Terminology

_OPENING_MARKS = " \t\u00a0\"'“”„‘’«»()[]¿¡–—-"
_MARKS_BEFORE_A_SENTENCE = (".", "!", "?", "…", ":")

CASING_NOTES: dict[Casing, str] = {
    "capitals": "read without its capitals, of which the training text has few",
    "title": "read without the capital on each word, of which the training text has few",
    "small": "read with a capital at its beginning, because the training text has few sentences without one",
    "words": "words in capitals were read in small letters, as the training text has them",
}


@dataclass(frozen=True)
class ReadText:
    """The text that a model reads for a user's text, and what its translation gets back.

    `cased` is the user's text in plain spelling, in the case that it had. `misspelled` has the
    words that were read as another one: (as it was, as it was read).
    """

    text: str
    plain: PlainText | None = None
    casing: Casing | None = None
    target_language: str | None = None
    cased: str = ""
    misspelled: tuple[tuple[str, str], ...] = ()

    def restore(self, translation: str) -> str:
        """Return a translation in the case, and with the spellings of copied words, that the user's text had."""
        if self.plain is not None:
            translation = self.plain.restore(translation)
        if self.casing == "words":
            translation = restore_capital_words(translation, self.cased, self.target_language)
        elif self.casing is not None:
            translation = restore_casing(translation, self.casing, self.target_language)
        return translation

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the case and about misspelled words, where they were changed."""
        notes = [] if self.casing is None else [CASING_NOTES[self.casing]]
        for word, intended in self.misspelled:
            notes.append(f"“{word}”, an unknown word, was read as “{intended}”")
        return tuple(notes)


@dataclass(frozen=True)
class SourceReader:
    """Turns texts of users into texts like those that a model was trained on, as its `profile` describes them.

    Without a profile, as for models of older versions and for imported ones, only characters that
    no piece of the vocabulary spells are replaced; so too by a reader that does not adapt texts
    (`as_they_are`).
    """

    tokenizer: Tokenizer
    profile: SourceProfile | None = None
    target_language: str | None = None
    adapts: bool = True

    @cached_property
    def as_they_are(self) -> "SourceReader":
        """Reader for the same model that leaves case, marks and known characters alone."""
        return replace(self, adapts=False)

    @property
    def sentences_together(self) -> int:
        """How many sentences of a line the model has learned to translate together."""
        return 1 if self.profile is None else self.profile.sentences_together

    @property
    def translates_numbers(self) -> bool:
        """Whether the model has learned to translate text without a letter, such as 12.

        Otherwise such text stays as it is.
        """
        return self.profile is not None and self.profile.translates_numbers

    def continues(self, sentence: str) -> bool:
        """Whether a sentence begins like those that the model has learned together with the one before."""
        return self.profile is None or self.profile.is_continuation(sentence)

    @property
    def unknown_marks(self) -> frozenset[str]:
        """Kinds of marks around a line that are kept around its translation, because the model has not learned them."""
        if self.profile is None or not self.adapts:
            return frozenset()
        return self.profile.unknown_marks

    def read(self, text: str, keep_case: bool = False, terms: Iterable[str] = ()) -> ReadText:
        """Return what the model reads for a text without tags.

        `keep_case` leaves its capitals alone, and the words of `terms` stay as they are.
        """
        plain = spell_plainly(text, self.knows)
        casing = None if keep_case else self.find_casing(plain.text)
        read = ReadText(plain.text, plain if plain.respelled else None)
        if casing is not None:
            read = replace(
                read,
                text=self._recase(plain.text, casing),
                casing=casing,
                target_language=self.target_language,
                cased=plain.text,
            )
        return self._mend_spelling(read, terms) if self.profile is not None and self.adapts else read

    def _recase(self, text: str, casing: Casing) -> str:
        """Return a text in the case in which the training text has its words."""
        assert self.profile is not None
        recase = recase_capital_words if casing == "words" else partial(recase_sentence, casing=casing)
        return recase(
            text,
            word_forms=self.profile.word_forms,
            capitalise_unknown=self._capitalise_unknown,
        )

    def _mend_spelling(self, read: ReadText, terms: Iterable[str]) -> ReadText:
        """Return a text with the words in the place of those that are misspelled for them."""
        assert self.profile is not None
        text = read.text
        unknown: list[re.Match[str]] = []
        for match in LONE_WORD.finditer(text):
            # The first word of a sentence may be one that stands nowhere else: the profile has none of these.
            if not self._knows_word(match[0]) and not _begins_sentence(text[: match.start()]):
                unknown.append(match)
        if not unknown:
            return read

        kept = {word.lower() for term in terms for word in term.split()}
        protected = [match.span() for match in find_protected(text)]
        mended, misspelled, previous_end = "", list[tuple[str, str]](), 0
        for match in unknown:
            word, (start, end) = match[0], match.span()
            if word.lower() in kept or any(first < end and start < last for first, last in protected):
                continue
            # Where nouns have no capital, a word that has one may be a name.
            is_word = word.islower() or (self._capitalise_unknown and word == word.capitalize())
            intended = self._known_words.find_intended(word) if is_word else None
            if intended is not None:
                misspelled.append((word, intended))
                mended += text[previous_end:start] + intended
                previous_end = end
        return replace(read, text=mended + text[previous_end:], misspelled=tuple(misspelled))

    def _knows_word(self, word: str) -> bool:
        """Whether a word is in the training text, or so common there that it is one piece."""
        if self.profile is None or word.upper() in self.profile.word_forms:
            return True
        return any(f"▁{form}" in self._pieces for form in (word, word.lower(), word.capitalize()))

    def find_casing(self, text: str) -> Casing | None:
        """Return the casing of a text that the model did not learn, or None where it can be read as it is."""
        profile = self.profile
        # A tokenizer that makes everything lower case knows no other.
        if profile is None or not self.adapts or self.tokenizer.lowercase:
            return None

        if is_in_capitals(text):
            # "NATO" may be a word that the training text has in capitals.
            return None if profile.has_capitals or self._is_known_word(text) else "capitals"

        if not profile.has_title_case and is_in_title_case(text, profile.word_forms):
            return "title"

        if is_in_small_letters(text) and profile.has_few_small_letters:
            return "small"

        if profile.has_capitals or recase_capital_words(text, profile.word_forms, False) == text:
            return None
        return "words"

    def knows(self, character: str) -> bool:
        """Whether the model can read a character as it is."""
        if character.isascii():
            return True
        if self.profile is not None and self.adapts and plain_counterpart(character) is not None:
            return self.profile.knows_spelling(character)
        return character in self._characters

    def describe_unknown(self, texts: Iterable[str]) -> str:
        """Return a note on texts with a part for which the vocabulary has no piece: the characters without one."""
        characters = self.unknown_characters(texts)
        if not characters:
            return "the vocabulary has no piece for a part of it, which the model reads as unknown"
        count = "1 character" if len(characters) == 1 else f"{len(characters)} characters"
        return f"the vocabulary has no piece for {count}: {' '.join(map(show_character, characters))}"

    def unknown_characters(self, texts: Iterable[str]) -> list[str]:
        """Return the characters of texts that the tokenizer makes the unknown piece of, in order of appearance."""
        characters = [one for one in dict.fromkeys(chain.from_iterable(texts)) if not one.isspace()]
        # Each alone: the tokenizer may spell a character plainly before it looks for a piece, and
        # no list tells that.
        rows = self.tokenizer.encode_source_text(characters)
        return [character for character, ids in zip(characters, rows, strict=True) if UNK in ids]

    def _is_known_word(self, text: str) -> bool:
        assert self.profile is not None
        return self.profile.word_forms.get(text.strip(".!?:,; ")) == text.strip(".!?:,; ")

    @cached_property
    def _characters(self) -> frozenset[str]:
        """Characters that pieces of the vocabulary spell."""
        return frozenset("".join(self.tokenizer.source_names)) | {"\u2581"}

    @cached_property
    def _pieces(self) -> frozenset[str]:
        return frozenset(self.tokenizer.source_names)

    @cached_property
    def _known_words(self) -> KnownWords:
        """Words of the training text."""
        return KnownWords([] if self.profile is None else self.profile.words)

    @cached_property
    def _capitalise_unknown(self) -> bool:
        return self.profile is not None and self.profile.capitalises_nouns


class SourceEncoder:
    """Texts as the model reads them and their token ids, each read and encoded once."""

    def __init__(self, reader: SourceReader, terms: "Terminology | None" = None):
        self.reader, self.terms = reader, terms
        self._read: dict[tuple[str, bool], ReadText] = {}
        self._ids: dict[str, list[int]] = {}

    def read(self, text: str, keep_case: bool) -> ReadText:
        """Return what the model reads for a text."""
        key = text, keep_case
        if key not in self._read:
            read = self.reader.read(text, keep_case)
            # Terms are looked for only where one of their words may have been taken for misspelled.
            if read.misspelled and self.terms is not None:
                own = [match.source for match in self.terms.matches(text)]
                read = self.reader.read(text, keep_case, own)
            self._read[key] = read
        return self._read[key]

    def encode_all(self, texts: Iterable[tuple[str, bool]]) -> None:
        """Encode texts, each with whether its case is kept, in one call of the tokenizer."""
        read = dict.fromkeys(self.read(*text).text for text in texts)
        new = [text for text in read if text not in self._ids]
        self._ids.update(zip(new, self.reader.tokenizer.encode_source(new), strict=True))

    def look_up(self, text: str, keep_case: bool) -> tuple[ReadText, list[int]]:
        """Return what is read for a text that was encoded, and its token ids."""
        read = self.read(text, keep_case)
        return read, self._ids[read.text]

    def count_pieces(self, text: str, keep_case: bool, limit: int) -> int:
        """Count the pieces of a text.

        Where they are at most `limit` for sure, an upper bound may be returned.
        """
        read = self.read(text, keep_case).text
        if read in self._ids:
            return len(self._ids[read])

        # No text has more pieces than bytes, but for the word-start mark of its first word, the
        # pieces of a language to write, and EOS. The upper bound spares the tokenizer most short
        # texts.
        upper_bound = len(read.encode(errors="surrogatepass")) + 4
        if upper_bound <= limit:
            return upper_bound

        [ids] = self.reader.tokenizer.encode_source([read])
        return len(ids)


def _begins_sentence(before: str) -> bool:
    """Whether a word with this text before it is the first one of a sentence.

    >>> [_begins_sentence(text) for text in ("", " “", "It rains. ", "It is: “", "It is ", "He (")]
    [True, True, True, True, False, False]
    """
    end = before.rstrip(_OPENING_MARKS)
    return not end or end.endswith(_MARKS_BEFORE_A_SENTENCE)
