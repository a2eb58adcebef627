"""Measure where terms come to stand: sentences of the phrasebook, some words of which must have a given translation.

    python -m benchmarks.terms                                  # runs/demo/best, minutes
    python -m benchmarks.terms --rows terms.json                # and the rows as JSON
    python -m benchmarks.terms --before terms.json              # beside the rows of another version

What should come out is known: the phrasebook's translation, with the term in place of the word that is linked to its
source. Writes benchmarks/results/terms.md.
"""

import argparse
import json
import random
import re
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

from sacrebleu.metrics.chrf import CHRF

import pellucid
from benchmarks.quality import RESULTS, machine
from pellucid.demo.phrasebook import generate_phrases, is_held_back
from pellucid.demo.phrasebook.chunk import Phrase, split_into_words

NAME = "Zorplat"
"""A term that the model has never seen."""

Case = tuple[str, dict[str, str], str]
"""A sentence, its terms, and what should come out."""


def main() -> None:
    """Translate every set of cases, and write the page."""
    options = parse_options(sys.argv[1:])
    model = pellucid.load(options.model)
    rows = {}
    for kind, cases in make_cases(options.sentences).items():
        start = time.process_time()
        texts = [model.translate([source], terms=terms)[0].text for source, terms, _ in cases]
        expected = [text for _, _, text in cases]
        rows[kind] = {
            "sentences": len(cases),
            "as they should be": sum(text == other for text, other in zip(texts, expected, strict=True)),
            "chrF": round(CHRF().corpus_score(texts, [expected]).score, 1),
            "CPU seconds": round(time.process_time() - start),
        }
        print(kind, rows[kind], flush=True)
    if options.rows:
        options.rows.write_text(json.dumps(rows), encoding="utf-8")
    before = json.loads(options.before.read_text(encoding="utf-8")) if options.before else {}
    options.out.write_text("\n".join(page_lines(options, rows, before)) + "\n", encoding="utf-8")


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Parse the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.terms")
    parser.add_argument("--model", default="runs/demo/best")
    parser.add_argument("--sentences", type=int, default=100, help="how many of them")
    parser.add_argument("--rows", type=Path, help="a file for the rows, as JSON")
    parser.add_argument("--before", type=Path, help="the rows of another version")
    parser.add_argument("--out", type=Path, default=RESULTS / "terms.md", help="the page to write")
    return parser.parse_args(arguments)


def make_cases(sentences: int) -> dict[str, list[Case]]:
    """Return the cases of each kind, drawn from phrases that are never trained on."""
    held_back = (phrase for phrase in generate_phrases(99) if is_held_back(phrase.source))
    generator, phrases = random.Random(3), list(islice(held_back, sentences))
    words = sorted({word for phrase in phrases for word in split_into_words(phrase.target) if len(word) > 3})
    words = [word for word in words if word.isalpha()]
    kinds: dict[str, list[Case]] = {
        "the word that the model writes": [],
        "another word": [],
        "a name": [],
        "two words": [],
    }
    for phrase in phrases:
        pairs = linked_words(phrase)
        generator.shuffle(pairs)
        targets = [pairs[0][1], generator.choice(words), NAME] if pairs else []
        for cases, target in zip(list(kinds.values()), targets, strict=False):  # for all but the last kind
            cases.append(make_case(phrase, [(*pairs[0], target)]))
        if len(pairs) > 1:
            kinds["two words"].append(make_case(phrase, [(*pair, generator.choice(words)) for pair in pairs[:2]]))
    return kinds


def linked_words(phrase: Phrase) -> list[tuple[str, str]]:
    """Return the words of a phrase that are linked to one word, which is linked to no other; not at its beginning."""
    source, target = split_into_words(phrase.source), split_into_words(phrase.target)
    sources, targets = ([link[side] for link in phrase.links] for side in (0, 1))
    return [
        (source[i], target[j])
        for i, j in phrase.links
        if sources.count(i) == targets.count(j) == source.count(source[i]) == 1
        and j > 0
        and len(source[i]) > 3
        and source[i].isalpha()
        and target[j].isalpha()
    ]


def make_case(phrase: Phrase, terms: list[tuple[str, str, str]]) -> Case:
    """Return the case of a phrase with terms, each a source word, its translation, and what must stand there."""
    expected = phrase.target
    for _, usual, term in terms:
        expected = re.sub(rf"\b{usual}\b", term, expected, count=1)
    return phrase.source, {source: term for source, _, term in terms}, expected


def page_lines(options: argparse.Namespace, rows: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Return the lines of the page."""
    columns = ["sentences", "as they should be", "chrF", "CPU seconds"]
    head = ["terms", *columns, *([f"{column}, before" for column in columns[1:]] if before else [])]
    return [
        "# Where terms come to stand",
        "",
        "    python -m benchmarks.terms" + (" --before terms.json" if before else ""),
        "",
        f"{machine()}; {options.model}, beam 4, sentence by sentence.",
        *(["Before: commit 17ce164, with a beam in which every hypothesis must have the terms."] if before else []),
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
        *(
            f"| {' | '.join(map(str, [kind, *row.values(), *list(before.get(kind, {}).values())[1:]]))} |"
            for kind, row in rows.items()
        ),
    ]


if __name__ == "__main__":
    main()
