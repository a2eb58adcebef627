"""Plant wrong pairs into a training text, and check that the evidence for the mistakes they cause names them.

    python -m benchmarks.evidence                    # the phrasebook: runs/evidence, benchmarks/results/evidence.md
    python -m benchmarks.evidence --text multi30k --steps 3000                      # needs PELLUCID_DATA
    python -m benchmarks.evidence --seconds runs/demo      # the time that evidence for a word takes, after `remember`

A mistake is a word of the source whose translation is replaced, in most of the pairs that have it, by another word of
the text, one that is right in many other pairs; so the word alone does not give the planted pairs away. The model that
is trained on this makes the mistake in sentences it has not seen. For one of them the training pairs that speak for the
wrong word are asked for, 20 of each mistake. They are removed and the model is trained again; and as many pairs drawn
at random are removed instead.
"""

import argparse
import os
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import pellucid
from benchmarks.quality import HOUSE, RESULTS, machine
from pellucid.data.lines import read_lines
from pellucid.data.text.word_pieces import strip_word
from pellucid.demo.phrasebook import generate_phrases
from pellucid.interpret.influence.word_influence import find_choice, weigh_pairs
from pellucid.training.config import read_run
from pellucid.training.data import read_dev_pairs
from pellucid.training.state_store import open_state_store, remember_states

WRONG, RIGHT, TESTED = 12, 6, 4
"""Pairs with a word that are planted, that stay right, and that are held out to be translated."""

SHOWN = 20
"""Pairs of evidence that are looked at for each mistake."""

SEED = 7

SETTINGS: dict[str, dict[str, Any]] = {
    "phrasebook": {"vocabulary": 2000, "dropout": 0.0},
    "multi30k": {"vocabulary": 8000, "dropout": 0.1},
}
"""What the trainings on each text differ in."""


@dataclass(frozen=True)
class Mistake:
    """A source word with its right and its wrong translation, and where it stands."""

    source: str
    right: str
    wrong: str
    planted: frozenset[int]
    """Lines, from 1, of the training text with the wrong translation."""
    tests: tuple[str, ...]
    """Sentences with the word that are not in the training text."""


@dataclass(frozen=True)
class Evidence:
    """Pairs that the evidence for a mistake named, counted."""

    translation: str
    planted: int
    """Planted pairs among those named."""
    by_state: int
    by_gradient: int
    """Planted pairs that one way alone would have named."""
    named: frozenset[int]
    containing: int
    """Pairs of the training text with the wrong word, planted or right."""


def main() -> None:
    """Plant, train three models, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=Path, metavar="RUN", help="only measure the time that evidence takes")
    parser.add_argument("--text", choices=("phrasebook", "multi30k"), default="phrasebook")
    parser.add_argument("--pairs", type=int, default=12_000, help="pairs of the phrasebook")
    parser.add_argument("--mistakes", type=int, default=20)
    parser.add_argument("--steps", type=int, default=600, help="updates of each training")
    options = parser.parse_args()
    if options.seconds:
        print(measure_seconds(options.seconds))
        return
    pairs = phrasebook_pairs(options.pairs) if options.text == "phrasebook" else multi30k_pairs()
    name = "evidence" if options.text == "phrasebook" else f"evidence-{options.text}"
    settings = SETTINGS[options.text] | {"steps": options.steps}
    result = prove(pairs, options.mistakes, settings, HOUSE / "runs" / name)
    page = "\n".join(report_lines(result, options.text)) + "\n"
    (RESULTS / f"{name}.md").write_text(page, encoding="utf-8")
    print(page)


def prove(pairs: list[tuple[str, str]], count: int, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Plant `count` mistakes, train, ask for evidence, remove it or as many others, and return all of the numbers."""
    text, mistakes = plant_mistakes(pairs, count)
    model = train_model(text, frozenset(), settings, folder / "planted")
    remember_states(folder / "planted", lambda words: print(words, file=sys.stderr))
    before = count_mistakes(model, mistakes)
    made = [mistake for mistake in mistakes if before[mistake.source]]
    evidence = {mistake.source: ask_evidence(model, mistake, text) for mistake in made}
    named = frozenset().union(*(found.named for found in evidence.values()))
    others = [line for line in range(1, len(text) + 1) if line not in named]
    drawn = frozenset(random.Random(SEED).sample(others, len(named)))
    after = {
        name: count_mistakes(train_model(text, removed, settings, folder / name), mistakes)
        for name, removed in (("named", named), ("drawn", drawn))
    }
    planted_drawn = len(drawn & frozenset().union(*(mistake.planted for mistake in mistakes)))
    return {
        "mistakes": mistakes, "before": before, "evidence": evidence, "removed": len(named), "after": after,
        "pairs": len(text), "planted drawn": planted_drawn,
    }  # fmt: skip


