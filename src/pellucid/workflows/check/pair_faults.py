"""Faults of a single pair: one function for each, and the table of all faults that the doctor knows."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pellucid.data.text.markup import TAG
from pellucid.data.text.numbers import count_differing_numbers
from pellucid.data.text.protected import PROTECTED_SIGN, list_protected
from pellucid.data.text.sentences import count_sentences

# Takes a source and a target and returns how bad the fault is, 0 for
# none; within one fault the numbers compare.
PairCheck = Callable[[str, str], float]


@dataclass(frozen=True)
class _Fault:
    """A fault of parallel text: its title and one sentence each for what it is and what it is likely to cost."""

    title: str
    means: str
    costs: str
    removed: bool = True  # whether `--fix` takes such pairs out unless it is told to keep them
    # The check of a single pair; faults without one need the whole corpus.
    check: PairCheck | None = None

    @property
    def sentences(self) -> tuple[str, str]:
        """Two sentences: what the fault is, and what it is likely to cost."""
        return f"{self.means[0].upper()}{self.means[1:]}.", f"Likely cost: {self.costs}."


# Words from which an untranslated line is a copy: shorter ones are
# mostly names, which are their own translation.
WORDS_OF_A_COPY = 3
# Characters of a side that is one sentence; the longest paragraph of Python's manual has about 900.
LONGEST_SIDE = 1_000
# Characters of a word; longer ones that are no address are codes or lines without spaces.
LONGEST_WORD = 60
LETTERS_OF_CAPITALS = 8  # letters from which a side in capitals is a style and not an abbreviation

_LETTERS = re.compile(r"[^\W\d_]{2,}")
# Protected text that people write anew: code, notes such as [1],
# a quoted brace, a sign such as &amp;.
_CODE_OR_NOTE = re.compile(r"[^`]*`|[#\['&]")
_ENTITY = re.compile(r"&(?:[a-zA-Z]{2,8}|#\d{2,6}|#x[\da-fA-F]{2,5});")
_END_MARKS: dict[str, int] = {}
for _kind, _marks in enumerate((".。।…．", "?？؟;", "!！", ":："), start=1):
    _END_MARKS |= dict.fromkeys(_marks, _kind)
_CLOSERS = " \t\u00a0\u202f\u200b\"'»«”“„’‘‚›‹」』）)]}*`"
_INNER_END = re.compile(r"""[.!?…]["'”’»)]*\s+\S|[。！？].""")

# The bytes of UTF-8 after the first, as Latin-1 and Windows-1252 show them.
_CONTINUED = "\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
_SUSPECT = re.compile("[\ufffd\x80-\x9fÂÃâÐÑï]")
_MOJIBAKE = re.compile(
    rf"\ufffd|[\x80-\x9f]|[ÂÃ][{_CONTINUED}]|â[{_CONTINUED}]{{2}}|(?:[ÐÑ][{_CONTINUED}]){{2}}|ï»¿"
)

# Joiners shape letters, and marks of direction belong into text
# from right to left: both are left alone.
_CONTROLS = re.compile(
    "[\0-\x1f\x7f\u00ad\u200b\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffc]"
)


def has_empty_side(source: str, target: str) -> bool:
    """Whether one side of a pair has no text."""
    return not source or not target or source.isspace() or target.isspace()


def _find_empty(source: str, target: str) -> float:
    return float(has_empty_side(source, target))


def _find_copy(source: str, target: str) -> float:
    """Return the number of words where the target is the source again, but for case."""
    if len(source) != len(target) or (source != target and source.casefold() != target.casefold()):
        return 0
    words = len(_LETTERS.findall(source))
    return float(words) if words >= WORDS_OF_A_COPY else 0


def _find_mojibake(source: str, target: str) -> float:
    suspects = [text for text in (source, target) if not text.isascii() and _SUSPECT.search(text)]
    return float(sum(len(_MOJIBAKE.findall(text)) for text in suspects))


def _find_controls(source: str, target: str) -> float:
    controls = 0
    for text in (source, target):
        if not text.isprintable():
            controls += len(_CONTROLS.findall(text))
    return float(controls)


