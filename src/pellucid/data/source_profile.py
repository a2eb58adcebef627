"""Counts of how the sources of a training text look: their sentences, capitals, marks and spellings."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import chain, pairwise, zip_longest
from pathlib import Path
from typing import Any

from pellucid.data.context import split_context
from pellucid.data.text.casing import (
    has_capitalised_nouns,
    is_in_capitals,
    is_in_small_letters,
    is_in_title_case,
)
from pellucid.data.text.copied_words import count_copied_words
from pellucid.data.text.sentences import sentence_ends
from pellucid.data.text.spelling import LEARNED_SPELLING, plain_counterpart
from pellucid.data.text.surroundings import MARK_KINDS, find_mark_kinds

# A habit that at least one source in a hundred has is one that the model has learned to translate;
# of two sentences or more in one source it takes one in ten, because a sentence that is left out
# costs more than a wrong capital: benchmarks/results/sentences.md.
_LEARNED_SHARE, _SENTENCES_SHARE = 0.01, 0.1
# A word is common at the beginning of later sentences if it begins one in a hundred of them.
_CONTINUATION_SHARE = 0.01
# Words of a source that must stand in its target for both to count as sharing words, and the share
# of such sources from which copying is what the model has learned.
_FEWEST_SHARED, _MOSTLY_SHARED = 3, 0.2
_OBJECTS = ("continuations", "marks", "spellings")
_MOST_SENTENCES = 20  # longer sources count as this many sentences
_MOST_WORDS = 50_000
SOURCE_WORDS = "source_words.txt"  # file of a model directory: the words of the profile, one a line
PROFILED_SOURCES = 100_000
"""Largest number of sources that are looked at; they are drawn evenly."""

BEGINNING = 5  # letters that a word shares with words of its family: western, Westerners

_WORD = re.compile(r"\w[\w'’]*")


@dataclass(frozen=True)
class SourceProfile:
    """Numbers about the sources that a model was trained on, by which a text is made like them before it is read.

    `sentences` has the number of sources of one sentence, of two, and so on. `continuations` has
    the words that begin sentences after the first, and how often: words that are common there, and
    less common in first sentences. `spellings` has for each character with a plain counterpart (a
    no-break space, a curly quote) the number of sources that hold it. `shared` counts the sources
    with half of their words or more, but not all, in the target, too. `words` are the words of the
    sources as they are spelled inside a sentence, the commonest first.
    """

    sources: int = 0
    sentences: tuple[int, ...] = ()
    continuations: Mapping[str, int] = field(default_factory=dict)
    without_letters: int = 0  # such as "12", where the target is another text
    capitals: int = 0
    title_case: int = 0
    marks: Mapping[str, int] = field(default_factory=dict)  # of each of `MARK_KINDS`
    spellings: Mapping[str, int] = field(default_factory=dict)
    shared: int = 0
    words: tuple[str, ...] = ()
    # Sentences without a capital; None where a model of an older version has no count.
    small_letters: int | None = None

    @classmethod
    def join(cls, profiles: "Sequence[SourceProfile]") -> "SourceProfile":
        """Return the profile of several samples together."""
        if len(profiles) == 1:
            return profiles[0]

        sums: dict[str, Any] = {}
        for name in ("sources", "without_letters", "capitals", "title_case", "shared"):
            sums[name] = sum(getattr(one, name) for one in profiles)
        for name in ("continuations", "marks", "spellings"):
            counts = Counter[str]()
            for one in profiles:
                counts.update(getattr(one, name))
            sums[name] = dict(counts)

        columns = zip_longest(*(one.sentences for one in profiles), fillvalue=0)
        sums["sentences"] = tuple(sum(column) for column in columns)
        # The commonest of each, then the second of each, and so on.
        ranks = zip_longest(*(one.words for one in profiles), fillvalue="")
        sums["words"] = tuple(filter(None, dict.fromkeys(chain.from_iterable(ranks))))

        small_letters = [one.small_letters for one in profiles if one.small_letters is not None]
        if len(small_letters) == len(profiles):
            sums["small_letters"] = sum(small_letters)
        return cls(**sums)

    @property
    def several_sentences(self) -> float:
        """Share of the sources that hold more than one sentence."""
        return sum(self.sentences[1:]) / self.sources if self.sources else 0.0

    @property
    def sentences_together(self) -> int:
        """Return how many sentences of a line are translated together: as many as one source in ten has, or more."""
        together = 1
        while together < len(self.sentences):
            longer = sum(self.sentences[together:])
            if not self._is_share(longer, _SENTENCES_SHARE):
                break
            together += 1
        return together

    def is_continuation(self, sentence: str) -> bool:
        """Whether a sentence begins like those that stood behind another one in a source."""
        return first_word(sentence) in self.continuations

    @property
    def has_capitals(self) -> bool:
        """Whether the model has learned sources in capitals."""
        return self._is_share(self.capitals, _LEARNED_SHARE)

    @property
    def has_title_case(self) -> bool:
        """Whether the model has learned sources with a capital on each word."""
        return self._is_share(self.title_case, _LEARNED_SHARE)

    @property
    def has_few_small_letters(self) -> bool:
        """Whether the model has not learned sentences without a capital."""
        if self.small_letters is None:
            return False
        return not self._is_share(self.small_letters, _LEARNED_SHARE)

    @property
    def translates_numbers(self) -> bool:
        """Whether the model has learned to translate lines without a letter."""
        return self._is_share(self.without_letters, _LEARNED_SHARE)

    @property
    def shares_words(self) -> bool:
        """Whether the two languages are so close that most words of some sources are right in the target, too."""
        return self._is_share(self.shared, _LEARNED_SHARE)

    @property
    def shares_most_words(self) -> bool:
        """Whether the target is often its source again, as where the model learned to correct a text."""
        return self._is_share(self.shared, _MOSTLY_SHARED)

    @cached_property
    def capitalises_nouns(self) -> bool:
        """Whether the sources write ordinary words with a capital, as German does its nouns."""
        return has_capitalised_nouns(self.words)

    @cached_property
    def small_beginnings(self) -> frozenset[str]:
        """First letters of the longer words that the sources write small: a new word with these may be one of them."""
        small = (word for word in self.words if word[:1].islower())
        return frozenset(word[:BEGINNING] for word in small if len(word) >= BEGINNING)

    @cached_property
    def unknown_marks(self) -> frozenset[str]:
        """Kinds of marks around a line that the model has not learned."""
        unknown: set[str] = set()
        for kind in MARK_KINDS:
            if not self._is_share(self.marks.get(kind, 0), _LEARNED_SHARE):
                unknown.add(kind)
        return frozenset(unknown)

    def knows_spelling(self, character: str) -> bool:
        """Whether a character that has a plain counterpart is common enough to be read as it is."""
        return self._is_share(self.spellings.get(character, 0), LEARNED_SPELLING)

    @cached_property
    def word_forms(self) -> dict[str, str]:
        """Spelling of each known word inside a sentence, by the word in capitals."""
        # The commonest comes first, so it is the one that stays.
        return {word.upper(): word for word in reversed(self.words)}

    def _is_share(self, count: int, share: float) -> bool:
        return self.sources > 0 and count >= share * self.sources

    def as_json(self) -> dict[str, Any]:
        """Return the numbers, without the words, as they stand in the manifest of a model."""
        row = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "words"}
        objects = {name: dict(getattr(self, name)) for name in _OBJECTS}
        return {**row, "sentences": list(self.sentences), **objects}


def profile_sources(pairs: Iterable[tuple[str, str]]) -> SourceProfile:
    """Count what the sources of these pairs (source, target) look like."""
    total = without_letters = capitals = title_case = shared = small_letters = 0
    sentences, beginnings, continuations = Counter[int](), Counter[str](), Counter[str]()
    marks, spellings, words = Counter[str](), Counter[str](), Counter[str]()
    for source_with_context, target in pairs:
        source = split_context(source_with_context)[1]
        total += 1
        ends = sentence_ends(source, 0, len(source))
        sentences[min(len(ends), _MOST_SENTENCES)] += 1
        beginnings[first_word(source[: ends[0]])] += 1
        continuations.update(first_word(source[start:end]) for start, end in pairwise(ends))
        if not source.isascii():
            for character in set(source):
                if plain_counterpart(character) is not None:
                    spellings[character] += 1

        if not any(map(str.isalpha, source)):
            without_letters += source != target
            continue
        if is_in_capitals(source):
            capitals += 1
            continue
        small_letters += is_in_small_letters(source)
        copied = count_copied_words(source, target)
        # A whole copy is a fault of the text, and says nothing about its languages.
        shared += not copied.is_whole and copied.copied >= max(_FEWEST_SHARED, copied.words / 2)
        marks.update(find_mark_kinds(source))
        if is_in_title_case(source):
            title_case += 1
            continue
        # The first word has a capital wherever it stands, which says nothing.
        words.update(_WORD.findall(source)[1:])

    counts = tuple(sentences[n] for n in range(1, max(sentences, default=0) + 1))
    forms = _commonest_forms(words)
    # "They" begins second sentences more often than first ones; "the" does not, and says nothing.
    later = continuations.total()
    common: dict[str, int] = {}
    for word, count in continuations.most_common(200):
        is_commoner_inside = count * total > beginnings[word] * later
        if count >= _CONTINUATION_SHARE * later and is_commoner_inside:
            common[word] = count

    return SourceProfile(
        sources=total,
        sentences=counts,
        continuations=common,
        without_letters=without_letters,
        capitals=capitals,
        title_case=title_case,
        marks=dict(marks),
        spellings=dict(spellings),
        shared=shared,
        words=forms,
        small_letters=small_letters,
    )


def first_word(sentence: str) -> str:
    """Return the first word of a sentence, without the marks before it, in small letters.

    >>> first_word(' "They were cheap."')
    'they'
    """
    match = _WORD.search(sentence)
    return match[0].lower() if match else ""


def _commonest_forms(words: Counter[str]) -> tuple[str, ...]:
    """Return for each word its commonest spelling, the commonest words first."""
    commonest: dict[str, str] = {}
    for word, _ in words.most_common():
        commonest.setdefault(word.upper(), word)
    return tuple(commonest.values())[:_MOST_WORDS]


def write_source_words(directory: Path, profile: SourceProfile) -> None:
    """Write the words of a profile, whose numbers belong into the manifest, into a directory."""
    (directory / SOURCE_WORDS).write_text("\n".join(profile.words), encoding="utf-8", newline="\n")


def read_source_words(directory: Path) -> list[str]:
    """Read the words of a profile from a directory; none where it has none."""
    path = directory / SOURCE_WORDS
    return path.read_text(encoding="utf-8").split("\n") if path.is_file() else []


def load_source_profile(directory: Path, manifest: Mapping[str, Any]) -> SourceProfile | None:
    """Read the profile of a model directory, whose files were verified; None where it has none.

    Raises ValueError for one that is damaged.
    """
    if "sources" not in manifest:
        return None
    try:
        words = read_source_words(directory) if SOURCE_WORDS in manifest["files"] else []
        return read_source_profile(manifest["sources"], words)
    except ValueError as error:
        raise ValueError(
            f"{directory} holds no sound profile of its training text: {error!s:.200}"
        ) from None


def read_source_profile(table: Any, words: Collection[str] = ()) -> SourceProfile:
    """Return the profile that a manifest holds; ValueError for one that is not as `SourceProfile.as_json` made it."""
    known = {each.name for each in fields(SourceProfile)} - {"words"}
    # Earlier versions did not count what is shared, nor small letters.
    needed = known - {"shared", "small_letters"}
    if not isinstance(table, dict) or not needed <= table.keys() <= known:
        raise ValueError(f"its sources must be an object with {', '.join(sorted(known))}")
    counts = [table[name] for name in ("sources", "without_letters", "capitals", "title_case")]
    counts.append(table.get("shared", 0))
    counts += [table["small_letters"]] if table.get("small_letters") is not None else []
    objects = [table[name] for name in _OBJECTS]
    has_objects = all(isinstance(item, dict) for item in objects)
    if not isinstance(table["sentences"], list) or not has_objects:
        raise ValueError(
            f"its sources must have a list of sentences, and objects of {', '.join(_OBJECTS)}"
        )

    counts += [*table["sentences"], *(count for item in objects for count in item.values())]
    if not all(type(count) is int and 0 <= count < 2**53 for count in counts):
        raise ValueError("its sources must have whole numbers")
    table = {**table, "sentences": tuple(table["sentences"])}
    return SourceProfile(**table, words=tuple(word for word in words if word)[:_MOST_WORDS])