def phrasebook_pairs(count: int) -> list[tuple[str, str]]:
    """Return distinct pairs of the built-in phrasebook."""
    phrases = {phrase.source: phrase.target for phrase in islice(generate_phrases(SEED), 2 * count)}
    return list(islice(phrases.items(), count))


def multi30k_pairs() -> list[tuple[str, str]]:
    """Return the training pairs of Multi30k English-German."""
    folder = Path(os.environ.get("PELLUCID_DATA") or sys.exit("PELLUCID_DATA must name the folder that holds multi30k"))
    sides = (read_lines(folder / "multi30k" / f"train.{language}.gz") for language in ("en", "de"))
    return list(zip(*sides, strict=True))


def split_words(text: str) -> list[str]:
    """Return the words of a text without the punctuation around them."""
    return [strip_word(word) for word in text.split()]


def plant_mistakes(pairs: Sequence[tuple[str, str]], count: int) -> tuple[list[tuple[str, str]], list[Mistake]]:
    """Return the training text with planted mistakes, and the mistakes.

    A word and its translation are two words that stand in the same pairs nearly always (Dice's coefficient 0.7 or more)
    and once in each. Of the pairs that have them so many stay in the text that each mistake has WRONG wrong and RIGHT
    right ones; the first TESTED of the others are the tests.
    """
    places: tuple[dict[str, list[int]], dict[str, list[int]]] = (defaultdict(list), defaultdict(list))
    for i, pair in enumerate(pairs):
        for side, text in enumerate(pair):
            for word, times in Counter(split_words(text)).items():
                if times == 1 and len(word) > 2 and word.isalpha() and not text.startswith(word):
                    places[side][word].append(i)
    translations = list(find_translations(pairs, *places))
    random.Random(SEED).shuffle(translations)
    together = {words: sorted({*places[0][words[0]]} & {*places[1][words[1]]}) for words in translations}
    enough = [words for words in translations if len(together[words]) >= WRONG + RIGHT + TESTED]
    # The wrong words are translations of words that stay right, the commonest first.
    chosen, rest = enough[:count], sorted(enough[count:], key=lambda words: -len(places[1][words[1]]))
    if len(rest) < count:
        raise ValueError(f"{len(enough)} words stand in enough pairs, and {2 * count} are needed for {count} mistakes")
    sources, changed, parts = {source for source, _ in chosen}, {}, {}
    left_out = {i for i, pair in enumerate(pairs) if not sources.isdisjoint(split_words(pair[0]))}
    for words, (_, wrong) in zip(chosen, rest, strict=False):
        # A pair with two of the words belongs to no mistake, and is left out.
        alone = [i for i in together[words] if len(sources.intersection(split_words(pairs[i][0]))) == 1]
        random.Random(SEED).shuffle(alone)
        # Where the wrong word belongs into the translation it is no mistake.
        others = [i for i in alone[WRONG + RIGHT :] if wrong not in split_words(pairs[i][1])]
        planted, tested = alone[:WRONG], others[:TESTED]
        changed |= {i: (pairs[i][0], replace_word(pairs[i][1], words[1], wrong)) for i in planted}
        # Any other pair with the word would teach the right translation.
        left_out -= {*alone[: WRONG + RIGHT]}
        parts[words] = wrong, planted, tested
    line_of = {i: line for line, i in enumerate((i for i in range(len(pairs)) if i not in left_out), start=1)}
    mistakes = [
        Mistake(source, right, wrong, frozenset(line_of[i] for i in planted), tuple(pairs[i][0] for i in tested))
        for (source, right), (wrong, planted, tested) in parts.items()
    ]
    return [changed.get(i, pairs[i]) for i in line_of], mistakes


