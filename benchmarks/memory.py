"""Measure what similar units of a memory are worth: held-out phrases, and a memory that calls some things otherwise.

    python -m benchmarks.memory runs/terms/best

The memory has phrases of the training text, in which some words are translated in another way, as a customer would have
it. What should come out is the phrase's translation with the customer's words. Phrases with and without a similar unit
are counted apart: what has none must not become worse. Prints a table for benchmarks/results/terms.md.
"""

import argparse
import re
import sys
import time
from itertools import islice
from pathlib import Path

from sacrebleu.metrics.chrf import CHRF

import pellucid
from pellucid.demo.phrasebook import generate_phrases, is_held_back
from pellucid.localize.translation_memory import TranslationMemory

WORDS = {"perro": "can", "casa": "vivienda", "coche": "automóvil", "niño": "chiquillo", "bonito": "lindo"}
WORDS |= {"mesa": "tablero", "libro": "tomo", "granja": "finca", "ciudad": "urbe", "pequeño": "chico"}
WORDS |= {"hermosa": "bella", "compró": "adquirió", "bebió": "tomó", "caro": "costoso", "agua": "bebida"}
"""The customer's words for the phrasebook's."""


def main() -> None:
    """Translate held-out phrases with the memory and without it, and print the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--units", type=int, default=10_000)
    parser.add_argument("--sentences", type=int, default=200)
    options = parser.parse_args(sys.argv[1:])

    phrases = list(islice(generate_phrases(1), 120_000))
    trained = [phrase for phrase in phrases if not is_held_back(phrase.source)]
    units = [(phrase.source, rename(phrase.target)) for phrase in trained if has_words(phrase.target)]
    memory = TranslationMemory(units[: options.units])
    held_back = {phrase.source: phrase.target for phrase in phrases if is_held_back(phrase.source)}
    kinds: dict[str, list[str]] = {"with a similar unit": [], "without": []}
    for source, target in held_back.items():
        match = memory.find(source)
        # A unit that has the customer's word can tell it, and one that has none can tell nothing.
        if match is not None and has_words(target):
            kinds["with a similar unit"].append(source)
        elif match is None:
            kinds["without"].append(source)

    columns = ("model", "phrases", "number", "chrF", "with memory", "customer's words", "with memory")
    columns += ("seconds", "with memory", "of them named as the unit's")
    print(f"| {' | '.join(columns)} |")
    print(f"{'|---' * len(columns)}|")
    for path in options.models:
        model = pellucid.load(path, engine="torch")
        for kind, sources in kinds.items():
            chosen = sources[: options.sentences]
            expected = [rename(held_back[source]) if kind != "without" else held_back[source] for source in chosen]
            wanted = [set(split(text)) & set(WORDS.values()) for text in expected]
            row: dict[str, list[str]] = {"chrF": [], "words": [], "seconds": []}
            for used in (None, memory):
                start = time.process_time()
                texts = [translation.text for translation in model.translate(chosen, translation_memory=used)]
                row["seconds"].append(f"{time.process_time() - start:.1f}")
                row["chrF"].append(f"{CHRF().corpus_score(texts, [expected]).score:.1f}")
                found = sum(len(words & set(split(text))) for words, text in zip(wanted, texts, strict=True))
                row["words"].append(f"{found} of {sum(map(len, wanted))}")
            cells = [cell for name in ("chrF", "words", "seconds") for cell in row[name]]
            cells.append(count_named(model, memory, chosen, wanted))
            print(f"| {path} | {kind} | {len(chosen)} | {' | '.join(cells)} |", flush=True)


def count_named(model: pellucid.Model, memory: TranslationMemory, sources: list[str], wanted: list[set[str]]) -> str:
    """Return how many of the customer's words that are written come, as it is said, from the unit that has them."""
    named = written = 0
    translations = model.translate(sources, translation_memory=memory, provenance=True)
    for source, words, translation in zip(sources, wanted, translations, strict=True):
        unit = memory.find(source)
        for origin in translation.provenance or ():
            if words.intersection(split(origin.word)):
                written += 1
                named += unit is not None and (origin.origin, origin.place) == ("memory", unit.place)
    return f"{named} of {written}"


def split(text: str) -> list[str]:
    """Return the words of a text."""
    return re.findall(r"\w+", text)


def has_words(text: str) -> bool:
    """Return whether the customer says something of a text otherwise."""
    return not WORDS.keys().isdisjoint(split(text))


def rename(text: str) -> str:
    """Return a text with the customer's words."""
    return re.sub(r"\w+", lambda word: WORDS.get(word[0], word[0]), text)


if __name__ == "__main__":
    main()
