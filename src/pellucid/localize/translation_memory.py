"""A translation memory: human translations that are used for the same sentence, and offered for a similar one."""

import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path

from pellucid.data.corpus import SkippedPairs, describe_place, read_valid_units
from pellucid.data.formats.units import Sides, Unit
from pellucid.decode.line_segments import Line, LineSearch
from pellucid.decode.translation import MemoryMatch, Translation

# Least similarity of a sentence whose translation is offered: three quarters of the words, as CAT
# tools have it.
SIMILAR = 0.75

_CANDIDATES, _POSTINGS = 20, 5000
_LONGEST = 5000  # characters of a sentence in a memory; a longer one is no sentence

_WORDS_COMPARED = 200
_WORD = re.compile(r"\w+|[^\w\s]")


class TranslationMemory:
    """Sentences and their translations; of several translations of one sentence the last counts."""

    def __init__(self, pairs: Iterable[tuple[str, str] | Unit], file: str = ""):
        """Index pairs, or the units of a `file`."""
        latest: dict[str, tuple[str, str]] = {}
        places: dict[str, tuple[int, int]] = {}
        for number, pair in enumerate(pairs, start=1):
            unit = pair if isinstance(pair, Unit) else Unit(number, *pair)
            key = _normalize_sentence(unit.source)
            latest[key], places[key] = (unit.source, unit.target), (unit.number, unit.line or 0)
        self._entries, self._file = list(latest.values()), Path(file).name
        self._places = array("Q", [number for place in places.values() for number in place])
        self._numbers = {key: number for number, key in enumerate(latest)}
        # Entries by the words in them: four bytes each, for a memory may have millions of
        # sentences.
        self._by_word: dict[str, array[int]] = defaultdict(lambda: array("I"))
        for number, key in enumerate(latest):
            for word in set(_list_words(key.lower())):
                self._by_word[word].append(number)

    @classmethod
    def read(
        cls,
        path: str | Path,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> "TranslationMemory":
        """Read a memory from a file of pairs, such as TMX; the languages choose two of several.

        Raises ValueError for a file that is not of its format, has several languages and none is
        chosen, or has no pair.
        """
        skipped = SkippedPairs()
        sides = Sides(source_language, target_language)
        return cls(read_valid_units(path, None, _LONGEST, skipped, sides), str(path))

    def __len__(self) -> int:
        return len(self._entries)

    def make_stage(self) -> "RememberLines":
        """Return the stage that looks lines up in this memory."""
        return RememberLines(self)

    def find(self, text: str) -> MemoryMatch | None:
        """Return the entry of a sentence, or of the most similar one if it is similar enough.

        Otherwise None. The same sentence may differ in its white space, and in how Unicode writes
        its letters.
        """
        key = _normalize_sentence(text)
        number = self._numbers.get(key)
        if number is not None:
            source, target = self._entries[number]
            # The white space around the text is its own.
            start = len(text) - len(text.lstrip())
            end = len(text.rstrip())
            return MemoryMatch(source, f"{text[:start]}{target.strip()}{text[end:]}", 1.0, self._describe_place(number))
        return self._find_similar(key)

    def _find_similar(self, key: str) -> MemoryMatch | None:
        words = _list_words(key)[:_WORDS_COMPARED]
        shared: Counter[int] = Counter()
        visited = 0
        # Rare words first: the common ones say little, and have most entries.
        for word in sorted(set(_list_words(key.lower())), key=lambda word: len(self._by_word.get(word, ()))):
            postings = self._by_word.get(word, ())
            visited += len(postings)
            if visited > _POSTINGS:
                break
            shared.update(postings)

        best = None
        counts = Counter(words)
        for number, _ in shared.most_common(_CANDIDATES):
            source, target = self._entries[number]
            others = _list_words(_normalize_sentence(source))[:_WORDS_COMPARED]
            # Words in common in any order: most candidates end here.
            most = 2 * (counts & Counter(others)).total() / (len(words) + len(others))
            if most < SIMILAR or (best is not None and most <= best.similarity):
                continue

            # Below 1, also where only what is not compared differs.
            similarity = min(measure_similarity(words, others), 0.99)
            if similarity >= SIMILAR and (best is None or similarity > best.similarity):
                best = MemoryMatch(source, target, round(similarity, 4), self._describe_place(number))
        return best

    def _describe_place(self, entry: int) -> str:
        number, line = self._places[2 * entry : 2 * entry + 2]
        return describe_place(self._file, number, line or None) if self._file else f"pair {number:,}"


@dataclass(frozen=True)
class RememberLines:
    """The stage that answers lines which are in a memory, and shows the entries of similar lines.

    A line that has a prefix is not looked up.
    """

    memory: TranslationMemory

    def __call__(self, lines: list[Line], search: LineSearch) -> list[Translation]:
        matches: list[MemoryMatch | None] = []
        asked: list[Line] = []
        for line in lines:
            match = None if line.prefix else self.memory.find(line.text)
            matches.append(match)
            if match is not None:
                line = replace(line, **{"known" if match.is_exact else "similar": match.target})
            asked.append(line)

        translations = search(asked)
        for i, match in enumerate(matches):
            # What was not translated, because nothing in it is text, is no sentence of a memory.
            if match is not None and translations[i].stop != "empty":
                translations[i] = replace(translations[i], remembered=match)
        return translations


def _normalize_sentence(text: str) -> str:
    """Return a sentence with one spelling of each letter (NFC) and single spaces.

    >>> _normalize_sentence(" The  cafe\\u0301. ") == "The café."
    True
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def _list_words(text: str) -> list[str]:
    return _WORD.findall(text)


def measure_similarity(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Return the share of words and signs that two sentences have in common, in the same order: 2 M / T.

    >>> measure_similarity("The ball is blue .".split(), "The ball is red .".split())
    0.8
    """
    return SequenceMatcher(None, first, second, autojunk=False).ratio()
