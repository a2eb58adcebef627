"""Measures how well our rule finds the ends of sentences in real text, beside libraries for it.

Run: python -m benchmarks.sentences --out benchmarks/results/sentences.md

Needs PELLUCID_DATA, and the libraries where it runs: pip install sentencex pysbd sentence-splitter blingfire
"""

import argparse
import gzip
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks.quality import machine
from pellucid.data.text.sentences import sentence_ends

Split = Callable[[str], Sequence[str]]
"""Returns the sentences of a text; white space between them may be lost."""

MOST_LINES = 1_000
"""Lines that are drawn from a corpus."""

LINES_OF_TEXT = 10
"""Lines that are joined to one text."""

NO_BREAK_SPACE = "\u00a0"

HOW_IT_WAS_MEASURED = f"""
Up to {MOST_LINES:,} lines of each text are drawn, and {LINES_OF_TEXT} at a time are joined with a space or with a
no-break space, Japanese also with nothing. Where two lines meet, a sentence ends. A cell has precision, recall and
F1 in percent: how many of the found ends are right, how many of the right ends were found, and their harmonic mean.
A wrong end tears a sentence apart; a missed one leaves two sentences together.

Lines are left out whose ends nobody can know from the text: those without a mark at the end (headings, captions),
those that begin with a small letter, and those that hold several sentences, which is so if more than half of the
libraries find an end inside the line. Our rule has no vote in this. So an end inside a line that our rule finds and
most libraries miss counts against it, even where a reader would agree with it (`--faults` lists all). Our rule and
blingfire are not told the language; the others are. A dash: the library does not know the language.

The rule was improved on other texts (`--improve`: validation sets, newstest2012, TED 2013, and the first half of
each text of WMT22 and NTREX). After a first run on the texts below, in which its sum with a space was 99.6 / 99.9 /
99.8, three things were changed: a few abbreviations that are words of another language were taken from its lists,
"Das 6. Treffen" is known with a capital too, and wide marks with spaces between them are read together.
"""

# A line that ends without one of these marks is a heading or a caption.
ENDS_WITH_MARK = re.compile(r"""[.!?…。！？؟۔।]["'”’“»›)\]」』）\s]*\Z""")


@dataclass(frozen=True)
class Corpus:
    """Lines of one language: the file on which the rule was improved, and the one that is reported."""

    name: str
    language: str
    improved_on: str
    reported: str

    def read(self, folder: Path, reported: bool) -> list[str]:
        """Return a sample of its lines; where there is one file only, its halves serve both purposes."""
        lines = [line for line in read_lines(folder / (self.reported if reported else self.improved_on)) if line]
        if self.improved_on == self.reported:
            middle = len(lines) // 2
            lines = lines[middle:] if reported else lines[:middle]
        random.Random(1).shuffle(lines)
        return lines[:MOST_LINES]


def list_corpora() -> list[Corpus]:
    """Return the corpora: everyday sentences, captions, news, talks, documentation and untidy text."""
    corpora = [Corpus("Tatoeba", "en", "tatoeba_en-de/valid.en.gz", "tatoeba_en-de/test.en.gz")]
    for language in ("de", "fr", "es"):
        folder = f"tatoeba_en-{language}"
        corpora.append(Corpus("Tatoeba", language, f"{folder}/valid.{language}.gz", f"{folder}/test.{language}.gz"))
    for language in ("en", "de", "fr", "cs"):
        files = f"multi30k/val.{language}.gz", f"multi30k/test_2016_flickr.{language}.gz"
        corpora.append(Corpus("Multi30k", language, *files))
    for language in ("en", "de", "fr", "es", "cs"):
        files = f"wmt_news/newstest2012.{language}.gz", f"wmt_news/newstest2013.{language}.gz"
        corpora.append(Corpus("newstest", language, *files))
    for language in ("en", "de"):
        files = f"ted_de-en/TED.tst2013.{language}.gz", f"ted_de-en/TED.tst2014.{language}.gz"
        corpora.append(Corpus("TED", language, *files))
    for language in ("en", "es"):
        files = f"pydocs_en-es/valid.{language}.gz", f"pydocs_en-es/test.{language}.gz"
        corpora.append(Corpus("Python's documentation", language, *files))
    for name, language, file in (
        ("WMT22", "uk", "emoji_uk-en/generaltest2022.uk.gz"),
        ("WMT22", "ja", "nospace_ja-en/generaltest2022.ja.gz"),
        ("NTREX", "ar", "rtl_crlf_ntrex/newstest2019-ref.arb.first400.txt"),
        ("NTREX", "he", "rtl_crlf_ntrex/newstest2019-ref.heb.first400.txt"),
    ):
        corpora.append(Corpus(name, language, f"messy/{file}", f"messy/{file}"))
    return corpora


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file without white space around them."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [line.strip() for line in text.split("\n")]


