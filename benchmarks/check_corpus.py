"""Plants faults at known lines of real corpora, and measures how many `pellucid check` finds, and how fast it is.

Run: python -m benchmarks.check_corpus --data DIRECTORY --out benchmarks/results/check.md
"""

import argparse
import gzip
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from pellucid.cli.check import make_pair_scores
from pellucid.workflows.check.evidence import ScorePairs, Shift
from pellucid.workflows.check.examine import CorpusReport, describe_block, examine_corpus
from pellucid.workflows.check.language_model import LanguageModel
from pellucid.workflows.check.pair_faults import FAULTS

CORPORA = {
    "Multi30k en-de": ("multi30k", "train", "en", "de"),
    "Tatoeba en-de": ("tatoeba_en-de", "train", "en", "de"),
    "pydocs en-es": ("pydocs_en-es", "train", "en", "es"),
    "TED de-en": ("ted_de-en", "TED.tst2013 TED.tst2014 TEDX.tst2013 TEDX.tst2014", "de", "en"),
}
RATES = (0.01, 0.05, 0.2)
MOST_PAIRS = 40_000
"""Pairs of a corpus that are used for shifts and pairs that are no translations."""

FEW_PAIRS = 6_000
"""Pairs that are used for the other faults, which do not need more."""

Pairs = tuple[list[str], list[str]]
Ruin = Callable[[str, str, random.Random], tuple[str, str]]


class Score(NamedTuple):
    """Lines of one fault: planted, marked, both, and marked in the untouched text."""

    planted: int
    marked: int
    right: int
    before: int
    new_right: int
    new_marked: int


def read_corpus(data: Path, name: str, most: int) -> Pairs:
    """Return the first pairs of a corpus."""
    folder, files, *languages = CORPORA[name]
    sides = [
        [line for file in files.split() for line in read_gzip(data / folder / f"{file}.{language}.gz")][:most]
        for language in languages
    ]
    return sides[0], sides[1]


