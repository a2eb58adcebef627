"""Capitals: gives a model a text in the case that it knows, and its translation the case that the text had."""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pellucid.data.text.protected import find_protected

Casing = Literal["capitals", "title", "small", "words"]

_WORD = re.compile(r"\w[\w'’]*")
# Words of up to this many letters may be small in a title: "of", "with", "und".
_LONGEST_SMALL_WORD = 4
# Where so many of the commonest words have a capital inside a sentence, as German nouns
# do, an unknown word is given one, too. Of the commonest thousand it is 29 to 50 % in
# German, and 1 to 8 % in English, French, Spanish and Czech; of all words it is 29 % in
# English news, which names many people and places.
_CAPITALISED_SHARE, _COMMONEST_WORDS = 0.15, 1000
# Words in capitals inside a sentence are read in small letters if the training text has so many of
# their letters in small ones: "US IT" is no shouting, though both are words.
_FEWEST_LETTERS, _SHORTEST_LABEL = 6, 4
# Two letters that may be capitals; most texts have none, and need no closer look.
_TWO_CAPITALS = re.compile("[A-ZÀ-ÖØ-Þ\u0100-\u024fΆ-ΫЀ-ЯԱ-Ֆ]{2}")
_BETWEEN_CAPITALS = re.compile(r"[\s,;&/-]*")
_ENDS_IN_MARK = re.compile(r"[.!?…][\s\"'”’»)\]]*\Z")
_BEFORE_FIRST_WORD = re.compile(r"(?:\A|[.!?…][\s\"'”’»)\]]+|[:,]\s)[\"'“„«‘(\[¿¡\s]*\Z")
# What stands in a translation at the same place as in its source.
_FRAME = re.compile(r"(\s[–—-]\s|[:()\[\]\"“”„«»])")

# What English titles leave small, unless it is the first or the last word.
_SMALL_WORDS = frozenset(
    re.findall(
        "[a-z]+",
        "a an the and but or nor as at by for from in into of off on onto out over per to up via with",
    )
)


def is_in_capitals(text: str) -> bool:
    """Whether all letters of a text are capitals, and at least two stand in one word; addresses and the like are free.

    >>> [is_in_capitals(text) for text in ("THE DOG {name}", "I", "A 5", "NATO", "The DOG")]
    [True, False, False, True, False]
    """
    # Most texts have a small letter among their first characters.
    if text.islower() or text[1:4].islower():
        return False
    visible = _without_protected(text)
    # One capital alone, as in "A 5", may be a small word at the beginning of a sentence.
    words = _WORD.findall(visible)
    return visible.isupper() and any(sum(map(_has_case, word)) > 1 for word in words)


def is_in_title_case(text: str, word_forms: Mapping[str, str] | None = None) -> bool:
    """Whether each word of a text begins with a capital, except short ones, and some would not in a sentence.

    `word_forms` says how words are spelled inside a sentence, by the word in capitals.
    Without it, three words with a capital are enough.

    >>> forms = {"DOG": "dog", "RUNS": "runs", "JOHN": "John"}
    >>> [is_in_title_case(text, forms) for text in ("The Big Dog Runs", "My Dog John", "John Smith", "The Dog goes")]
    [True, True, False, False]
    """
    # Most sentences have few capitals, and need no closer look.
    if 2 * sum(map(str.isupper, text)) <= text.count(" "):
        return False
    words = [word for word in _WORD.findall(_without_protected(text)) if _has_case(word)][1:]
    if not words:
        return False
    capitalised = [word for word in words if word[0].isupper() and not word.isupper()]
    small = [word for word in words if word[0].islower()]
    if len(capitalised) <= len(small) or any(len(word) > _LONGEST_SMALL_WORD for word in small):
        return False
    if word_forms is None:
        return len(capitalised) >= 3
    return any(word_forms.get(word.upper(), word)[0].islower() for word in capitalised)


def has_capitalised_nouns(words: Sequence[str]) -> bool:
    """Whether so many of the commonest words have a capital inside a sentence that a new word probably has one.

    `words` are spelled as inside a sentence, the commonest first.
    """
    commonest = words[:_COMMONEST_WORDS]
    return sum(word[0].isupper() for word in commonest) > _CAPITALISED_SHARE * len(commonest)


