"""Measure where terms come to stand, and in which form: sentences, some words of which must have a given translation.

    python -m benchmarks.terms runs/demo/best                           # the phrasebook
    python -m benchmarks.terms runs/a/best runs/b/best --text multi30k/test_2016_flickr.de --train multi30k/train.de

Each sentence is a call with its own terms, but for the last kind, a text that is translated with one glossary.
In the phrasebook what should come out is known: its translation, with the term in place of the word that is linked to
its source. Of another text (below PELLUCID_DATA) links are learned, and it is counted how often the term stands in the
translation. Prints a table for benchmarks/results/terms.md.
"""

import argparse
import gzip
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from sacrebleu.metrics.chrf import CHRF

import pellucid
from pellucid.data.term_spans import TermLinks, find_common_words, list_term_spans, split_term_words
from pellucid.data.text.protected import find_protected
from pellucid.demo.phrasebook import Phrase, generate_phrases, is_held_back, split_into_words
from pellucid.localize.terminology import Terms
from tools.phrasebook import lexicon

NAME = "Zorplat"
"""A term that no model has seen."""


MOST_NAMED = 100
"""Sentences whose words are asked where they come from."""


class Case(NamedTuple):
    """A sentence, its terms, and what should come out."""

    source: str
    terms: dict[str, str]
    expected: str


def main() -> None:
    """Translate every set of cases with every model, and print a row for each."""
    options = parse_options(sys.argv[1:])
    columns = ("model", "terms", "sentences", "as they should be", "term there", "named as the term's", "chrF")
    columns += ("CPU seconds", "without terms")
    print(f"| {' | '.join(columns)} |")
    print(f"{'|---' * len(columns)}|")
    kinds = make_cases(options) if options.text else make_phrase_cases(options.sentences)
    for path in options.models:
        model = pellucid.load(path, engine=options.engine)
        for kind, cases in kinds.items():
            texts: list[str] = []
            seconds: list[float] = []
            translate_cases(model, cases[:5], use_terms=True)  # what is loaded once is not counted
            for use_terms in (False, True):
                start = time.process_time()
                texts = translate_cases(model, cases, use_terms)
                seconds.append(round(time.process_time() - start, 1))
            expected = [case.expected for case in cases]
            same = sum(text == other for text, other in zip(texts, expected, strict=True))
            there = sum(
                all(target.lower() in text.lower() for target in list_targets(case))
                for text, case in zip(texts, cases, strict=True)
            )
            chrf = CHRF().corpus_score(texts, [expected]).score
            cells = [path, kind, len(cases), same, there, count_named(model, cases), f"{chrf:.1f}", *seconds[::-1]]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
            if options.show:
                for case, text in islice(zip(cases, texts, strict=True), options.show):
                    print(f"    {case.source} {case.terms}\n        {text}\n        {case.expected}")


def translate_cases(model: pellucid.Model, cases: list[Case], use_terms: bool) -> list[str]:
    """Return the translations of cases: one by one, or in one call where all have the same terms."""
    glossary = cases[0].terms
    if all(case.terms is glossary for case in cases):
        sources = [case.source for case in cases]
        return [translation.text for translation in model.translate(sources, terms=glossary if use_terms else None)]

    texts = []
    for case in cases:
        texts.append(model.translate(case.source, terms=case.terms if use_terms else None).text)
    return texts


def list_targets(case: Case) -> list[str]:
    """Return the targets of the terms that stand in the source of a case."""
    return [match.targets[0] for match in Terms.from_pairs(case.terms).matches(case.source)]


def count_named(model: pellucid.Model, cases: list[Case]) -> str:
    """Return how many terms that stand in the translations, and not in those without terms, are named so."""
    named = there = 0
    for case in cases[:MOST_NAMED]:
        translation = model.translate(case.source, terms=case.terms, provenance=True)
        plain = model.translate(case.source).text.lower()
        for term in list_targets(case):
            if term.lower() in translation.text.lower() and term.lower() not in plain:
                there += 1
                origins = [origin for origin in translation.provenance or () if origin.target == term]
                named += any(term.lower() in origin.word.lower() for origin in origins)
    return f"{named} of {there}"


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Parse the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.terms")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--sentences", type=int, default=100, help="how many of them")
    parser.add_argument("--text", help="a text and its language, below PELLUCID_DATA: multi30k/test_2016_flickr.de")
    parser.add_argument("--train", help="a text to learn links from, too: multi30k/train.de")
    parser.add_argument("--engine", default="torch")
    parser.add_argument("--show", type=int, default=0, help="translations to print of each kind")
    return parser.parse_args(arguments)


def make_phrase_cases(sentences: int) -> dict[str, list[Case]]:
    """Return the cases of each kind, drawn from phrases that are never trained on."""
    held_back = [phrase for phrase in islice(generate_phrases(99), 100_000) if is_held_back(phrase.source)]
    generator, phrases = random.Random(3), held_back[:sentences]
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
    kinds["two nouns or adjectives"] = list(islice(paired_cases(held_back), sentences))
    kinds["another adjective, not in the form of the glossary"] = list(islice(inflected_cases(held_back), sentences))
    glossary = list_glossary()
    many = held_back[: 6 * sentences]
    kinds["a glossary of all nouns and adjectives"] = [Case(phrase.source, glossary, phrase.target) for phrase in many]
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