def _find_markup(source: str, target: str) -> float:
    """Return the number of tags that only one side has, and of HTML entities that were never decoded."""
    if "<" not in source + target and "&" not in source + target:
        return 0
    tags: list[Counter[str]] = []
    entities = 0
    for text in (source, target):
        tags.append(Counter(f"{match[1]}{match[2].lower()}" for match in TAG.finditer(text)))
        entities += len(_ENTITY.findall(text))
    return float(_count_differing(*tags) + entities)


def _count_differing(a: Counter[str], b: Counter[str]) -> int:
    """Return how many things only one of two sides has."""
    return ((a - b) + (b - a)).total()


def _find_protected(source: str, target: str, addresses: bool) -> float:
    """Return the number of placeholders, or of addresses, that only one side has; http and https are one."""
    if not (PROTECTED_SIGN.search(source) or PROTECTED_SIGN.search(target)):
        return 0
    sides = []
    for text in (source, target):
        counts = Counter[str]()
        for part in list_protected(text):
            is_address = "://" in part or "@" in part or part.startswith("www.")
            if is_address == addresses and not _CODE_OR_NOTE.match(part):
                counts[part.replace("https://", "http://")] += 1
        sides.append(counts)

    return float(_count_differing(*sides))


def _find_punctuation(source: str, target: str) -> float:
    """Return 1 where only one side ends with a mark, and 2 where they end with marks of different meaning."""
    # By far most pairs end with one and the same character.
    if source[-1:] == target[-1:]:
        return 0
    a, b = (_END_MARKS.get(text.rstrip(_CLOSERS)[-1:], 0) for text in (source, target))
    return 0 if a == b else 2.0 if a and b else 1.0


def _find_sentences(source: str, target: str) -> float:
    """Return how many sentences one side has more than the other, which has only one."""
    if not (_INNER_END.search(source) or _INNER_END.search(target)):
        return 0
    a, b = count_sentences(source), count_sentences(target)
    return float(abs(a - b)) if min(a, b) == 1 else 0


def _find_capitals(source: str, target: str) -> float:
    """Return the number of letters of a side that is all capitals, where the other side is not."""
    if source.isupper() == target.isupper():
        return 0
    upper, other = (source, target) if source.isupper() else (target, source)
    letters = sum(map(str.isupper, upper))
    # A script without capitals is no fault.
    return float(letters) if letters >= LETTERS_OF_CAPITALS and other != other.upper() else 0


def _find_normal_form(source: str, target: str) -> float:
    sides = (source, target)
    normal = [text.isascii() or unicodedata.is_normalized("NFC", text) for text in sides]
    return float(normal.count(False))


def _find_long(source: str, target: str) -> float:
    """Return the characters of the longer side, or of a word, where they are too many for a sentence."""
    longest = max(len(source), len(target))
    if longest > LONGEST_SIDE:
        return float(longest)
    if longest <= LONGEST_WORD:
        return 0
    words = [*source.split(), *target.split()]
    if max(map(len, words), default=0) <= LONGEST_WORD:
        return 0

    # In a script without spaces the whole line is one word, hence ASCII only.
    longest_code = 0
    for word in words:
        if len(word) > LONGEST_WORD and word.isascii() and not list_protected(word):
            longest_code = max(longest_code, len(word))
    return float(longest_code)


