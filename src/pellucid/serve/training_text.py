"""The text that a model was trained on, as far as the page may show it: sentences to try, its size, and rare words."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from pellucid.config import read_toml
from pellucid.data.corpus import SkippedPairs, holds_pairs, read_valid_pairs, sentence_lines
from pellucid.data.formats.units import Sides, languages_of_files

MOST_EXAMPLES = 6
"""Most sentences that are offered to be tried."""

RARE = 5
"""A word that stands fewer times than this in the training text is called rare."""

_LINES_READ, _LONGEST_EXAMPLE = 400, 120
"""Lines read in search of examples, and the most characters of an example."""

_MOST_BYTES = 2**24
"""Most bytes of training text, as its files have them, whose words are counted; it takes a second or two, once."""

# Thai, Lao, Khmer, Japanese and Chinese write no spaces, so that whole clauses would pass for words never seen.
_WORD = re.compile(r"(?:(?![\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff])[^\W\d_])+(?:['’][^\W\d_]+)*")


@dataclass(frozen=True)
class TrainingText:
    """The text of a model's run, if it is still there: files of sentences to translate from, and a count of pairs."""

    dev_file: Path | None = None
    files: tuple[Path, ...] = ()
    pairs: int | None = None
    languages: tuple[str, str] | None = None
    dev_target: Path | None = None
    sides: tuple[str | None, str | None] = (None, None)
    """Languages or columns of files of pairs, as the run named them."""
    _counts: list[Counter[str]] = field(default_factory=list, init=False, compare=False, repr=False)
    _counting: Lock = field(default_factory=Lock, init=False, compare=False, repr=False)

    @classmethod
    def find_beside(cls, directory: Path, manifest: Mapping[str, Any]) -> "TrainingText":
        """Find the text of a model directory by the run.toml beside it; nothing is found where there is none."""
        corpora = manifest.get("pairs")
        counts = [corpus.get("trained_on") for corpus in corpora] if isinstance(corpora, list) else []
        pairs = sum(counts) if counts and all(isinstance(count, int) for count in counts) else None
        run_file = directory.resolve().parent / "run.toml"
        try:
            data = read_toml(run_file)["data"]
            tables = [data, *data.get("corpus", [])]
            names = [table.get("source") or table.get("train") or table.get("pairs") for table in tables]
            files = tuple(run_file.parent / name for name in names if name)
            dev_name = data.get("dev_source") or data.get("dev")
            dev_file = run_file.parent / dev_name if dev_name else next(iter(files), None)
            sides = data.get("source"), data.get("target")
            dev_target_name = data.get("dev_target")
            dev_target = run_file.parent / dev_target_name if dev_target_name else None
            languages = data.get("source_language"), data.get("target_language")
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            # A model that was moved away from its run is served all the same; the page then offers no examples.
            return cls(pairs=pairs)
        return cls(
            dev_file, files, pairs, languages_of_files(*sides) or Sides(*languages).languages, dev_target, languages
        )

    def read_dev_pairs(self, count: int) -> list[tuple[str, str]]:
        """Return the first pairs of the dev text, at most so many; none where one of its sides is missing."""
        if self.dev_file is None or (self.dev_target is None and not holds_pairs(self.dev_file)):
            return []
        try:
            pairs = read_valid_pairs(self.dev_file, self.dev_target, 10**9, SkippedPairs(), Sides(*self.sides))
            return [(source, target) for _, source, target in islice(pairs, count)]
        except (OSError, ValueError):
            return []

    def choose_examples(self) -> list[str]:
        """Choose sentences to try from the first lines of the dev text: its first, a short one, a question, others."""
        if self.dev_file is None:
            return []
        try:
            lines = [line.strip() for line in islice(_read_sources(self.dev_file, self.sides), _LINES_READ)]
        except (OSError, ValueError):
            return []
        sentences = [line for line in dict.fromkeys(lines) if len(line.split()) > 1 and len(line) <= _LONGEST_EXAMPLE]
        if not sentences:
            return []
        by_length = sorted(sentences, key=len)
        kinds = [
            sentences[:1],
            by_length[:1],
            [sentence for sentence in sentences if sentence.endswith(("?", "？", "؟"))][:1],
            [sentence for sentence in sentences if sentence.count(",") > 1][:1],
            by_length[-1:],
            sentences,
        ]
        return list(dict.fromkeys(sentence for kind in kinds for sentence in kind))[:MOST_EXAMPLES]

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
                try:
                    known = self.files and sum(path.stat().st_size for path in self.files) <= _MOST_BYTES
                    lines = (line for path in self.files for line in _read_sources(path, self.sides))
                    self._counts.append(count_words(lines) if known else Counter())
                except (OSError, ValueError):
                    self._counts.append(Counter())
        return self._counts[0] or None


def count_words(lines: Iterable[str]) -> Counter[str]:
    """Count the words of some lines, in small letters; a script without spaces has none.

    >>> count_words(["The cat, the 2 dogs."])
    Counter({'the': 2, 'cat': 1, 'dogs': 1})
    """
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(_WORD.findall(line.casefold()))
    return counts


def _read_sources(path: Path, sides: tuple[str | None, str | None]) -> Iterator[str]:
    """Yield the sentences to translate from of a file of sentences, or of one of pairs."""
    if holds_pairs(path):
        return (source for _, source, _ in read_valid_pairs(path, None, 10**9, SkippedPairs(), Sides(*sides)))
    return sentence_lines(path)