def paired_cases(phrases: list[Phrase]) -> Iterator[Case]:
    """Yield phrases with two nouns or adjectives that become others, in the form that the first ones have.

    A glossary has nouns for nouns. The other noun has the gender and the number of the one in the phrase, so that
    nothing else in the sentence changes; the other adjective belongs to the same verb, ser or estar.
    """
    generator = random.Random(7)
    every = [noun for group in lexicon.nouns_of.values() for noun in group]
    nouns = [noun for noun in every if not noun.takes_el and not noun.plural_only]
    adjectives = [word for group in lexicon.adjectives_of.values() for word in group]
    for phrase in phrases:
        terms: list[tuple[str, str, str]] = []
        for source, target in linked_words(phrase):
            alike: list[str] = []
            for noun in nouns:
                if source in noun.english and target in noun.spanish:
                    number, kind = noun.spanish.index(target), kind_of_noun(noun)
                    alike = [other.spanish[number] for other in nouns if kind_of_noun(other) == kind]
            for adjective in adjectives:
                if source == adjective.english and target in adjective.forms:
                    form, copula = adjective.forms.index(target), adjective.copula
                    alike = [other.forms[form] for other in adjectives if other.copula == copula]
            others = sorted(set(alike) - set(split_into_words(phrase.target)))
            if others:
                terms.append((source, target, generator.choice(others)))
        if len(terms) > 1:
            yield make_case(phrase, generator.sample(terms, 2))


def list_glossary() -> dict[str, str]:
    """Return all nouns of the phrasebook, in both numbers, and its adjectives in their first form."""
    glossary: dict[str, str] = {}
    for nouns in lexicon.nouns_of.values():
        for noun in nouns:
            forms = zip(noun.english, noun.spanish, strict=True)
            glossary.update((english, spanish) for english, spanish in forms if english and spanish)
    for adjectives in lexicon.adjectives_of.values():
        glossary.update((adjective.english, adjective.forms[0]) for adjective in adjectives)
    return glossary


def kind_of_noun(noun: lexicon.Noun) -> tuple[bool, bool, str]:
    """Return what else in a sentence depends on a noun: gender, whether it is counted, and whether it lives."""
    living = noun.group if noun.group in ("people", "kin", "animals") else "thing"
    return noun.feminine, noun.counted, "people" if living == "kin" else living


def inflected_cases(phrases: list[Phrase]) -> Iterator[Case]:
    """Yield phrases with an adjective that becomes another one, which a glossary has in its first form only.

    The other adjective belongs to the same verb, ser or estar, and its form in the phrase is not the glossary's.
    """
    generator = random.Random(5)
    adjectives = {word.english: word for words in lexicon.adjectives_of.values() for word in words}
    for phrase in phrases:
        for source, target in linked_words(phrase):
            old = adjectives.get(source)
            if old is None or target not in old.forms or len(set(old.forms)) < 4:
                continue
            others = [word for word in adjectives.values() if word.copula == old.copula and word is not old]
            new = generator.choice(others)
            form = new.forms[old.forms.index(target)]
            if form != new.forms[0]:
                expected = re.sub(rf"\b{target}\b", form, phrase.target, count=1)
                yield Case(phrase.source, {source: new.forms[0]}, expected)


def make_case(phrase: Phrase, terms: list[tuple[str, str, str]]) -> Case:
    """Return the case of a phrase with terms, each a source word, its translation, and what must stand there."""
    expected = phrase.target
    for _, usual, term in terms:
        expected = re.sub(rf"\b{usual}\b", term, expected, count=1)
    return Case(phrase.source, {source: term for source, _, term in terms}, expected)


def make_cases(options: argparse.Namespace) -> dict[str, list[Case]]:
    """Return cases of another text, by links that are learned from it."""
    test, train = (read_text(name) if name else [] for name in (options.text, options.train))
    sources, targets = ([split_term_words(pair[side]) for pair in [*test, *train]] for side in (0, 1))
    links = TermLinks(sources, targets)
    common = find_common_words(sources), find_common_words(targets)
    generator = random.Random(3)
    words = sorted({word for target in targets for word in target if word.isalpha() and len(word) > 3})
    kinds: dict[str, list[Case]] = {"the word of the reference": [], "another word": [], "a name": [], "two words": []}
    for (source, target), linked in zip(test, links.link(sources[: len(test)], targets[: len(test)]), strict=True):
        source_words, target_words = split_term_words(source), split_term_words(target)
        code = " ".join(match[0] for match in find_protected(source))
        pairs = []
        for (start, end), (first, last) in list_term_spans(source_words, target_words, linked, common):
            one = source_words[start], target_words[first]
            is_single = end == start + 1 and last == first + 1 and first > 0 and len(one[0]) > 3
            # In code and addresses nothing is a term.
            if is_single and source_words.count(one[0]) == target_words.count(one[1]) == 1 and one[0] not in code:
                pairs.append(one)
        if len(pairs) < 2:
            continue
        generator.shuffle(pairs)
        phrase, [one, two] = Phrase(source, target, ()), pairs[:2]
        for kind, terms in zip(
            kinds,
            (
                [(*one, one[1])],
                [(*one, generator.choice(words))],
                [(*one, NAME)],
                [(*one, generator.choice(words)), (*two, generator.choice(words))],
            ),
            strict=True,
        ):
            kinds[kind].append(make_case(phrase, terms))
        if len(kinds["two words"]) == options.sentences:
            break
    return kinds


def read_text(name: str) -> list[tuple[str, str]]:
    """Read the pairs of English and another language of a text of PELLUCID_DATA."""
    path = Path(os.environ["PELLUCID_DATA"]) / f"{name}.gz"
    english = path.with_name(re.sub(r"\.\w+\.gz$", ".en.gz", path.name))
    sides = (gzip.decompress(file.read_bytes()).decode().split("\n") for file in (english, path))
    return [pair for pair in zip(*sides, strict=True) if all(pair)]


if __name__ == "__main__":
    main()