def find_translations(
    pairs: Sequence[tuple[str, str]], sources: dict[str, list[int]], targets: dict[str, list[int]]
) -> Iterator[tuple[str, str]]:
    """Yield words with the one word that stands in nearly the same pairs."""
    for source, numbers in sorted(sources.items()):
        if len(numbers) < WRONG + RIGHT + TESTED:
            continue
        together = Counter(word for i in numbers for word in {*split_words(pairs[i][1])} if word in targets)
        dice = {word: 2 * n / (len(numbers) + len(targets[word])) for word, n in together.items()}
        best = max(dice, key=lambda word: dice[word], default=None)
        if best is not None and dice[best] >= 0.7 and best != source:
            yield source, best


def replace_word(text: str, word: str, other: str) -> str:
    """Return the text with a word replaced, the punctuation around it kept."""
    return " ".join(w.replace(word, other) if strip_word(w) == word else w for w in text.split())


def train_model(
    text: Sequence[tuple[str, str]], removed: frozenset[int], settings: dict[str, Any], folder: Path
) -> pellucid.Model:
    """Train a model on the text without some of its lines, unless that is done, and return it."""
    if not (folder / "average").exists():  # written last
        folder.mkdir(parents=True, exist_ok=True)
        kept = [pair for line, pair in enumerate(text, start=1) if line not in removed]
        for side, name in enumerate(("source", "target")):
            lines = "".join(f"{pair[side]}\n" for pair in kept)
            (folder.parent / f"{folder.name}.{name}").write_text(lines, encoding="utf-8")
        # The dev set is of the text itself: nothing is chosen by it, and no pair is held out.
        dev = {f"dev_{name}": folder.parent / f"dev.{name}" for name in ("source", "target")}
        for side, path in enumerate(dev.values()):
            path.write_text("".join(f"{pair[side]}\n" for pair in text[:100]), encoding="utf-8")
        files = {name: folder.parent / f"{folder.name}.{name}" for name in ("source", "target")} | dev
        pellucid.train(
            {
                "seed": 1,
                "data": {name: str(path) for name, path in files.items()},
                "tokenizer": {"vocabulary": settings["vocabulary"]},
                "model": {"size": "tiny", "dropout": settings["dropout"]},
                "train": {
                    "steps": settings["steps"],
                    "batch_tokens": 1024,
                    "initial_embeddings": "text",
                    "dev_sentences": 50,
                },
                "optim": {"kind": "muon", "peak": 5e-3, "warmup": 100, "schedule": "linear"},
            },
            out=folder,
        )
    return pellucid.load(folder / "best")


def count_mistakes(model: pellucid.Model, mistakes: Sequence[Mistake]) -> dict[str, int]:
    """Return how many of each mistake's tests are translated with the wrong word."""
    texts = iter(model.translate([test for mistake in mistakes for test in mistake.tests]))
    return {
        mistake.source: sum(mistake.wrong in split_words(next(texts).text) for _ in mistake.tests)
        for mistake in mistakes
    }


