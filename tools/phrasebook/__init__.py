"""The grammar of the phrasebook: draws English-Spanish pairs with word alignments; the package ships what it drew.

    python -m tools.phrasebook     # writes src/pellucid/demo/phrasebook.xz anew

The published results of the demo and its weights depend on that file. So a test makes its lines anew and compares them:
a change of the grammar changes the demo.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from pellucid.demo.phrasebook import HELD_OUT, STORED_SEED, Phrase, is_held_back
from tools.phrasebook.chunk import finish_phrase
from tools.phrasebook.patterns import Patterns

STORED_TRAIN, STORED_HELD_BACK = 120_000, 1_500
"""How many distinct pairs the demo trains on, and how many it scores on; the file has as many, or more."""

# A held-out line must not be part of a longer one either. Of two sentences the first is enough. The idiom is not in
# this list: nothing but longer lines can teach it.
_SPOILERS = tuple(phrase.source.partition(".")[0].lower() for phrase in HELD_OUT if phrase.target != "De nada.")


def draw_phrases(seed: int) -> Iterator[Phrase]:
    """Draw phrases of the grammar without end, some more than once, and none that is held out."""
    grammar = Patterns(random.Random(seed))
    while True:
        phrase = finish_phrase(grammar.sentence())
        if not any(spoiler in phrase.source.lower() for spoiler in _SPOILERS):
            yield phrase


def generate_documents(seed: int) -> Iterator[tuple[Phrase, Phrase]]:
    """Generate distinct documents of two sentences without end: the second has a pronoun for a noun of the first.

    The Spanish of the second shows the gender of that noun (The ball was red. It is small. Es pequeña.), and its
    English does not, so that only the first sentence can tell. Half of the nouns are feminine.
    """
    grammar, used = Patterns(random.Random(seed)), set[tuple[str, str]]()
    while True:
        first, second = map(finish_phrase, grammar.two_sentences())
        if (first.source, second.source) not in used:
            used.add((first.source, second.source))
            yield first, second


def draw_stored_lines() -> Iterator[str]:
    """Draw the lines of the phrasebook's file: what the grammar says until the demo has all its pairs."""
    train, held_back = set[str](), set[str]()
    for phrase in draw_phrases(STORED_SEED):
        if len(train) >= STORED_TRAIN and len(held_back) >= STORED_HELD_BACK:
            return
        (held_back if is_held_back(phrase.source) else train).add(phrase.source)
        links = " ".join(f"{i}-{j}" for i, j in phrase.links)
        yield f"{phrase.source}\t{phrase.target}\t{links}\n"