def recase_sentence(
    text: str, casing: Casing, word_forms: Mapping[str, str], capitalise_unknown: bool
) -> str:
    """Spell a text in capitals, or with a capital on each word, as a sentence; what is protected stays as it is.

    >>> recase_sentence("JOHN'S DOG SEES {NAME}.", "capitals", {"JOHN": "John"}, capitalise_unknown=False)
    "John's dog sees {NAME}."
    """

    def spell(word: str) -> str:
        if casing == "title":
            return _known_form(word, word_forms) or word  # an unknown word may be a name
        # In small letters, a word that is not known is left alone.
        return _spell_as_known(word, word_forms, capitalise_unknown and casing == "capitals")

    recased = _replace_words(text, spell)
    first = next((i for i, character in enumerate(recased) if character.isalpha()), None)
    if first is None or _is_protected(recased, first):
        return recased
    return recased[:first] + recased[first].upper() + recased[first + 1 :]


def is_in_small_letters(text: str) -> bool:
    """Whether a text is a sentence, with a mark at its end, in which no letter is a capital.

    >>> [is_in_small_letters(text) for text in ("it rains.", "i see you!", "It rains.", "open the file", "犬。")]
    [True, True, False, False, False]
    """
    return text.islower() and _ENDS_IN_MARK.search(text[-8:]) is not None


def recase_capital_words(text: str, word_forms: Mapping[str, str], capitalise_unknown: bool) -> str:
    """Spell words in capitals inside a sentence as the training text has them, where it has most in small letters.

    These are two words or more, one behind the other, or a single one
    before a colon with which the text begins.

    >>> forms = {word.upper(): word for word in ("breaking", "news", "the", "dog", "us", "NATO")}
    >>> for text in ("BREAKING NEWS: it rains.", "He saw THE NATO DOG.", "The DOG", "US NATO"):
    ...     print(recase_capital_words(text, forms, capitalise_unknown=False))
    Breaking news: it rains.
    He saw the NATO dog.
    The DOG
    US NATO
    """
    if not _TWO_CAPITALS.search(text):
        return text

    def spell(match: re.Match[str]) -> str:
        return _spell_as_known(match[0], word_forms, capitalise_unknown)

    out, previous_end = [], 0
    for start, end in _find_capital_runs(text, word_forms):
        run = _WORD.sub(spell, text[start:end])
        if _BEFORE_FIRST_WORD.search(text[max(0, start - 8) : start]):
            run = run[0].upper() + run[1:]
        out += [text[previous_end:start], run]
        previous_end = end

    return "".join([*out, text[previous_end:]])


def _find_capital_runs(text: str, word_forms: Mapping[str, str]) -> list[tuple[int, int]]:
    """Return the spans of the words in capitals that are read in small letters."""
    protected = {i for match in find_protected(text) for i in range(*match.span())}
    words = [match for match in _WORD.finditer(text) if match.start() not in protected]
    runs: list[list[re.Match[str]]] = [[]]
    for word in words:
        run = runs[-1]
        is_next = run and _BETWEEN_CAPITALS.fullmatch(text, run[-1].end(), word.start())
        if not word[0].isupper():
            runs.append([])
        elif is_next:
            run.append(word)
        else:
            runs.append([word])

    spans: list[tuple[int, int]] = []
    for run in runs:
        if run and _is_emphasis(text, run, run[0] is words[0], word_forms):
            spans.append((run[0].start(), run[-1].end()))
    return spans


def _is_emphasis(
    text: str, run: list[re.Match[str]], is_first: bool, word_forms: Mapping[str, str]
) -> bool:
    """Whether words in capitals are words that the training text has in small letters."""
    words = [match[0] for match in run if len(match[0]) > 1]
    forms = [_known_form(word, word_forms) for word in words]
    small = [form for form in forms if form is not None and form.islower()]
    if len(words) == 1:
        is_before_colon = is_first and text.startswith(":", run[0].end())
        return is_before_colon and len(words[0]) >= _SHORTEST_LABEL and bool(small)
    # Names and acronyms that the training text has say nothing.
    return len(small) >= forms.count(None) and sum(map(len, small)) >= _FEWEST_LETTERS


