"""Measures how often alarms find faults that were planted in translations by people, and how often they are false.

Run: python -m benchmarks.alarms --out benchmarks/results/alarms.md

Needs PELLUCID_DATA.
"""

import argparse
import gzip
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.quality import machine
from pellucid.data.source_profile import SourceProfile, profile_sources
from pellucid.decode.alarms import ALARMS, count_alarms, find_alarms, find_lost_names

PROFILED = 60_000
"""Training pairs of which the profile is made."""

HOW_IT_WAS_MEASURED = f"""
Translations by people take the place of a model's. The profile, by which names are told from other words, is that of
the first {PROFILED:,} pairs of the training text that the table names. "Unseen" is text of another kind than that.

False alarms: how many of 1,000 translations by people have each alarm, as they are. Some are right: people do leave
numbers out, count in pounds instead of kilos, and translate one sentence by two.

Planted faults: the percentage of translations that have the alarm named at the head of the column after the fault was
put in, and how many lines there were. "copy": the source in place of the translation. "most": the first three quarters
of the source's words, then the last quarter of the translation's (of sources with 8 words and more). "empty": nothing
at all. "changed": the last digit of each number with two digits and more, and "removed": each number with three and
more. "names": the words that begin as a name does which the training text never had are taken out. "repeats": three
words from a place drawn by chance stand twice.
"""

Pair = tuple[str, str]
Fault = Callable[[str, str, SourceProfile], str | None]
"""Returns a translation with a fault, given its source, or None where there is no place for it."""


@dataclass(frozen=True)
class TestSet:
    """A test set, and the training text whose profile tells names from other words."""

    name: str
    path: str
    source: str
    target: str
    training: tuple[str, ...]

    def read(self, folder: Path) -> list[Pair]:
        """Return its pairs."""
        return read_pairs(folder, (self.path,), self.source, self.target)


NEWS = tuple(f"wmt_news/newstest{year}" for year in (2008, 2009, 2010, 2011, 2012))


def list_test_sets() -> list[TestSet]:
    """Return the test sets: everyday sentences, captions, talks, documentation and news."""
    captions, news = "multi30k/test_2016_flickr", "wmt_news/newstest2013"
    everyday = {"de": "tatoeba_en-de", "es": "tatoeba_en-es", "fr": "tatoeba_en-fr"}
    sets = [TestSet("Multi30k", captions, "en", target, ("multi30k/train",)) for target in ("de", "fr", "cs")]
    sets.append(TestSet("Multi30k", captions, "de", "en", ("multi30k/train",)))
    for code, folder in everyday.items():
        sets.append(TestSet("Tatoeba", f"{folder}/test", "en", code, (f"{folder}/train",)))
        sets.append(TestSet("Tatoeba", f"{folder}/test", code, "en", (f"{folder}/train",)))
    sets.append(TestSet("Python manual", "pydocs_en-es/test", "en", "es", ("pydocs_en-es/train",)))
    for pair in (("en", "de"), ("en", "cs"), ("fr", "es"), ("es", "fr"), ("de", "en"), ("cs", "en")):
        sets.append(TestSet("News", news, *pair, NEWS))
    sets.append(TestSet("TED, unseen", "ted_de-en/TED.tst2013", "en", "de", ("tatoeba_en-de/train",)))
    sets.append(TestSet("TED, unseen", "ted_de-en/TED.tst2013", "de", "en", ("tatoeba_en-de/train",)))
    sets += [TestSet("News, unseen", news, "en", code, (f"{everyday[code]}/train",)) for code in everyday]
    sets += [TestSet("News, unseen", news, "en", code, ("multi30k/train",)) for code in ("de", "cs")]
    return sets


@cache
def read_pairs(folder: Path, paths: tuple[str, ...], source: str, target: str) -> list[Pair]:
    """Return the pairs of files, without their blank lines."""
    pairs = list[Pair]()
    for path in paths:
        sides = (read_lines(folder / f"{path}.{code}.gz") for code in (source, target))
        pairs += [(a, b) for a, b in zip(*sides, strict=True) if a.strip() and b.strip()]
    return pairs


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        return lines.read().rstrip("\n").split("\n")


@cache
def read_profile(folder: Path, paths: tuple[str, ...], source: str, target: str) -> SourceProfile:
    """Return the profile of a training text."""
    return profile_sources(read_pairs(folder, paths, source, target)[:PROFILED])


def plant_copy(source: str, target: str, profile: SourceProfile) -> str:
    """Return the source itself."""
    return source