def split_with_ours(language: str) -> Split:
    """Return our rule, which is not told the language."""

    def split(text: str) -> list[str]:
        return [text[start:end] for start, end in pairwise([0, *sentence_ends(text, 0, len(text))])]

    return split


def split_with_sentencex(language: str) -> Split:
    """Return the splitter of the Wikimedia foundation's library."""
    import sentencex  # pyright: ignore[reportMissingImports]

    return lambda text: sentencex.segment(language, text)


def split_with_pysbd(language: str) -> Split | None:
    """Return the splitter of pysbd, or None for a language that it does not know."""
    import pysbd  # pyright: ignore[reportMissingImports]
    from pysbd.languages import LANGUAGE_CODES  # pyright: ignore[reportMissingImports]

    return pysbd.Segmenter(language=language, clean=False).segment if language in LANGUAGE_CODES else None


def split_with_sentence_splitter(language: str) -> Split | None:
    """Return the splitter that was made for Europarl, or None for a language that it does not know."""
    from sentence_splitter import SentenceSplitter, SentenceSplitterException  # pyright: ignore[reportMissingImports]

    try:
        return SentenceSplitter(language).split
    except SentenceSplitterException:
        return None


def split_with_blingfire(language: str) -> Split:
    """Return the splitter of Bling Fire, which is not told the language."""
    import blingfire  # pyright: ignore[reportMissingImports]

    return lambda text: blingfire.text_to_sentences(text).split("\n")


OURS = "ours"
CONTESTANTS: dict[str, Callable[[str], Split | None]] = {
    OURS: split_with_ours,
    "sentencex": split_with_sentencex,
    "pysbd": split_with_pysbd,
    "sentence-splitter": split_with_sentence_splitter,
    "blingfire": split_with_blingfire,
}


def list_places(sentences: Sequence[str]) -> set[int]:
    """Return where sentences meet, as numbers of characters before, white space not counted."""
    places, count = set[int](), 0
    for sentence in sentences:
        count += len("".join(sentence.split()))
        places.add(count)
    # The end of the text is no merit, and neither is an empty sentence at its beginning.
    return places - {0, count}


def is_one_sentence(line: str, libraries: Sequence[Split]) -> bool:
    """Whether no place inside the line is the end of a sentence for more than half of the libraries."""
    votes = Counter(place for split in libraries for place in list_places(split(line)))
    return all(2 * count <= len(libraries) for count in votes.values())


def choose_lines(lines: Sequence[str], libraries: Sequence[Split]) -> list[str]:
    """Return the lines of which it is known where they end: at a mark, after one sentence, begun as one."""
    return [
        line
        for line in lines
        if ENDS_WITH_MARK.search(line) and not line[0].islower() and is_one_sentence(line, libraries)
    ]


class Score(NamedTuple):
    """Ends of sentences that were found, those of them that are right, and those that there are."""

    found: int
    right: int
    gold: int

    def __add__(self, other: "Score") -> "Score":  # type: ignore[override]
        return Score(*(a + b for a, b in zip(self, other, strict=True)))

    def show(self) -> str:
        """Return precision, recall and F1 in percent."""
        precision, recall = 100 * self.right / max(1, self.found), 100 * self.right / max(1, self.gold)
        return f"{precision:.1f} / {recall:.1f} / {self.compute_f1():.1f}"

    def compute_f1(self) -> float:
        """Return the harmonic mean of precision and recall, in percent."""
        return 200 * self.right / max(1, self.found + self.gold)