def restore_capital_words(translation: str, source: str, language: str | None) -> str:
    """Give those parts of a translation capitals that are in capitals in the source, where it is sure which they are.

    It is where a colon, quotation marks, brackets or dashes stand around them, in both texts alike.

    >>> restore_capital_words("Nota: la bola es azul.", "NOTE: the ball is blue.", "es")
    'NOTA: la bola es azul.'
    """
    pieces, source_pieces = _FRAME.split(translation), _FRAME.split(source)

    # The signs between the parts; quotation marks differ by language.
    signs = [_plain_sign(sign) for sign in pieces[1::2]]
    if signs != [_plain_sign(sign) for sign in source_pieces[1::2]]:
        return translation
    if len(pieces) == 1:
        return translation
    for i in range(0, len(pieces), 2):
        if is_in_capitals(source_pieces[i]):
            pieces[i] = restore_casing(pieces[i], "capitals", language)
    return "".join(pieces)


def _plain_sign(sign: str) -> str:
    sign = sign.strip()
    return '"' if sign in "“”„«»" else "-" if sign in "–—" else sign


def restore_casing(translation: str, casing: Casing, language: str | None) -> str:
    """Give a translation the case that its source had; a title gets capitals where its language writes them so.

    >>> restore_casing("El perro ve {name}.", "capitals", "es"), restore_casing("The dog of the king", "title", "en")
    ('EL PERRO VE {name}.', 'The Dog of the King')
    """
    base = (language or "").replace("_", "-").partition("-")[0].lower()
    if casing == "capitals":
        return _replace_outside_protected(translation, lambda part: capitalise(part, base))
    # Other languages write their titles as sentences, and their names have capitals already.
    is_english_title = casing == "title" and base in ("en", "eng")
    return _capitalise_title(translation) if is_english_title else translation


def capitalise(text: str, language: str) -> str:
    """Return a text in capitals, as its language writes them.

    >>> capitalise("istanbul", "tr"), capitalise("Αθήνα", "el"), capitalise("Straße", "de")
    ('İSTANBUL', 'ΑΘΗΝΑ', 'STRASSE')
    """
    if language in ("tr", "az", "tur", "aze"):
        text = text.replace("i", "İ")
    capitals = text.upper()
    if language in ("el", "ell", "gre"):
        # Greek capitals have no accents, but keep the diaeresis.
        plain = unicodedata.normalize("NFD", capitals).replace("\u0301", "")
        capitals = unicodedata.normalize("NFC", plain)
    return capitals


def _capitalise_title(text: str) -> str:
    words = [match.span() for match in _WORD.finditer(text)]

    def spell(word: str, is_outer: bool) -> str:
        if word != word.lower() or (word in _SMALL_WORDS and not is_outer):
            return word
        return word[0].upper() + word[1:]

    out, previous_end = [], 0
    for number, (start, end) in enumerate(words):
        is_outer = number in (0, len(words) - 1)
        word = text[start:end] if _is_protected(text, start) else spell(text[start:end], is_outer)
        out += [text[previous_end:start], word]
        previous_end = end
    return "".join([*out, text[previous_end:]])


def _spell_as_known(word: str, word_forms: Mapping[str, str], capitalise_unknown: bool) -> str:
    """Return a word in capitals as the training text has it; one that is unknown there is small, or a noun."""
    known = _known_form(word, word_forms)
    if known is not None:
        return known
    return word.capitalize() if capitalise_unknown else word.lower()


def _known_form(word: str, word_forms: Mapping[str, str]) -> str | None:
    """Return the spelling of a word inside a sentence; of one with an apostrophe also by what stands before it."""
    known = word_forms.get(word.upper())
    if known is None and (cut := max(word.rfind("'"), word.rfind("’"))) > 0:
        stem = word_forms.get(word[:cut].upper())
        known = stem and stem + word[cut:].lower()
    return known


def _has_case(text: str) -> bool:
    return text.lower() != text.upper()


def _without_protected(text: str) -> str:
    parts, previous_end = [], 0
    for match in find_protected(text):
        parts.append(text[previous_end : match.start()])
        previous_end = match.end()
    return " ".join([*parts, text[previous_end:]])


def _replace_outside_protected(text: str, replace: Callable[[str], str]) -> str:
    out, previous_end = [], 0
    for match in find_protected(text):
        out += [replace(text[previous_end : match.start()]), match[0]]
        previous_end = match.end()
    return "".join([*out, replace(text[previous_end:])])


def _replace_words(text: str, spell: Callable[[str], str]) -> str:
    def spell_words(part: str) -> str:
        return _WORD.sub(lambda match: spell(match[0]), part)

    return _replace_outside_protected(text, spell_words)


def _is_protected(text: str, position: int) -> bool:
    return any(match.start() <= position < match.end() for match in find_protected(text))
