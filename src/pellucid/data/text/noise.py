"""Noise as people's text has it, planted into clean sentence pairs: capitals, missing full stops, typing errors.

Each kind of noise is a function that takes a pair and a random generator. What a translation
should show as its source does (capitals, a number before the line) is planted on both sides;
what it should not show (typing errors, lost accents) into the source alone. A pair that a
kind of noise does not fit is returned as it is.
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from pellucid.data.text.casing import restore_casing
from pellucid.data.text.protected import find_protected
from pellucid.data.text.sentences import sentence_ends


@dataclass(frozen=True)
class TextPair:
    """A source and its translation, with the codes of their languages where they are known."""

    source: str
    target: str
    source_language: str | None = None
    target_language: str | None = None

    def exchange(self) -> "TextPair":
        """Return the pair in the other direction."""
        return TextPair(self.target, self.source, self.target_language, self.source_language)


# Takes a pair and a random generator, and returns the noisy pair.
PlantNoise = Callable[[TextPair, Random], TextPair]

# One typing error for so many letters.
LETTERS_FOR_AN_ERROR = 25

_TYPED_WORD = re.compile(r"[^\W\d_]{3,}")
_FIRST_LETTER = re.compile(r"(?<![\w'’])[^\W\d_]")
_END_MARK = re.compile(r"(?<![.!?。！？।])[.!?。！？।]\Z")
# Letters that are no letter with an accent to Unicode, and what people type who do not have them.
_LETTERS_WITHOUT_KEYS = str.maketrans(
    {
        "ß": "ss",
        "æ": "ae",
        "œ": "oe",
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ı": "i",
        "Æ": "AE",
        "Œ": "OE",
        "Ø": "O",
        "Ł": "L",
    }
)
# Scripts whose combining marks are accents: in others they are vowels, or make another letter.
_ACCENTED_LETTER = re.compile("[a-zA-Z\u00c0-\u024f\u0370-\u03ff\u1e00-\u1fff]")
# Spellings of one sign: any of them may take the place of another.
_SPELLINGS = ("'’", "-–", (" ", "\u00a0"), ("...", "…"), ('"', "“", "”", "„", "«", "»"))
_QUOTES = ('""', "“”", "„“", "«»", "''")
_BRACKETS = ("()", "[]")
_BULLETS = ("- ", "• ", "* ", "– ")
_EMOJI = "😀😂🙂😍👍🎉❤🚀☀🐕⚽🍕"
_SYLLABLES = ("ba", "do", "ki", "lu", "mo", "ne", "pa", "ro", "si", "ta", "ve", "zu")


def plant_capitals(pair: TextPair, random: Random) -> TextPair:
    """Write both sides in capitals.

    >>> plant_capitals(TextPair("A dog.", "Straße!"), Random(1))
    TextPair(source='A DOG.', target='STRASSE!', source_language=None, target_language=None)
    """
    source = restore_casing(pair.source, "capitals", pair.source_language)
    target = restore_casing(pair.target, "capitals", pair.target_language)
    return replace(pair, source=source, target=target)


def plant_title_case(pair: TextPair, random: Random) -> TextPair:
    """Write the source with a capital on each word, and the target as titles are written in its language."""
    source = _FIRST_LETTER.sub(lambda match: match[0].upper(), pair.source)
    target = restore_casing(pair.target, "title", pair.target_language)
    return replace(pair, source=source, target=target)


def plant_small_letters(pair: TextPair, random: Random) -> TextPair:
    """Write the source in small letters; its translation keeps its capitals."""
    return replace(pair, source=pair.source.lower())


def plant_end_marks(pair: TextPair, random: Random) -> TextPair:
    """Leave the end mark out on both sides, or write it two or three times.

    >>> pairs = [plant_end_marks(TextPair("Go!", "Los!"), Random(seed)) for seed in range(20)]
    >>> sorted({(pair.source, pair.target) for pair in pairs})
    [('Go', 'Los'), ('Go!!', 'Los!!'), ('Go!!!', 'Los!!!')]
    """
    if not (_END_MARK.search(pair.source) and _END_MARK.search(pair.target)):
        return pair
    times = random.choice((0, 0, 2, 3))
    source, target = (text[:-1] + text[-1] * times for text in (pair.source, pair.target))
    return replace(pair, source=source, target=target)


def plant_typing_errors(pair: TextPair, random: Random) -> TextPair:
    """Plant typing errors into the words of the source, one for 25 letters, and at least one."""
    protected: set[int] = set()
    for match in find_protected(pair.source):
        protected.update(range(*match.span()))
    words = [match.span() for match in _TYPED_WORD.finditer(pair.source)]
    words = [(start, end) for start, end in words if start not in protected]
    if not words:
        return pair
    letters = sum(end - start for start, end in words)
    errors = min(len(words), max(1, round(letters / LETTERS_FOR_AN_ERROR)))
    source = pair.source

    # From the end, so that the places of the other words stay right.
    for start, end in sorted(random.sample(words, errors), reverse=True):
        source = source[:start] + mistype_word(source[start:end], random) + source[end:]
    return replace(pair, source=source)


def mistype_word(word: str, random: Random) -> str:
    """Return a word with two letters in the wrong order, a letter left out, doubled or replaced by another."""
    i = random.randrange(len(word) - 1)
    first, second = word[i], word[i + 1]
    slips = (second + first, second, first + first + second, random.choice(word) + second)
    replacement = random.choice(slips)
    return word[:i] + replacement + word[i + 2 :]


def plant_lost_accents(pair: TextPair, random: Random) -> TextPair:
    """Write the source without accents, as people do whose keyboard has none.

    >>> plant_lost_accents(TextPair("El niño comió größere Äpfel.", ""), Random(1)).source
    'El nino comio grossere Apfel.'
    """
    return replace(pair, source=strip_accents(pair.source))


def strip_accents(text: str) -> str:
    """Return a text without the accents on Latin and Greek letters."""
    if text.isascii():
        return text
    kept, base = [], ""
    for character in unicodedata.normalize("NFD", text.translate(_LETTERS_WITHOUT_KEYS)):
        if unicodedata.combining(character) and _ACCENTED_LETTER.match(base):
            continue
        base = character
        kept.append(character)
    return unicodedata.normalize("NFC", "".join(kept))


def plant_spellings(pair: TextPair, random: Random) -> TextPair:
    """Write quotation marks, apostrophes, dashes, dots and some spaces of the source in another way."""
    source = pair.source
    for spellings in _SPELLINGS:
        found = [spelling for spelling in spellings if spelling in source]
        if not found:
            continue
        old = found[0]
        new = random.choice([spelling for spelling in spellings if spelling not in found] or [old])
        # One space is enough: people rarely write more than a few that are not plain.
        places = [match.start() for match in re.finditer(re.escape(old), source)]
        chosen = [random.choice(places)] if old == " " else places
        for place in reversed(chosen):
            source = source[:place] + new + source[place + len(old) :]

    return replace(pair, source=source)


def plant_marks(pair: TextPair, random: Random) -> TextPair:
    """Put a number or a bullet before both sides, or quotation marks or brackets around them."""
    kind = random.choice(("number", "bullet", "quotes", "brackets"))
    if kind == "number":
        whole, section = random.randint(1, 30), (random.randint(1, 9), random.randint(1, 9))
        number = random.choice((f"{whole}", f"{section[0]}.{section[1]}"))
        before, after = f"{number}{random.choice('.).:')} ", ""
    elif kind == "bullet":
        before, after = random.choice(_BULLETS), ""
    else:
        before, after = random.choice(_QUOTES if kind == "quotes" else _BRACKETS)

    source, target = f"{before}{pair.source}{after}", f"{before}{pair.target}{after}"
    return replace(pair, source=source, target=target)


def plant_copies(pair: TextPair, random: Random) -> TextPair:
    """Put something before or behind both sides that stays as it is: an address, a code, a placeholder, an emoji."""
    name = "".join(random.choices(_SYLLABLES, k=random.randint(2, 4)))
    number = str(random.randint(0, 10 ** random.randint(1, 5)))
    copied = random.choice(
        (
            f"{name}@{random.choice(_SYLLABLES)}{random.choice(('.com', '.org', '.eu'))}",
            f"https://{name}.org/{number}",
            f"www.{name}.com",
            f"{name[:2].upper()}-{number}",
            f"{{{name}}}",
            f"%{random.choice('sd')}",
            f"#{name}",
            f"@{name}",
            f"{random.randint(0, 23)}:{random.randint(0, 59):02}",
            f"({number})",
            random.choice(_EMOJI) * random.randint(1, 2),
        )
    )
    if random.random() < 0.5:
        return replace(pair, source=f"{copied} {pair.source}", target=f"{copied} {pair.target}")
    return replace(pair, source=f"{pair.source} {copied}", target=f"{pair.target} {copied}")


def join_pairs(first: TextPair, second: TextPair) -> TextPair:
    """Return two pairs as one, with a space between the sentences where their script has spaces.

    >>> join_pairs(TextPair("I see.", "Ich sehe."), TextPair("Go!", "Los!")).target
    'Ich sehe. Los!'
    """
    source = _join_sentences(first.source, second.source)
    return replace(first, source=source, target=_join_sentences(first.target, second.target))


def drop_sentences(pair: TextPair, random: Random) -> TextPair:
    """Return one sentence of a pair of several, where both sides have as many.

    >>> drop_sentences(TextPair("I see. Go!", "Ich sehe. Los!"), Random(1)).source in ("I see.", "Go!")
    True
    """
    sources, targets = _cut_into_sentences(pair.source), _cut_into_sentences(pair.target)
    if len(sources) != len(targets) or len(sources) < 2:
        return pair
    chosen = random.randrange(len(sources))
    return replace(pair, source=sources[chosen], target=targets[chosen])


# The kinds that need one pair alone, by the names of their settings.
NOISE_KINDS: dict[str, PlantNoise] = {
    "capitals": plant_capitals,
    "title_case": plant_title_case,
    "small_letters": plant_small_letters,
    "end_marks": plant_end_marks,
    "typing_errors": plant_typing_errors,
    "lost_accents": plant_lost_accents,
    "spellings": plant_spellings,
    "marks": plant_marks,
    "copies": plant_copies,
}


def _join_sentences(first: str, second: str) -> str:
    """Join two sentences, without a space between wide characters such as Chinese ones."""
    edges = (first[-1:], second[:1])
    is_wide = all(unicodedata.east_asian_width(edge or " ") in "WF" for edge in edges)
    return first + second if is_wide else f"{first} {second}"


def _cut_into_sentences(text: str) -> list[str]:
    ends = [0, *sentence_ends(text, 0, len(text))]
    return [text[start:end].strip() for start, end in pairwise(ends)]