def plant_partial_copy(source: str, target: str, profile: SourceProfile) -> str | None:
    """Return most words of the source, then the end of the translation."""
    words, written = source.split(), target.split()
    if len(words) < 8:
        return None
    return " ".join([*words[: len(words) * 3 // 4], *written[len(written) * 3 // 4 :]])


def plant_empty(source: str, target: str, profile: SourceProfile) -> str:
    """Return nothing."""
    return ""


def plant_numbers(source: str, target: str, profile: SourceProfile) -> str | None:
    """Return the translation with another last digit in each number."""
    changed = re.sub(r"\d+\d", lambda match: match[0][:-1] + str((int(match[0][-1]) + 1) % 10), target)
    return None if changed == target else changed


def plant_lost_numbers(source: str, target: str, profile: SourceProfile) -> str | None:
    """Return the translation without its numbers of three digits and more."""
    without = re.sub(r"\d[\d.,]*\d\d", "", target)
    return None if without == target else without


def plant_lost_names(source: str, target: str, profile: SourceProfile) -> str | None:
    """Return the translation without the words that begin as a name does that the training text never had."""
    beginnings = {name[:3].casefold() for name in find_lost_names(source, "q", profile)}
    kept = [word for word in target.split() if word.strip('"“„(«').casefold()[:3] not in beginnings]
    return None if len(kept) == len(target.split()) or not kept else " ".join(kept)


def plant_repetition(source: str, target: str, profile: SourceProfile) -> str | None:
    """Return the translation with three of its words twice."""
    words = target.split()
    if len(words) < 6:
        return None
    start = random.Random(target).randrange(len(words) - 3)
    return " ".join([*words[: start + 3], *words[start:]])


FAULTS: dict[str, tuple[str, Fault]] = {  # by the head of its column: the alarm that is right, and how it is planted
    "copy": ("copy", plant_copy),
    "most": ("copy", plant_partial_copy),
    "empty": ("empty", plant_empty),
    "changed": ("numbers", plant_numbers),
    "removed": ("numbers", plant_lost_numbers),
    "names": ("names", plant_lost_names),
    "repeats": ("repeats", plant_repetition),
}


def measure_planted(pairs: Sequence[Pair], profile: SourceProfile, alarm: str, plant: Fault) -> tuple[int, int]:
    """Return in how many lines a fault was found, and in how many it was planted."""
    found = planted = 0
    for source, target in pairs:
        faulty = plant(source, target, profile)
        if faulty is not None:
            planted += 1
            found += alarm in find_alarms(source, faulty, profile)
    return found, planted


def report_lines(folder: Path, sets: Iterable[TestSet]) -> Iterator[str]:
    """Yield the lines of both tables, and what an alarm costs."""
    false_rows, planted_rows, seconds, lines = list[str](), list[str](), 0.0, 0
    for test in sets:
        pairs = test.read(folder)
        profile = read_profile(folder, test.training, test.source, test.target)
        began = time.process_time()
        found = [find_alarms(source, target, profile) for source, target in pairs]
        seconds, lines = seconds + time.process_time() - began, lines + len(pairs)
        counts = count_alarms(found)
        name = f"{test.name} {test.source}-{test.target} | {test.training[0].partition('/')[0]} | {len(pairs):,}"
        cells = " | ".join(f"{1000 * count / len(pairs):.1f}" for count in counts.values())
        false_rows.append(f"| {name} | {cells} | {1000 * sum(map(bool, found)) / len(pairs):.1f} |")
        shares = list[str]()
        for alarm, plant in FAULTS.values():
            number, planted = measure_planted(pairs, profile, alarm, plant)
            shares.append(f"{100 * number / planted:.1f} of {planted:,}" if planted >= 20 else "–")
        planted_rows.append(f"| {name} | {' | '.join(shares)} |")

    mean = 1e6 * seconds / lines
    yield f"All alarms of a line take {mean:.0f} µs of processor time, on the average of {lines:,} lines."
    for title, heads, rows in (
        ("False alarms of 1,000 lines", [*ALARMS, "any"], false_rows),
        ("Planted faults that are found, in %", list(FAULTS), planted_rows),
    ):
        yield from ("", f"## {title}", "")
        yield f"| test set | training text | lines | {' | '.join(heads)} |"
        yield "|---" * (len(heads) + 3) + "|"
        yield from rows


def main() -> None:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the report here instead of to standard output")
    arguments = parser.parse_args()
    head = f"# Alarms on translations by people\n\nMade by `python -m benchmarks.alarms` on {machine()}.\n"
    tables = "\n".join(report_lines(Path(os.environ["PELLUCID_DATA"]), list_test_sets()))
    text = f"{head}{HOW_IT_WAS_MEASURED}\n{tables}\n"
    if arguments.out is None:
        print(text)
    else:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