def read_gzip(path: Path) -> list[str]:
    """Return the lines of a file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as stream:
        return stream.read().removesuffix("\n").split("\n")


def examine(
    pairs: Pairs, against: Sequence[str] | None = None, scores: ScorePairs | None = None
) -> tuple[CorpusReport, float]:
    """Return the report on pairs in memory, and the seconds that it took."""
    started = time.perf_counter()
    report = examine_corpus(lambda: zip(count(1), *pairs, strict=False), against, score=scores)
    return report, time.perf_counter() - started


def mark_lines(report: CorpusReport, fault: str) -> set[int]:
    """Return the indices of the pairs with a fault."""
    return set(report.marks[fault][0].tolist()) if fault in report.marks else set()


def insert_word(text: str, word: str, at: random.Random) -> str:
    """Return the text with a word before a random word that is not the first."""
    words = text.split(" ")
    place = at.randint(1, max(1, len(words) - 1))
    return " ".join([*words[:place], word, *words[place:]])


def make_ruins(french: Sequence[str]) -> dict[str, tuple[str, Ruin]]:
    """Return, by what is planted, the fault that it is and the function that plants it."""
    return {
        "target is the source": ("copy", lambda s, t, at: (s, s)),
        "target in the source's language": ("language", lambda s, t, at: (s, s)),
        "target in French": ("language", lambda s, t, at: (s, at.choice(french))),
        "empty target": ("empty", lambda s, t, at: (s, "")),
        "pair of an earlier line": ("duplicate", lambda s, t, at: (s, t)),
        "pair of an earlier line, other case": ("near_duplicate", lambda s, t, at: (f"{s.upper()} !", t)),
        "the same sentence with a number": (
            "boilerplate",
            lambda s, t, at: (f"Click to read part {at.random():.3f}", f"Klick hier: Teil {at.random():.3f}"),
        ),
        "another target for a source": ("many_targets", lambda s, t, at: (s, t)),
        "sentence of a test set": ("leaked", lambda s, t, at: (s, t)),
        "UTF-8 read as Latin-1": ("mojibake", lambda s, t, at: (s, insert_word(t, "Ã©tÃ¼", at))),
        "placeholder lost": ("placeholder", lambda s, t, at: (insert_word(s, "{name}", at), t)),
        "address lost": ("address", lambda s, t, at: (insert_word(s, "https://example.org/a?b=1", at), t)),
        "tags on one side": ("markup", lambda s, t, at: (f"<b>{s}</b>", t)),
        "target four times over": ("ratio", lambda s, t, at: (s, " ".join([t] * 4))),
        "sentence sixty times over on both sides": ("long", lambda s, t, at: ((s + " ") * 60, (t + " ") * 60)),
        "another number": (
            "number",
            lambda s, t, at: (insert_word(s, str(at.randint(1_000, 4_999)), at), insert_word(t, "7301", at)),
        ),
        "a second sentence": ("sentences", lambda s, t, at: (s, f"{t.rstrip(' .')}. {at.choice(french)}")),
        "other final mark": ("punctuation", lambda s, t, at: (s.rstrip(" .!?") + ".", t.rstrip(" .!?") + "?")),
        "source in capitals": ("capitals", lambda s, t, at: (s.upper(), t)),
        "space without width": ("control", lambda s, t, at: (s, insert_word(t, "\u200b", at))),
        "decomposed accent": ("normal_form", lambda s, t, at: (s, insert_word(t, "cafe\u0301", at))),
    }  # fmt: skip


def plant(pairs: Pairs, what: str, ruin: Ruin, rate: float, seed: int) -> tuple[Pairs, set[int], list[str]]:
    """Return the pairs with a fault planted, the indices of the planted ones, and a test set that they leak."""
    at = random.Random(seed)
    sources, targets = list(pairs[0]), list(pairs[1])
    # Nothing is planted in lines without words: a copy of "1984" is no fault.
    chosen = sorted(i for i in at.sample(range(len(sources)), int(rate * len(sources))) if len(sources[i]) > 20)
    held_out = [sources[i] for i in chosen] if what == "sentence of a test set" else []
    unchanged = sorted(set(range(len(sources))) - set(chosen))
    for i in chosen:
        # Copies of other pairs are those of lines that stay as they are.
        other = i
        if "earlier line" in what or "another target" in what:
            other = at.choice(unchanged)
        s, t = ruin(pairs[0][other], pairs[1][other], at)
        sources[i], targets[i] = s, (pairs[1][i] if "another target" in what else t)
    if "boilerplate" in what:
        chosen = chosen[1:]
    return (sources, targets), set(chosen), held_out


def score(marked: set[int], planted: set[int], before: set[int]) -> Score:
    """Compare the marked lines with the planted ones."""
    new = marked - (before - planted)
    return Score(len(planted), len(marked), len(marked & planted), len(before), len(new & planted), len(new))


def measure_faults(data: Path, french: Sequence[str]) -> Iterator[tuple[str, str, str, Score]]:
    """Yield, for each corpus, fault and rate, how the planted lines compare with the marked ones."""
    for name in CORPORA:
        pairs = read_corpus(data, name, FEW_PAIRS)
        clean, _ = examine(pairs)
        for what, (fault, ruin) in make_ruins(french).items():
            for rate in RATES:
                ruined, planted, held_out = plant(pairs, what, ruin, rate, seed=1)
                report, _ = examine(ruined, held_out or None)
                marked = mark_lines(report, fault)
                if fault in ("duplicate", "near_duplicate", "many_targets"):
                    # Which of two equal lines is the repetition is a matter of order.
                    planted = planted_or_later(planted, ruined, fault)
                yield name, what, fault, score(marked, planted, mark_lines(clean, fault))


def planted_or_later(planted: set[int], pairs: Pairs, fault: str) -> set[int]:
    """Return the lines of the planted repetitions that are not the first of their kind, or all for several targets."""

    def make_key(i: int) -> str:
        source = pairs[0][i]
        return "".join(filter(str.isalpha, source.casefold())) if fault == "near_duplicate" else source

    groups: dict[str, list[int]] = {make_key(i): [] for i in planted}
    for i in range(len(pairs[0])):
        if (key := make_key(i)) in groups:
            groups[key].append(i)
    return {i for group in groups.values() for i in (group if fault == "many_targets" else group[1:])}


def exchange_targets(targets: list[str], rate: float) -> tuple[list[str], set[int]]:
    """Return the targets with some of them exchanged among each other, and the indices of the changed ones."""
    at = random.Random(2)
    chosen = at.sample(range(len(targets)), int(rate * len(targets)))
    ruined = list(targets)
    for i, j in zip(chosen, [*chosen[1:], chosen[0]], strict=True):
        ruined[i] = targets[j]
    return ruined, {i for i in chosen if ruined[i] != targets[i]}


def measure_non_translations(data: Path) -> Iterator[tuple[str, float, Score, float]]:
    """Yield, for each corpus and rate, how well pairs with another pair's target are found, strictly counted."""
    for name in CORPORA:
        sources, targets = read_corpus(data, name, MOST_PAIRS)
        clean = mark_lines(examine((sources, targets))[0], "not_translation")
        for rate in RATES:
            ruined, planted = exchange_targets(targets, rate)
            report, seconds = examine((sources, ruined))
            yield name, rate, score(mark_lines(report, "not_translation"), planted, clean), seconds