def group_lines(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the lines of each text."""
    return (lines[i : i + LINES_OF_TEXT] for i in range(0, len(lines), LINES_OF_TEXT))


def score_split(split: Split, lines: Sequence[str], between: str) -> Score:
    """Join lines to texts, split these, and compare where they are split with where the lines end."""
    total = Score(0, 0, 0)
    for group in group_lines(lines):
        gold, found = list_places(group), list_places(split(between.join(group)))
        total += Score(len(found), len(found & gold), len(gold))
    return total


def show_faults(lines: Sequence[str], split: Split, between: str) -> Iterator[str]:
    """Yield what our rule cuts wrongly (CUT) and what it misses (MISS), with the text around."""
    for group in group_lines(lines):
        text = between.join(group)
        gold, found = list_places(group), list_places(split(text))
        places = [i for i, character in enumerate(text) if not character.isspace()]
        for place in sorted(gold ^ found):
            kind = "CUT " if place in found else "MISS"
            at = places[place]
            yield f"{kind} {text[max(0, at - 45) : at]}|{text[at : at + 30]}"


def measure_speed(split: Split, texts: Sequence[str]) -> float:
    """Return the microseconds of processor time for a text, the best of five rounds."""
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        for text in texts:
            split(text)
        best = min(best, time.process_time() - started)
    return 1e6 * best / len(texts)


def name_separators(corpus: Corpus) -> dict[str, str]:
    """Return what the lines of a corpus are joined with, by its name."""
    separators = {"space": " ", "no-break space": NO_BREAK_SPACE}
    return {"nothing": "", **separators} if corpus.language == "ja" else separators


class Trial:
    """The rows of the page, and the sums over all corpora, as they are measured."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.speeds: list[str] = []
        self.everywhere: dict[str, dict[str, Score]] = {}
        self.known_to_all: dict[str, dict[str, Score]] = {}

    def measure(self, corpus: Corpus, lines: Sequence[str], splits: dict[str, Split | None]) -> None:
        """Score and time each contestant on the lines of a corpus."""
        title = f"{corpus.name} {corpus.language}"
        for joined, between in name_separators(corpus).items():
            cells = []
            for name, split in splits.items():
                score = score_split(split, lines, between) if split else None
                cells.append(score.show() if score else "–")
                if score:
                    add_score(self.everywhere, joined, name, score)
                if score and all(splits.values()):
                    add_score(self.known_to_all, joined, name, score)
            self.rows.append(f"| {title} | {len(lines):,} | {joined} | {' | '.join(cells)} |")
            print(self.rows[-1], flush=True)

        if corpus.name == "newstest":
            texts = [" ".join(group) for group in group_lines(lines)]
            for what, samples in (("one line", lines), (f"{LINES_OF_TEXT} lines", texts)):
                times = [f"{measure_speed(split, samples):,.1f}" if split else "–" for split in splits.values()]
                self.speeds.append(f"| {title} | {what} | {' | '.join(times)} |")


def add_score(sums: dict[str, dict[str, Score]], joined: str, name: str, score: Score) -> None:
    """Add a score to the sum of a contestant, for one way of joining."""
    by_name = sums.setdefault(joined, {})
    by_name[name] = by_name.get(name, Score(0, 0, 0)) + score


def sum_rows(sums: dict[str, dict[str, Score]], title: str) -> Iterator[str]:
    """Yield a row for each way of joining lines."""
    for joined, by_name in sums.items():
        cells = [by_name[name].show() if name in by_name else "–" for name in CONTESTANTS]
        yield f"| {title} | {joined} | {' | '.join(cells)} |"


def page_lines(trial: Trial) -> Iterator[str]:
    """Yield the lines of the page."""
    names = " | ".join(CONTESTANTS)
    rule = "|---" * len(CONTESTANTS)
    versions = ", ".join(f"{name} {version(name)}" for name in CONTESTANTS if name != OURS)
    yield "# Where sentences end: our rule beside libraries\n"
    yield f"Made by `python -m benchmarks.sentences` on {machine()}, on which other programs ran. {versions}.\n"
    yield HOW_IT_WAS_MEASURED
    yield f"| all texts | joined with | {names} |"
    yield f"|---|---{rule}|"
    yield from sum_rows(trial.everywhere, "each on the languages it knows")
    yield from sum_rows(trial.known_to_all, "languages that all know")
    yield f"\n| text | lines | joined with | {names} |"
    yield f"|---|---|---{rule}|"
    yield from trial.rows
    yield "\n## Speed\n"
    yield "Microseconds of processor time for a text, the best of five rounds: a line alone, and ten joined.\n"
    yield f"| text | length | {names} |"
    yield f"|---|---{rule}|"
    yield from trial.speeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="the page to write")
    parser.add_argument("--improve", action="store_true", help="read the texts on which the rule was improved")
    parser.add_argument("--faults", action="store_true", help="show each fault of our rule")
    parser.add_argument("--only", default="", help="corpora whose name and language contain this")
    options = parser.parse_args()
    if "PELLUCID_DATA" not in os.environ:
        sys.exit("PELLUCID_DATA must name the folder that holds the corpora")
    folder = Path(os.environ["PELLUCID_DATA"])

    trial = Trial()
    for corpus in list_corpora():
        if options.only not in f"{corpus.name} {corpus.language}":
            continue
        splits = {name: make(corpus.language) for name, make in CONTESTANTS.items()}
        libraries = [split for name, split in splits.items() if split and name != OURS]
        lines = choose_lines(corpus.read(folder, not options.improve), libraries)
        trial.measure(corpus, lines, splits)
        if options.faults:
            print(*show_faults(lines, split_with_ours(corpus.language), " "), sep="\n")
    text = "\n".join(page_lines(trial)) + "\n"
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
