"""Reads a character that a model does not know as its plain counterpart, and gives copied words their spelling back."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

_QUOTES = dict.fromkeys("“”„‟«»″〝〞", '"') | dict.fromkeys("‘’‚‛‹›′´ʼ", "'")
_DASHES = dict.fromkeys("‐‑‒–—―−", "-")
# Soft hyphen, zero-width spaces and joiners, byte order mark, and the marks of writing direction.
# The joiner of emoji (U+200D) is not among them: it is part of a picture.
_INVISIBLE = dict.fromkeys(
    "\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064"
    "\u2066\u2067\u2068\u2069\ufeff",
    "",
)
_PLAIN = {**_QUOTES, **_DASHES, **_INVISIBLE, "…": "..."}

# Kinds of Unicode's compatibility decompositions that change how a character looks and not what it
# says. Superscripts, fractions and circled numbers are not among them: "m²" is not "m2".
_SAME_TEXT = (
    "<wide>",
    "<narrow>",
    "<font>",
    "<compat>",
    "<initial>",
    "<medial>",
    "<final>",
    "<isolated>",
)

# Share of the lines of its side from which a spelling with a plain
# counterpart is learned, and not read as that.
LEARNED_SPELLING = 0.001

_WORD = re.compile("[^ ]+")


@cache
def plain_counterpart(character: str) -> str | None:
    """Return the plain text that a character is another spelling of, or None where it has none.

    >>> [plain_counterpart(character) for character in "\u00a0’—\u200bＡﬁ²é"]
    [' ', "'", '-', '', 'A', 'fi', None, None]
    """
    if character in _PLAIN:
        return _PLAIN[character]
    if unicodedata.category(character) == "Zs":
        return " " if character != " " else None
    kind, _, code_points = unicodedata.decomposition(character).partition(" ")
    if kind not in _SAME_TEXT:
        return None
    plain = "".join(chr(int(code_point, 16)) for code_point in code_points.split())
    # An accent that stands alone is decomposed into a space and
    # the accent, which says nothing plainer.
    return None if plain.startswith(" ") else plain


def show_character(character: str) -> str:
    """Return a character for a message: as it is where a reader can see it, else its code.

    >>> [show_character(character) for character in "é☃\u00a0\u0301"]
    ['é', '☃', 'U+00A0', 'U+0301']
    """
    is_blank = not character.isprintable() or character.isspace()
    if is_blank or unicodedata.combining(character):
        return f"U+{ord(character):04X}"
    return character


def describe_character(character: str) -> str:
    """Return the code and the name of a character.

    >>> describe_character("\u00a0")
    'U+00A0 (no-break space)'
    """
    return f"U+{ord(character):04X} ({unicodedata.name(character, 'no name').lower()})"


@dataclass(frozen=True)
class PlainText:
    """A text in the spelling that a model knows, with the words that were spelled differently: (plain, as it was)."""

    text: str
    respelled: tuple[tuple[str, str], ...] = ()

    def restore(self, translation: str) -> str:
        """Give words that the translation copied from the text the spelling that they had there.

        >>> plain = spell_plainly("Zoe\u0308 paid 12\u202f000.", lambda character: character in "ë ")
        >>> plain.restore("Zoë zahlte 12 000.")
        'Zoe\u0308 zahlte 12\u202f000.'
        """
        for plain, original in self.respelled:
            copied = re.compile(rf"(?<!\w){re.escape(plain)}(?!\w)")
            translation = copied.sub(lambda _, original=original: original, translation, count=1)
        return translation


def spell_plainly(text: str, knows: Callable[[str], bool]) -> PlainText:
    """Replace characters that a model does not know (`knows` says it) by a counterpart that it does know.

    A letter and its accent may be one character or two: the spelling that is known is taken.

    >>> spell_plainly("Don’t\u00a0go, Zoe\u0308…", lambda character: character in "ë")
    PlainText(text="Don't go, Zoë...", respelled=(("Don't go", 'Don’t\xa0go'), ('Zoë', 'Zoe\u0308')))
    """
    if text.isascii() or all(map(knows, set(text))):
        return PlainText(text)

    out: list[str] = []
    respelled: list[tuple[str, str]] = []
    previous_end = 0
    for match in _WORD.finditer(text):
        word = match[0]
        plain = "".join(_spell_cluster(cluster, knows) for cluster in _split_clusters(word))
        # A word of invisible characters alone stays, so that a text never loses a word.
        if plain == word or not plain:
            continue
        out += [text[previous_end : match.start()], plain]
        previous_end = match.end()
        core = _strip_signs(plain)
        if core:
            respelled.append((core, _strip_signs(word)))

    if not out:
        return PlainText(text)
    return PlainText(
        "".join([*out, text[previous_end:]]),
        tuple(pair for pair in respelled if pair[0] != pair[1]),
    )


def _split_clusters(word: str) -> list[str]:
    """Split a word into characters, each with the marks that combine with it."""
    clusters: list[str] = []
    for character in word:
        if clusters and unicodedata.combining(character):
            clusters[-1] += character
        else:
            clusters.append(character)
    return clusters


def _spell_cluster(cluster: str, knows: Callable[[str], bool]) -> str:
    """Return a character, with its marks, in a spelling that is known, or as it is where none is."""
    if cluster.isascii() or all(map(knows, cluster)):
        return cluster
    for form in ("NFC", "NFD"):
        spelled = unicodedata.normalize(form, cluster)
        knows_all = all(character.isascii() or knows(character) for character in spelled)
        if spelled != cluster and knows_all:
            return spelled

    plain: list[str | None] = []
    for character in cluster:
        plain.append(character if knows(character) else plain_counterpart(character))
    counterparts = [character for character in plain if character is not None]
    if len(counterparts) < len(plain):
        return unicodedata.normalize("NFC", cluster)
    return "".join(counterparts)


def _strip_signs(word: str) -> str:
    """Return a word from its first letter or digit to its last."""
    inside: list[int] = []
    for i, character in enumerate(word):
        if character.isalnum() or unicodedata.combining(character):
            inside.append(i)
    return word[inside[0] : inside[-1] + 1] if inside else ""
