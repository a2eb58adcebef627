"""Units of a file of pairs, each with its pair or a reason why there is none, and the choice of the two sides."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pellucid.data.languages import describe_language, is_known_language, list_spellings, split_code
from pellucid.data.lines import strip_compression

# The advice where it is not clear which two sides of a file make pairs.
CHOICE = "name two of them, for example --from {} --to {} (data.source_language and data.target_language in a run file)"

# Codes of languages, without those that are common words ("is", "it", "no", "he").
_CODES_WITHOUT_WORDS = """
ar bg ca cs da de el en es eu fa fi fr gl hi hr hu ja ko lv nl pl pt ro ru sk sl sv tr uk zh
ara ces deu eng fra fre ger hin ita jpn kor nld pol por rus spa swe tur ukr zho
"""

# Codes of languages, each with the names that stand over columns.
_NAMES_BY_CODE = """
ar arabic; ca catalan; cs czech; da danish; de german deutsch; el greek; en english
es spanish español; fi finnish; fr french français; he hebrew; hi hindi; hu hungarian
it italian italiano; ja japanese; ko korean; nl dutch; no norwegian; pl polish
pt portuguese português; ro romanian; ru russian; sv swedish; tr turkish; uk ukrainian; zh chinese
"""


def _list_languages_by_name() -> dict[str, str]:
    codes = {}
    for row in _NAMES_BY_CODE.strip().replace("\n", ";").split(";"):
        code, *names = row.split()
        codes.update(dict.fromkeys(names, code))
    return codes


LANGUAGES_BY_NAME = _list_languages_by_name()
"""Codes of languages by the names that stand over columns."""

SOURCE_NAMES = ("source", "src", "original")
TARGET_NAMES = ("target", "tgt", "trg", "translation", "reference", "ref")
_SIDE_WORDS = "(?:[ _-]?(?:text|sentence|segment|language))?"
_CODES = "|".join(_CODES_WITHOUT_WORDS.split())
_CODE = re.compile(rf"({_CODES})(?:[_-][a-z0-9]{{2,8}})*", re.IGNORECASE)
_ANY_CODE = re.compile(r"[a-z]{2,3}(?:[_-][a-z0-9]{2,8})*", re.IGNORECASE)


class Unit(NamedTuple):
    """A pair at a place in a file, or the reason why there is none; a sentence may still contain line feeds."""

    # Number of the unit in its file, from 1; in a file of lines, the number of its (first) line.
    number: int
    source: str = ""
    target: str = ""
    # Line of the file where the unit stands, if its number is not that line.
    line: int | None = None
    problem: str | None = None


OTHER_LANGUAGES = "other languages"
"""The reason why a row is left out that names other languages than those that are read."""

# Rows after which a file is refused at once if hardly any fits, and not only at its end.
_ROWS_JUDGED = 1_000
_FEWEST_FITTING = 0.1  # the share of the rows that must fit


def require_fitting_rows(
    path: str, units: Iterable[Unit], expect: Callable[[], str]
) -> Iterator[Unit]:
    """Yield the units of a file of rows; raise ValueError if fewer than one row in ten fits, with what was expected.

    A row that does not fit has a problem, and whoever reads the units counts it. If hardly any row
    fits, the file holds something else than pairs, or was read in a wrong way, and the few rows
    that fit do so by accident.
    """
    fitting, first, misfits = 0, None, 0
    for unit in units:
        if unit.problem is None:
            fitting += 1
        elif unit.problem != OTHER_LANGUAGES:
            first, misfits = first or unit, misfits + 1

        if fitting + misfits == _ROWS_JUDGED:
            _refuse_misfits(path, fitting, misfits, first, expect)
        yield unit

    _refuse_misfits(path, fitting, misfits, first, expect)


def _refuse_misfits(
    path: str, fitting: int, misfits: int, first: Unit | None, expect: Callable[[], str]
) -> None:
    if first is not None and fitting < _FEWEST_FITTING * (fitting + misfits):
        raise ValueError(
            f"{path}:{first.line or first.number}: {first.problem}, and so it is in {misfits:,} of "
            f"{fitting + misfits:,} rows, too many to leave out; expected {expect()}"
        )


@dataclass
class Sides:
    """Language, column or key of each side of a file of pairs: as asked for, and once reading began, as it is."""

    source: str | None = None
    target: str | None = None
    strict: bool = False
    """Whether a file is refused if only the order of its members, columns or keys would decide which side is which."""
    named_after: tuple[str, ...] = ()
    """One or two files, such as pairs.en-es.tsv, or a.en and a.es, whose names decide before what the file says."""
    said_by: str = ""
    """Once reading began: what in the file, or of its name, said which side is which."""

    @property
    def languages(self) -> tuple[str, str] | None:
        """Both languages, if both are known and look like codes of languages."""
        known = [side for side in (self.source, self.target) if side and is_code(side)]
        return (known[0], known[1]) if len(known) == 2 else None


def matches_language(wish: str, tag: str) -> bool:
    """Whether a tag names the wished language or a regional form of it; case and two or three letters do not matter.

    >>> matches_language("en", "en-US"), matches_language("en_us", "EN-US"), matches_language("en-US", "en")
    (True, True, False)
    >>> matches_language("spa", "es-MX"), matches_language("es", "est")
    (True, False)
    """
    (language, region), (other_language, other_region) = split_code(wish), split_code(tag)
    if language != other_language:
        return False
    return not region or other_region == region or other_region.startswith(f"{region}-")


def may_match(code: str, other: str) -> bool:
    """Whether two codes may mean the same language: one of them may leave out the region.

    >>> may_match("en-US", "en"), may_match("en", "eng_US"), may_match("pt-PT", "pt-BR")
    (True, True, False)
    """
    return matches_language(code, other) or matches_language(other, code)


def find_language(wish: str, tags: Sequence[str]) -> int | None:
    """Return the index of the tag that matches a wished language best, an equal one before a regional form."""
    matching = [i for i, tag in enumerate(tags) if matches_language(wish, tag)]
    for i in matching:
        if matches_language(tags[i], wish):
            return i
    return matching[0] if matching else None


# A file has few combinations of languages, and comparing tags took half of the time.
@lru_cache(maxsize=1000)
def find_two_languages(
    tags: tuple[str, ...], source: str, target: str
) -> tuple[int | None, int | None]:
    """Return the indices of the tags that match two wished languages best, None for one that is missing."""
    target_index = find_language(target, tags)
    # "en" to "en-GB": the tag of the target is not the one of the source, too.
    others = [tag if i != target_index else "" for i, tag in enumerate(tags)]
    return find_language(source, others), target_index


def is_code(text: str) -> bool:
    """Whether a text looks like the code of a language: two or three letters, and perhaps a region or a script."""
    # The endings of names of files that are no languages.
    is_ending = text.lower() in ("txt", "xml", "ids", "md", "tsv")
    return _ANY_CODE.fullmatch(text) is not None and not is_ending


def is_header(cell: str) -> bool:
    """Whether the first cell of a column looks like the name of a side: source, en-US, English."""
    cell = cell.strip().lower()
    if _CODE.fullmatch(cell) or cell in LANGUAGES_BY_NAME:
        return True
    return names_side(cell, (*SOURCE_NAMES, *TARGET_NAMES))


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


def choose_sides(
    sides: Sides,
    names: Iterable[str],
    file: str,
    what: str = "languages",
    first: tuple[str, str] | None = None,
    inner_name: str = "",
) -> None:
    """Choose the two of several languages or columns that make pairs, where `sides` does not name both.

    They are chosen if there are just two, regional forms of one language counting as one. Which of
    them is the source is said by names of files (`order_by_name`; `inner_name` is the name of a
    file inside), or by the file, which calls one of them its `first`, in words that are the second
    of these. Otherwise the first of the names is the source; where `sides` is strict, that is
    refused. Raises ValueError, with all names, if the choice is not clear.
    """
    names = list(dict.fromkeys(names))
    for wish in (sides.source, sides.target):
        if wish is not None and find_column(wish, names) is None:
            listed = ", ".join(names) or "not named"
            raise ValueError(f"{file} has no {wish!r}; its {what} are {listed}")

    if sides.source is not None and sides.target is not None:
        return
    given = [wish for wish in (sides.source, sides.target) if wish is not None]
    left = []
    for name in names:
        if all(find_column(wish, [name]) is None for wish in given):
            left.append(name)

    if len(left) > 2 - len(given):
        codes = (split_code(name)[0] if is_code(name) else name for name in left)
        left = list(dict.fromkeys(codes))

    if len(left) > 2 and len(sides.named_after) == 2:
        source, target = map(language_of_file, sides.named_after)
        if source and target and source != target:
            columns = find_column(source, names), find_column(target, names)
            if None not in columns:
                sides.source, sides.target = source, target
                return

    if len(left) != 2 - len(given):
        listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        if len(names) < 2:
            found = f"only one of the {what}" if names else f"no {what}"
            raise ValueError(f"{file} has {found} that a pair needs: {listed}")
        raise ValueError(f"{file} has {len(names)} {what}: {listed}; {CHOICE.format(*names[:2])}")

    if not given:
        left = _order_sides(sides, left, file, what, first, inner_name)
    if sides.source is None:
        sides.source = left.pop(0)
    if sides.target is None:
        sides.target = left.pop(0)


def _order_sides(
    sides: Sides,
    names: list[str],
    file: str,
    what: str,
    first: tuple[str, str] | None,
    inner_name: str,
) -> list[str]:
    """Return two names, the name of the sources first, and note in `sides` what the order was learned from."""
    if len(sides.named_after) == 1 and (ordered := order_by_name(sides.named_after[0], names)):
        return ordered
    if len(sides.named_after) == 2 and any(map(language_of_file, sides.named_after)):
        # Where they fit neither way, whoever writes the files refuses.
        return _order_by_two_names(sides.named_after, names) or names

    # The second time without the region, which the names may have lost.
    for code in (first[0], split_code(first[0])[0]) if first is not None and first[0] else ():
        if first is not None and (index := find_language(code, names)) is not None:
            sides.said_by = first[1]
            return [names[index], names[1 - index]]

    for name in (file, inner_name):
        if name and (ordered := order_by_name(name, names)):
            sides.said_by = f"the name of {Path(name).name}"
            return ordered

    if sides.strict:
        one, other = names
        raise ValueError(
            f"{file} does not say which of its {what} {one} and {other} is translated into the other; choose with "
            f"--from {one} --to {other}, or --from {other} --to {one} (data.source_language and data.target_language "
            "in a run file)"
        )
    return names


def order_by_name(file: str, names: Sequence[str]) -> list[str] | None:
    """Return two languages in the order in which the name of a file has them one behind the other, or None.

    >>> order_by_name("Books.de-en.zip", ["en", "de"]), order_by_name("spa_eng.tsv.gz", ["en-US", "es"])
    (['de', 'en'], ['es', 'en-US'])
    >>> order_by_name("mine.zip", ["en", "de"]), order_by_name("german-to-english.csv", ["English", "German"])
    (None, ['German', 'English'])
    """
    stem = Path(strip_compression(file)).name.lower()
    spellings = []
    for name in names:
        plain = name.strip().lower()
        words = list_spellings(LANGUAGES_BY_NAME.get(plain, plain))
        spelled = "|".join(map(re.escape, words))
        spellings.append(f"(?:{spelled})(?:[-_](?:[a-z]{{2}}|[a-z]{{4}}|[0-9]{{3}}))?")

    orders = []
    for i in (0, 1):
        between = f"{spellings[i]}(?:[-_.]|2|[-_ ]?to[-_ ]?){spellings[1 - i]}"
        if re.search(f"(?<![a-z0-9]){between}(?![a-z0-9])", stem):
            orders.append([names[i], names[1 - i]])
    return orders[0] if len(orders) == 1 else None


def languages_in_name(file: str) -> tuple[str, str] | None:
    """Return the two languages whose codes stand one after the other in a file's name, in that order, or None.

    >>> languages_in_name("data/Books.de-en.tsv"), languages_in_name("spa_eng.csv.gz"), languages_in_name("mine.tsv")
    (('de', 'en'), ('spa', 'eng'), None)
    """
    stem = Path(strip_compression(file)).name.lower()
    two = f"({_CODES})(?:[-_]|2|[-_]to[-_])({_CODES})"
    third = f"[-_](?:{_CODES})(?![a-z0-9])"
    found = set(re.findall(f"(?<![a-z0-9]){two}(?![a-z0-9]|{third})", stem))
    if len(found) != 1:
        return None
    [(first, second)] = found
    # Regions of one language: French of Canada, Spanish of Argentina.
    is_region = (first, second) in (("en", "ca"), ("fr", "ca"), ("es", "ar"))
    return None if is_region or split_code(first)[0] == split_code(second)[0] else (first, second)


def _order_by_two_names(files: Sequence[str], names: Sequence[str]) -> list[str] | None:
    """Return two languages in the order of the files named after them, or None; one file may be named otherwise."""
    codes = [LANGUAGES_BY_NAME.get(name.strip().lower(), name) for name in names]
    borne = [language_of_file(file) for file in files]

    # Whole codes first, for the two may be regional forms of one language.
    for wishes in (borne, [language and split_code(language)[0] for language in borne]):
        for first, second in ((0, 1), (1, 0)):
            fits = [
                not wishes[0] or matches_language(wishes[0], codes[first]),
                not wishes[1] or matches_language(wishes[1], codes[second]),
            ]
            if all(fits):
                return [names[first], names[second]]
    return None


def languages_of_files(source: object, target: object) -> tuple[str, str] | None:
    """Return the codes of well-known languages that tell the names of two files apart, or None.

    >>> languages_of_files("data/train.en", "data/train.es.gz"), languages_of_files("a.src", "b.tgt")
    (('en', 'es'), None)
    >>> languages_of_files("train.en-GB.txt", "train.spa.txt"), languages_of_files("talks_en.tok", "talks_de.tok")
    (('en-GB', 'spa'), ('en', 'de'))
    """
    codes = language_of_file(source), language_of_file(target)
    return (codes[0], codes[1]) if codes[0] and codes[1] and codes[0] != codes[1] else None


def language_of_file(file: object) -> str | None:
    """Return the code of the language that the name of a file of sentences bears, or None.

    It is the ending, behind which another one may stand, or else the
    last word of the name before its ending.

    >>> [language_of_file(name) for name in ("train.es-MX.gz", "en.txt", "de/train.no", "train_eng.txt", "train.txt")]
    ['es-MX', 'en', 'no', 'eng', None]
    """
    name = Path(strip_compression(str(file))).name
    parts = name.split(".")

    # The ending first, and then what stands before it: train.en.txt, en.txt.
    for part in reversed(parts[-2:] if len(parts) > 1 else []):
        if is_known_language(part):
            return part

    # Of train_en.txt only codes that are no common words: "the_one_to.txt" is not Tonga's.
    words = re.split("[-_ ]", parts[max(0, len(parts) - 2)])
    return words[-1] if len(words) > 1 and _CODE.fullmatch(words[-1]) else None


def refuse_exchanged_files(source: object, target: object, languages: Sequence[str | None]) -> None:
    """Raise ValueError if the names of two files bear these two languages the other way round."""
    named = languages_of_files(source, target)
    wished = [language if language and is_code(language) else None for language in languages]
    if named is None or not any(wished):
        return
    first, second = (None if language is None else split_code(language)[0] for language in wished)

    bases = [split_code(code)[0] for code in named]
    if (first in (None, bases[1]) and second in (None, bases[0])) and bases[0] != bases[1]:
        raise ValueError(
            f"the sources are to be {_describe_wish(wished[0])} and the translations {_describe_wish(wished[1])}, but "
            f"by their names {source} is {describe_language(named[0])} and {target} {describe_language(named[1])}; "
            "exchange the two files, or the two languages"
        )


def _describe_wish(language: str | None) -> str:
    return "any language" if language is None else describe_language(language)


# A function that is told of each pair that a format cannot hold, and why.
Skip = Callable[[Unit, str], None]