def measure_shifts(data: Path) -> Iterator[tuple[str, Shift, list[Shift]]]:
    """Yield five planted shifts for each corpus, with the blocks that were found; line numbers from 1."""
    at = random.Random(3)
    for name in CORPORA:
        sources, targets = read_corpus(data, name, MOST_PAIRS)
        pairs = len(sources)
        for kind in range(5):
            first, lines = at.randrange(pairs // 10, pairs * 6 // 10), at.randrange(20, min(1_500, pairs // 5))
            end = first + lines
            before, block, rest = targets[:first], targets[first:end], targets[end:]
            changed, expected = [
                ([*before, block[-1], *block[:-1], *rest], Shift(first + 1, end, 1)),
                ([*before, *block[2:], *block[:2], *rest], Shift(first + 1, end, -2)),
                ([*before, *block[1:], targets[5], *rest], Shift(first + 1, end, -1)),
                ([*before, *block[1:], *rest, targets[5]], Shift(first + 1, pairs, -1)),
                ([*before, targets[5], *block, *rest[:-1]], Shift(first + 1, pairs, 1)),
            ][kind]
            yield name, expected, examine((sources, changed))[0].blocks


def percent(part: int, whole: int) -> str:
    """Return a share as text, a dash for none of none."""
    return f"{part / whole:.3f}" if whole else "–"


INTRODUCTION = """\
# Planted faults and what `pellucid check` finds of them

Made by `python -m benchmarks.check_corpus`, {date}, on a machine with 2 cores on which other programs ran.
"""

NON_TRANSLATIONS = """
## Pairs that are no translations

The targets of random pairs are exchanged among each other, in up to {pairs:,} pairs of each corpus. Every marked pair
that was not planted counts against the precision, though some of these are wrong in the corpus itself.

| corpus | planted | precision | recall | marked in the untouched text | seconds |
|---|---|---|---|---|---|
"""

SHIFTS = """
## Shifted lines

| corpus | planted | found |
|---|---|---|
"""

OTHERS = """
## The other faults

One fault at a time is planted into the first {pairs:,} pairs of each corpus, in lines of more than 20 characters. Lines
that are marked in the untouched text, too, are left out of the precision; their number is in the last column. The
figures of a cell are those for {rates}.

| planted | fault | corpus | recall | precision | untouched |
|---|---|---|---|---|---|
"""


def non_translation_lines(data: Path) -> Iterator[str]:
    """Yield the part about pairs that are no translations."""
    yield NON_TRANSLATIONS.format(pairs=MOST_PAIRS)
    for name, rate, s, seconds in measure_non_translations(data):
        shares = f"{percent(s.right, s.marked)} | {percent(s.right, s.planted)}"
        yield f"| {name} | {rate:.0%} | {shares} | {s.before} | {seconds:.1f} |\n"


def shift_lines(data: Path) -> Iterator[str]:
    """Yield the part about shifted lines."""
    yield SHIFTS
    exact = total = 0
    for name, expected, found in measure_shifts(data):
        text = "to the line" if found == [expected] else "; ".join(map(describe_block, found)) or "nothing"
        exact, total = exact + (found == [expected]), total + 1
        yield f"| {name} | {describe_block(expected)} | {text} |\n"
    yield f"\nFound to the line, and nothing else: {exact} of {total}.\n"


def other_lines(data: Path) -> Iterator[str]:
    """Yield the part about all other faults."""
    french = [line for line in read_gzip(data / "tatoeba_en-fr" / "train.fr.gz")[:5_000] if len(line) > 25]
    yield OTHERS.format(pairs=FEW_PAIRS, rates=", ".join(f"{rate:.0%}" for rate in RATES))
    rows: dict[tuple[str, str], list[Score]] = {}
    for name, what, fault, s in measure_faults(data, french):
        scores = rows.setdefault((what, name), [])
        scores.append(s)
        if len(scores) == len(RATES):
            recall = ", ".join(percent(s.right, s.planted) for s in scores)
            precision = ", ".join(percent(s.new_right, s.new_marked) for s in scores)
            yield f"| {what} | {FAULTS[fault].title} | {name} | {recall} | {precision} | {scores[0].before} |\n"


LANGUAGES = """
## Lines in the wrong language

In up to {pairs:,} pairs of each corpus, {rate:.0%} of the targets are replaced: by sentences of a third language, or by
their sources. The first column of figures is how many pairs in 1,000 are said to be in a wrong language in the text as
it is, where hardly any is.

| corpus | marked in 1,000 pairs of the untouched text | recall, third language | recall, copies of the source |
|---|---|---|---|
"""

LANGUAGE_PAIRS = 12_000
NEWS = " ".join(f"newstest{year}" for year in range(2009, 2014))
"""Test sets from which pairs of five languages are made; that of 2008 has the sentences of a third language."""


def language_lines(data: Path) -> Iterator[str]:
    """Yield the part about lines in the wrong language."""
    yield LANGUAGES.format(pairs=LANGUAGE_PAIRS, rate=RATES[1])
    corpora = CORPORA | {
        "Tatoeba en-es": ("tatoeba_en-es", "train", "en", "es"),
        "news en-cs": ("wmt_news", NEWS, "en", "cs"),
        "news es-fr": ("wmt_news", NEWS, "es", "fr"),
    }
    for name, (folder, files, *languages) in corpora.items():
        sources, targets = (
            [line for file in files.split() for line in read_gzip(data / folder / f"{file}.{language}.gz")]
            for language in languages
        )
        sources, targets = sources[:LANGUAGE_PAIRS], targets[:LANGUAGE_PAIRS]
        third = read_gzip(data / "wmt_news" / f"newstest2008.{'de' if 'fr' in languages else 'fr'}.gz")
        if "tatoeba" in folder:
            third = read_gzip(data / "tatoeba_en-fr" / "valid.fr.gz")  # as short as its own
        before = find_wrong_languages(sources, targets)
        chosen = random.Random(3).sample(range(len(sources)), int(RATES[1] * len(sources)))
        recalls = []
        for others in ([*third], None):
            at, ruined = random.Random(3), list(targets)
            for i in chosen:
                ruined[i] = at.choice(others) if others else sources[i]
            found = find_wrong_languages(sources, ruined)
            recalls.append(percent(len(found.intersection(chosen)), len(chosen)))
        yield f"| {name} | {1000 * len(before) / len(sources):.2f} | {recalls[0]} | {recalls[1]} |\n"


def find_wrong_languages(sources: Sequence[str], targets: Sequence[str]) -> set[int]:
    """Return the indices of the pairs that are said to be in a wrong language."""
    degrees = LanguageModel(sources, targets).find_wrong_languages(sources, targets)
    return {i for i, degree in enumerate(degrees) if degree}


MODEL = """
## Pairs that are no translations, by a model

The same in the {pairs:,} pairs of Multi30k's validation and test texts (English-German), judged by a model that was
trained on its training text (dev BLEU {bleu:.1f}). The links are learned on these few pairs.

| planted | judged by | precision | recall | marked in the untouched text | seconds |
|---|---|---|---|---|---|
"""


def model_lines(data: Path, model: Path) -> Iterator[str]:
    """Yield the part about pairs that are no translations, judged by a model and by links."""
    sides = [
        [line for name in ("val", "test_2016_flickr") for line in read_gzip(data / "multi30k" / f"{name}.{side}.gz")]
        for side in ("en", "de")
    ]
    bleu = json.loads((model / "manifest.json").read_text(encoding="utf-8"))["dev"]["bleu"]
    yield MODEL.format(pairs=len(sides[0]), bleu=bleu)
    for judge, scores in (("links", None), ("the model", make_pair_scores(str(model), "cpu"))):
        clean = mark_lines(examine((sides[0], sides[1]), None, scores)[0], "not_translation")
        for rate in RATES:
            ruined, planted = exchange_targets(sides[1], rate)
            report, seconds = examine((sides[0], ruined), None, scores)
            s = score(mark_lines(report, "not_translation"), planted, clean)
            shares = f"{percent(s.right, s.marked)} | {percent(s.right, s.planted)}"
            yield f"| {rate:.0%} | {judge} | {shares} | {s.before} | {seconds:.1f} |\n"


PARTS = {
    "non-translations": non_translation_lines,
    "shifts": shift_lines,
    "languages": language_lines,
    "others": other_lines,
}


def main() -> None:
    """Read the arguments, measure, and write each part of the page as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory with multi30k, tatoeba_en-de, ...")
    parser.add_argument("--out", type=Path, required=True, help="the page to write")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS, help="parts of the page")
    parser.add_argument("--model", type=Path, help="directory of an English-German model, for one more part")
    arguments = parser.parse_args()
    with arguments.out.open("w", encoding="utf-8") as page:
        page.write(INTRODUCTION.format(date=time.strftime("%Y-%m-%d")))
        parts = [PARTS[part](arguments.data) for part in arguments.parts]
        for line in chain(*parts, model_lines(arguments.data, arguments.model) if arguments.model else ()):
            page.write(line)
            page.flush()


if __name__ == "__main__":
    main()
