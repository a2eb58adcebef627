"""The text that a model was trained on, as far as the page may show it: sentences to try, its size, and rare words."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any

from pellucid.config import read_toml
from pellucid.data.corpus import (
    HELD_OUT_FILE,
    SkippedPairs,
    holds_pairs,
    read_valid_pairs,
    sentence_lines,
)
from pellucid.data.formats.units import Sides, languages_of_files

MOST_EXAMPLES = 6  # most sentences that are offered to be tried
RARE = 5  # a word that stands fewer times than this in the training text is called rare
# Lines read in search of examples, and the most characters of an example.
_LINES_READ, _LONGEST_EXAMPLE = 400, 120
_NOUN_WORDS = {  # by language, the words that announce a noun, and the pronouns that stand for one
    "en": ("the|an?|this|that|these|those|my|your|his|her|our|their", "it|they|them"),
    "de": (
        "der|die|das|den|dem|eine?|einen|einem|einer|mein|dein|sein|ihr",
        "er|sie|es|ihn|ihm|ihnen",
    ),
    "fr": ("le|la|les|une?|des|ce|cette|ces|mon|ma|mes|son|sa|ses", "il|elle|ils|elles"),
    "es": ("el|la|los|las|una?|este|esta|estos|estas|mi|mis|su|sus", "él|ella|ellos|ellas"),
}

# Most bytes of training text, as its files have them, whose words are
# counted; it takes a second or two, once.
_MOST_BYTES = 2**24
# Thai, Lao, Khmer, Japanese and Chinese write no spaces, so that
# whole clauses would pass for words never seen.
_WORD = re.compile(
    r"(?:(?![\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff])[^\W\d_])+(?:['’][^\W\d_]+)*"
)


@dataclass(frozen=True)
class Mistake:
    """A sentence with the model's translation of it, which is not the reference."""

    source: str
    translation: str
    reference: str


@dataclass(frozen=True)
class TrainingText:
    """The text of a model's run, if it is still there: files of sentences to translate from, and a count of pairs.

    The dev text was not trained on: a dev set that the run
    names, or else the pairs that it held out.
    """

    dev_file: Path | None = None
    files: tuple[Path, ...] = ()
    pairs: int | None = None
    languages: tuple[str, str] | None = None
    dev_target: Path | None = None
    # Languages or columns of files of pairs, as the run named them.
    sides: tuple[str | None, str | None] = (None, None)
    dev_sides: tuple[str | None, str | None] = (None, None)  # the same of a dev text in one file
    _counts: list[Counter[str]] = field(default_factory=list, init=False, compare=False, repr=False)
    _counting: Lock = field(default_factory=Lock, init=False, compare=False, repr=False)

    @classmethod
    def find_beside(cls, directory: Path, manifest: Mapping[str, Any]) -> "TrainingText":
        """Find the text of a model directory by the run.toml beside it; nothing is found where there is none."""
        corpora = manifest.get("pairs")
        counts: list[Any] = []
        if isinstance(corpora, list):
            counts = [corpus.get("trained_on") for corpus in corpora]
        pairs = sum(counts) if counts and all(isinstance(count, int) for count in counts) else None
        run_directory = directory.resolve().parent
        try:
            data = read_toml(run_directory / "run.toml")["data"]
            tables = [data, *data.get("corpus", [])]
            files: list[Path] = []
            for table in tables:
                if name := table.get("source") or table.get("train") or table.get("pairs"):
                    files.append(run_directory / name)
            sides = data.get("source_language"), data.get("target_language")
            named = languages_of_files(data.get("source"), data.get("target"))
            languages = named or Sides(*sides).languages
            dev_file, dev_target, dev_sides = _find_dev_text(run_directory, tables)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            # A model that was moved away from its run is served all the
            # same; the page then offers no examples.
            return cls(pairs=pairs)

        return cls(dev_file, tuple(files), pairs, languages, dev_target, sides, dev_sides)

    def read_dev_pairs(self, count: int) -> list[tuple[str, str]]:
        """Return the first pairs of the dev text, at most so many; none where one of its sides is missing."""
        if self.dev_file is None or (self.dev_target is None and not holds_pairs(self.dev_file)):
            return []
        try:
            pairs = read_valid_pairs(
                self.dev_file, self.dev_target, 10**9, SkippedPairs(), Sides(*self.dev_sides)
            )
            return [(source, target) for _, source, target in islice(pairs, count)]
        except (OSError, ValueError):
            return []

    def find_references(self, sentences: Collection[str]) -> dict[str, str]:
        """Return the translations of these sentences in the dev text, as far as they are among its first pairs."""
        references: dict[str, str] = {}
        for source, target in reversed(self.read_dev_pairs(_LINES_READ)):
            if source.strip() in sentences:
                references[source.strip()] = target
        return references

    def choose_examples(
        self, source_language: str | None = None, mistake: "Mistake | None" = None
    ) -> dict[str, str]:
        """Choose sentences to try from the first lines of the dev text, each with what is special about it, or "".

        They are its first, a short one, a question, one whose pronoun may stand for two nouns, a
        long one, the model's mistake, and others, as far as there are such.
        """
        if self.dev_file is None:
            return {}
        try:
            lines = list(islice(_read_sources(self.dev_file, self.dev_sides), _LINES_READ))
        except (OSError, ValueError):
            return {}

        sentences: list[str] = []
        for line in dict.fromkeys(map(str.strip, lines)):
            if len(line.split()) > 1 and len(line) <= _LONGEST_EXAMPLE:
                sentences.append(line)
        if not sentences:
            return {}

        by_length = sorted(sentences, key=len)
        notes: dict[str, str] = {}
        for sentence in by_length:
            if pronoun := find_ambiguous_pronoun(sentence, source_language):
                notes[sentence] = f"which noun is “{pronoun}”?"
                break

        kinds = [
            sentences[:1],
            by_length[:1],
            [sentence for sentence in sentences if sentence.endswith(("?", "？", "؟"))][:1],
            list(notes),
            [] if mistake is None else [mistake.source],
            by_length[-1:],
            [sentence for sentence in sentences if sentence.count(",") > 1][:1],
            sentences,
        ]
        chosen = list(dict.fromkeys(chain.from_iterable(kinds)))[:MOST_EXAMPLES]

        if mistake is not None:
            change = f"“{mistake.translation}” instead of “{mistake.reference}”"
            notes[mistake.source] = f"a likely mistake: {change}"
        return {sentence: notes.get(sentence, "") for sentence in chosen}

    def find_rare_words(self, text: str) -> dict[str, int] | None:
        """Return the words of a text that are rare in the training text, with their counts; None where it is unknown.

        Capital letters do not count as a difference.
        """
        counts = self._count_words()
        if counts is None:
            return None
        words = dict.fromkeys(_WORD.findall(text))
        return {word: counts[word.casefold()] for word in words if counts[word.casefold()] < RARE}

    def _count_words(self) -> Counter[str] | None:
        """Count the words of the training text at the first call; None where it is not there or is too large."""
        with self._counting:
            if not self._counts:
                counts = Counter[str]()
                try:
                    if sum(path.stat().st_size for path in self.files) <= _MOST_BYTES:
                        for path in self.files:
                            for line in _read_sources(path, self.sides):
                                counts.update(_WORD.findall(line.casefold()))
                except (OSError, ValueError):
                    counts.clear()  # half a count would call common words rare
                self._counts.append(counts)

        return self._counts[0] or None