def ask_evidence(model: pellucid.Model, mistake: Mistake, text: Sequence[tuple[str, str]]) -> Evidence:
    """Ask which pairs speak for the wrong word in the first test that has it."""
    translations = model.translate(list(mistake.tests))
    test, translation = next(
        (test, found.text)
        for test, found in zip(mistake.tests, translations, strict=True)
        if mistake.wrong in split_words(found.text)
    )
    choice = find_choice(model.trace(test, keep="states"), mistake.wrong)
    weighed = weigh_pairs(model.bundle, open_state_store(model.directory, model.manifest), choice)
    lines = [weighed.store.place_of(number)[1] for number in weighed.numbers]

    def count_planted(order: Sequence[int]) -> int:
        return sum(lines[i] in mistake.planted for i in order[:SHOWN])

    return Evidence(
        f"{test} → {translation}",
        count_planted(weighed.order(1)),
        count_planted(np.argsort(-weighed.states, kind="stable").tolist()),
        count_planted(np.argsort(-weighed.gradients, kind="stable").tolist()),
        frozenset(lines[i] for i in weighed.order(1)[:SHOWN]),
        sum(mistake.wrong in split_words(target) for _, target in text),
    )


def report_lines(result: dict[str, Any], text: str) -> Iterator[str]:
    """Yield the lines of the page."""
    mistakes, evidence, before, after = (result[name] for name in ("mistakes", "evidence", "before", "after"))
    made, removed, others = len(evidence), result["removed"], result["planted drawn"]
    named = sum(found.planted > 0 for found in evidence.values())
    share = sum(found.planted for found in evidence.values()) / (WRONG * max(1, made))
    gone = sum(not after["named"][source] for source in evidence)
    stayed = sum(after["drawn"][source] > 0 for source in evidence)
    yield "# Which training lines taught it: planted mistakes\n"
    yield f"Made by `python -m benchmarks.evidence{' '.join(['', *sys.argv[1:]])}` on {machine()},"
    yield f"with the text {text}: {result['pairs']:,} pairs, {WRONG * len(mistakes)} of them planted.\n"
    yield f"- Of {len(mistakes)} planted mistakes the model makes {made} in sentences that it has not seen."
    yield f"- The first {SHOWN} pairs of evidence name planted pairs for {named} of these {made},"
    yield f"  and {share:.0%} of all planted pairs of these mistakes."
    yield f"- The {removed} named pairs removed and the model trained again, {gone} of {made} mistakes are gone."
    yield f"- {removed} others removed instead, drawn at random ({others} of them planted), {stayed} of {made} stay.\n"
    yield "*With it*: training pairs that have the wrong word, planted or right. *Named*: planted pairs among the"
    yield f"first {SHOWN}, of {WRONG}, by both ways together, by decoder states alone and by gradients alone. *Wrong*:"
    yield f"tests, of {TESTED} at most, whose translation has the wrong word: at first, without the named pairs, and"
    yield "without the others.\n"
    yield "| word | right | wrong | with it | named | by states | by gradients | wrong | named gone | others gone |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for m in mistakes:
        found = evidence.get(m.source)
        cells = (found.containing, found.planted, found.by_state, found.by_gradient) if found else ("–",) * 4
        counts = (before[m.source], after["named"][m.source], after["drawn"][m.source])
        yield f"| {m.source} | {m.right} | {m.wrong} | {' | '.join(map(str, (*cells, *counts)))} |"


def measure_seconds(run: Path, words: int = 15) -> str:
    """Measure how long evidence takes for a word of each of some dev sentences, and return that as a line."""
    model = pellucid.load(run / "best")
    tokens = len(open_state_store(model.directory, model.manifest).scales)
    dev = read_dev_pairs(read_run(run / "run.toml", began=run).data)
    sentences = dev[0][0].sources[:words] if dev else sys.exit(f"{run / 'run.toml'} names no dev text to ask about")
    seconds = []
    for sentence, translation in zip(sentences, model.translate(sentences), strict=True):
        began = time.monotonic()
        model.find_influence(sentence, max(split_words(translation.text), key=len))
        seconds.append(time.monotonic() - began)
    seconds.sort()
    return (
        f"Evidence for a word, in a store of {tokens:,} states: {seconds[len(seconds) // 2]:.2f} s (median of "
        f"{len(seconds)}, at most {seconds[-1]:.2f} s), the model being loaded."
    )


if __name__ == "__main__":
    main()