FAULTS = {  # all faults by name, the worst first
    "shifted": _Fault("shifted lines",
        means="from some line on, the translation stands on another line than its source",
        costs="every pair of the block is wrong; trained on many of them, a model writes fluent text about something "
              "else"),
    "not_translation": _Fault("not translations of each other",
        means="the words of the two sides have no more to do with each other than those of shuffled pairs",
        costs="the commonest fault of collected text; the model learns to make things up"),
    "empty": _Fault("empty sides", check=_find_empty,
        means="one side has no text, or a unit or row of the file holds no pair",
        costs="nothing, if the pair is left out, as `pellucid train` does"),
    "copy": _Fault("copies", check=_find_copy,
        means="the target is the source again, untranslated",
        costs="a few in a hundred teach the model to copy its input instead of translating (Khayrallah and Koehn "
              "2018)"),
    "language": _Fault("wrong language",
        means="a side is not written in the language of the other lines of its side",
        costs="the model answers in the wrong language"),
    "leaked": _Fault("sentences of the test set",
        means="a sentence of the files named with --against is in this text, too",
        costs="scores measured on those files are too good, because the model has seen the answers"),
    "duplicate": _Fault("duplicates",
        means="a pair that stood in an earlier line already",
        costs="repeated pairs weigh more than others, and take time"),
    "near_duplicate": _Fault("near-duplicates", removed=False,
        means="a pair that differs from an earlier one in case, digits, punctuation or spaces only",
        costs="they weigh more than others, and a random split puts some into training and some into the test set"),
    "boilerplate": _Fault("boilerplate",
        means="a sentence that stands in very many pairs, such as the menu of a web page",
        costs="the model writes these sentences where it is unsure"),
    "many_targets": _Fault("one source with several targets", removed=False,
        means="a source that has other translations on other lines",
        costs="none for training, where it is variety; but a random split puts one into training and one into the "
              "test set"),
    "mojibake": _Fault("wrong encoding", check=_find_mojibake,
        means="text that was decoded with the wrong encoding somewhere, such as Ã© for é",
        costs="the model learns to write it"),
    "placeholder": _Fault("placeholders", check=partial(_find_protected, addresses=False),
        means="a placeholder such as {name} or %s that only one side has",
        costs="the model drops placeholders or makes them up"),
    "address": _Fault("addresses", removed=False, check=partial(_find_protected, addresses=True),
        means="a web or e-mail address that only one side has, or that differs",
        costs="the model drops addresses or makes them up"),
    "markup": _Fault("markup", check=_find_markup,
        means="tags that only one side has, or HTML entities such as &amp;",
        costs="the model drops tags or makes them up"),
    "ratio": _Fault("odd ratio of lengths",
        means="one side is much longer than is usual for this text",
        costs="a part of the sentence is missing on one side; the model learns to leave out or to add"),
    "long": _Fault("odd lengths", check=_find_long,
        means="a side with more than 1,000 characters, or a word with more than 60",
        costs="mostly lines that are no sentences; what is too long for the model is left out of training anyway"),
    "number": _Fault("numbers that differ", removed=False, check=count_differing_numbers,
        means="a number that the other side does not have",
        costs="the model writes wrong numbers, which readers notice last and mind most"),
    "sentences": _Fault("several sentences against one", removed=False, check=_find_sentences,
        means="one side has one sentence and the other several",
        costs="often harmless; where a sentence is missing, the model learns to leave sentences out"),
    "punctuation": _Fault("final punctuation", removed=False, check=_find_punctuation,
        means="the sides end with different marks, or only one ends with one",
        costs="the model drops or adds full stops"),
    "capitals": _Fault("capitals", removed=False, check=_find_capitals,
        means="one side is all capitals and the other is not",
        costs="the model shouts without a reason"),
    "control": _Fault("control characters", removed=False, check=_find_controls,
        means="invisible characters, such as a tab, a soft hyphen or a space without width",
        costs="one word gets several spellings, each of them rare"),
    "spelling": _Fault("rare spellings", removed=False,
        means="a character that fewer than one in a thousand lines of its side have, and that only spells a plain one "
              "differently, such as a no-break space, a curly quote or a full-width letter",
        costs="little: when the model translates, it reads and writes the plain one; spell all lines alike if it shall "
              "write the other"),
    "normal_form": _Fault("normal form", removed=False, check=_find_normal_form,
        means="letters with accents written as two characters (not in Unicode's normal form C)",
        costs="one word gets two spellings, each of them rarer; a model reads the one that its vocabulary has"),
}  # fmt: skip

# The checks of single pairs.
PAIR_CHECKS = {name: fault.check for name, fault in FAULTS.items() if fault.check}