def _find_dev_text(
    run_directory: Path, tables: Sequence[Mapping[str, Any]]
) -> tuple[Path | None, Path | None, tuple[str | None, str | None]]:
    """Find the dev text of a run: its file, the file of its translations, and the languages of one file of pairs.

    `tables` are its [data] and its corpora, which may name a dev set
    each; the first counts. Training text is none.
    """
    for table in tables:
        if name := table.get("dev_source") or table.get("dev"):
            target = table.get("dev_target")
            sides = table.get("source_language"), table.get("target_language")
            return run_directory / name, run_directory / target if target else None, sides

    held_out = run_directory / HELD_OUT_FILE
    return held_out if held_out.is_file() else None, None, (None, None)


def find_ambiguous_pronoun(sentence: str, language: str | None) -> str | None:
    """Find the first pronoun that follows two nouns, as far as the words before nouns show; None where there is none.

    >>> find_ambiguous_pronoun("The dog saw the cat because it barked.", "en")
    'it'
    """
    announcing, pronouns = _NOUN_WORDS.get((language or "").split("-")[0], (None, None))
    if announcing is None:
        return None
    match = re.search(rf"(?:\b(?:{announcing})\b.+){{2}}\b({pronouns})\b", sentence, re.IGNORECASE)
    return match[1] if match else None


def find_mistake(
    translate: Callable[[str], str],
    pairs: Sequence[tuple[str, str]],
    on_progress: Callable[[], None],
) -> Mistake | None:
    """Find the pair whose reference the model's translation resembles least; None where it gives every reference.

    Sentences too long for an example are left out. `on_progress` is called before each translation.
    """
    mistakes: list[tuple[float, Mistake]] = []
    for source, reference in pairs:
        if len(source.split()) < 2 or len(source) > _LONGEST_EXAMPLE:
            continue
        on_progress()
        translation = translate(source)
        folded = translation.casefold(), reference.casefold()
        likeness = SequenceMatcher(None, *folded, autojunk=False).ratio()
        if likeness < 1:
            mistakes.append((likeness, Mistake(source, translation, reference)))

    return min(mistakes, key=lambda entry: entry[0])[1] if mistakes else None


def _read_sources(path: Path, sides: tuple[str | None, str | None]) -> Iterator[str]:
    """Yield the sentences to translate from of a file of sentences, or of one of pairs."""
    if holds_pairs(path):
        pairs = read_valid_pairs(path, None, 10**9, SkippedPairs(), Sides(*sides))
        return (source for _, source, _ in pairs)
    return sentence_lines(path)
