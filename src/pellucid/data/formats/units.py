"""Units of a file of pairs, each with its pair or a reason why there is none, and the choice of the two sides."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pellucid.data.lines import strip_compression

# The advice where it is not clear which two sides of a file make pairs.
CHOICE = "name two of them, for example --from {} --to {} (data.source_language and data.target_language in a run file)"

# Codes of languages, without those that are common words ("is", "it", "no", "he").
_CODES_WITHOUT_WORDS = """
ar bg ca cs da de el en es eu fa fi fr gl hi hr hu ja ko lv nl pl pt ro ru sk sl sv tr uk zh
ara ces deu eng fra fre ger hin ita jpn kor nld pol por rus spa swe tur ukr zho
"""

LANGUAGES_BY_NAME = {  # codes of languages by the names that stand over columns
    name: code
    for line in """
    ar arabic; ca catalan; cs czech; da danish; de german deutsch; el greek; en english; es spanish español; fi finnish
    fr french français; he hebrew; hi hindi; hu hungarian; it italian italiano; ja japanese; ko korean; nl dutch
    no norwegian; pl polish; pt portuguese português; ro romanian; ru russian; sv swedish; tr turkish; uk ukrainian
    zh chinese
    """.replace("\n", ";").split(";")
    for code, *names in [line.split() or [""]]
    for name in names
}

SOURCE_NAMES = ("source", "src", "original")
TARGET_NAMES = ("target", "tgt", "trg", "translation", "reference", "ref")
_SIDE_WORDS = "(?:[ _-]?(?:text|sentence|segment|language))?"
_CODE = re.compile(rf"({'|'.join(_CODES_WITHOUT_WORDS.split())})(?:[_-][a-z0-9]{{2,8}})*", re.IGNORECASE)
_ANY_CODE = re.compile(r"[a-z]{2,3}(?:[_-][a-z0-9]{2,8})*", re.IGNORECASE)


class Unit(NamedTuple):
    """A pair at a place in a file, or the reason why there is none; a sentence may still contain line feeds."""

    number: int  # number of the unit in its file, from 1; in a file of lines, that of its (first) line
    source: str = ""
    target: str = ""
    line: int | None = None  # line of the file where the unit stands, if its number is not that line
    problem: str | None = None


@dataclass
class Sides:
    """Language, column or key of each side of a file of pairs: as asked for, and once reading began, as it is."""

    source: str | None = None
    target: str | None = None

    @property
    def languages(self) -> tuple[str, str] | None:
        """Both languages, if both are known and look like codes of languages."""
        known = [side for side in (self.source, self.target) if side and is_code(side)]
        return (known[0], known[1]) if len(known) == 2 else None


def matches_language(wish: str, tag: str) -> bool:
    """Whether a language tag is the wished one or a regional form of it, in whatever case.

    >>> matches_language("en", "en-US"), matches_language("en_us", "EN-US"), matches_language("en-US", "en")
    (True, True, False)
    """
    wish, tag = (text.strip().lower().replace("_", "-") for text in (wish, tag))
    return tag == wish or tag.startswith(f"{wish}-")


def find_language(wish: str, tags: Sequence[str]) -> int | None:
    """Return the index of the tag that matches a wished language best, an equal one before a regional form."""
    exact = (i for i, tag in enumerate(tags) if matches_language(wish, tag) and matches_language(tag, wish))
    return next(exact, next((i for i, tag in enumerate(tags) if matches_language(wish, tag)), None))


def is_code(text: str) -> bool:
    """Whether a text looks like the code of a language: two or three letters, and perhaps a region or a script."""
    # The endings of names of files that are no languages.
    return _ANY_CODE.fullmatch(text) is not None and text.lower() not in ("txt", "xml", "ids", "md", "tsv")


def is_header(cell: str) -> bool:
    """Whether the first cell of a column looks like the name of a side: source, en-US, English."""
    cell = cell.strip().lower()
    return bool(_CODE.fullmatch(cell)) or cell in LANGUAGES_BY_NAME or names_side(cell, (*SOURCE_NAMES, *TARGET_NAMES))


def names_side(cell: str, names: Sequence[str]) -> bool:
    """Whether a cell in small letters is one of the names of a side, such as "target" or "target_text"."""
    return re.fullmatch(f"({'|'.join(names)}){_SIDE_WORDS}", cell) is not None


def find_column(wish: str, names: Sequence[str]) -> int | None:
    """Return the index of the column with a wished name or language.

    >>> find_column("de", ["id", "English", "German"]), find_column("GERMAN", ["German", "en-US"])
    (2, 0)
    """
    plain = [name.strip().lower() for name in names]
    if wish.strip().lower() in plain:
        return plain.index(wish.strip().lower())
    return find_language(wish, [LANGUAGES_BY_NAME.get(name, name) for name in plain])


def choose_sides(sides: Sides, names: Iterable[str], file: str, what: str = "languages") -> None:
    """Choose the two of several languages or columns that make pairs, where `sides` does not name both.

    They are chosen if there are just two, regional forms of one language counting as one. Raises ValueError, with all
    names, if the choice is not clear.
    """
    names = list(dict.fromkeys(names))
    for wish in (sides.source, sides.target):
        if wish is not None and find_column(wish, names) is None:
            raise ValueError(f"{file} has no {wish!r}; its {what} are {', '.join(names) or 'not named'}")
    if sides.source is not None and sides.target is not None:
        return
    given = [wish for wish in (sides.source, sides.target) if wish is not None]
    left = [name for name in names if all(find_column(wish, [name]) is None for wish in given)]
    if len(left) > 2 - len(given):
        codes = (name.replace("_", "-").partition("-")[0].lower() if is_code(name) else name for name in left)
        left = list(dict.fromkeys(codes))
    if len(left) != 2 - len(given):
        listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        if len(names) < 2:
            raise ValueError(f"{file} has {'only one of the ' if names else 'no '}{what} that a pair needs: {listed}")
        raise ValueError(f"{file} has {len(names)} {what}: {listed}; {CHOICE.format(*names[:2])}")
    if sides.source is None:
        sides.source = left.pop(0)
    if sides.target is None:
        sides.target = left.pop(0)


def languages_of_files(source: object, target: object) -> tuple[str, str] | None:
    """Return the codes of well-known languages with which the names of two files end, or None.

    >>> languages_of_files("data/train.en", "data/train.es.gz"), languages_of_files("a.src", "b.tgt")
    (('en', 'es'), None)
    """
    codes = [Path(strip_compression(str(name))).suffix.removeprefix(".") for name in (source, target)]
    known = [code in LANGUAGES_BY_NAME.values() or bool(_CODE.fullmatch(code)) for code in codes]
    return (codes[0], codes[1]) if codes[0] != codes[1] and all(known) else None


Skip = Callable[[Unit, str], None]  # a function that is told of each pair that a format cannot hold, and why
