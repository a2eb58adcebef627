"""Trains a model with the sentence before and one without, and counts the pronouns that each translates rightly.

    python -m benchmarks.context [--documents 5000] [--steps 1500] [--page benchmarks/results/context.md]
    PELLUCID_DATA=... python -m benchmarks.context --ted --steps 4000 [--seeds 1 2 ...]

The documents are the phrasebook's: two sentences, the second with a pronoun for a noun of the first. Its English does
not tell the gender that its Spanish shows, so a model that reads single sentences can only guess. With --ted the
documents are newspaper texts and talks, German to English; this measures the second section of the page.
"""

import argparse
import gzip
import os
import platform
import re
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

from pellucid import Model, load, train
from pellucid.demo.phrasebook import generate_documents
from pellucid.demo.phrasebook.chunk import Phrase
from pellucid.evaluate.comparison import Comparison, compare_translations

ROOT = Path(__file__).resolve().parent.parent
HELD_OUT = 500
TRACED = 100
"""Test documents whose second sentence is traced."""

TALKS = "## News and talks, German to English"
TRAINING_SETS = [*(f"wmt_news/newstest{year}" for year in range(2008, 2013)), "ted_de-en/TEDX.tst2013"]
TRAINING_SETS += ["ted_de-en/TEDX.tst2014"]
PRONOUNS = {"he": {"he", "him", "his"}, "she": {"she", "her", "hers"}, "it": {"it", "its"}}

Document = tuple[Phrase, Phrase]
Pair = tuple[str, str]


def main() -> None:
    """Train both models and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.context", description=__doc__)
    parser.add_argument("--documents", type=int, default=5000, help="documents to train on")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--page", type=Path, default=ROOT / "benchmarks" / "results" / "context.md")
    parser.add_argument("--out", type=Path, default=None, help="folder in which the runs stay")
    parser.add_argument("--ted", action="store_true", help="train on news and talks ($PELLUCID_DATA) instead")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of the trainings with --ted")
    options = parser.parse_args()
    former, _, talks = options.page.read_text(encoding="utf-8").partition(TALKS)
    if options.ted:
        lines = measure_talks(options)
        options.page.write_text(former + "\n".join([TALKS, *lines]) + "\n", encoding="utf-8")
        return
    documents = list(islice(generate_documents(seed=1), 2 * HELD_OUT + options.documents))
    test, dev, training = documents[:HELD_OUT], documents[HELD_OUT : 2 * HELD_OUT], documents[2 * HELD_OUT :]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write_documents(folder / "train", training)
        write_documents(folder / "dev", dev)
        rows = [measure_model(folder, context, options.steps, test) for context in (1, 0)]
        nouns = count_nouns_read(load(folder / "context-1" / "best"), test[:TRACED])
    text = "\n".join(page_lines(options, rows, nouns)) + "\n"
    options.page.write_text(text + (f"\n{TALKS}{talks}" if talks else ""), encoding="utf-8")


def write_documents(path: Path, documents: list[Document]) -> None:
    """Write PATH.en and PATH.es: a sentence a line, an empty line after each document."""
    for suffix, side in ((".en", "source"), (".es", "target")):
        text = "\n\n".join("\n".join(getattr(phrase, side) for phrase in document) for document in documents)
        path.with_suffix(suffix).write_text(text + "\n", encoding="utf-8")


def train_model(folder: Path, context: int, steps: int) -> Model:
    """Train a model on the documents of a folder, with this many sentences before each."""
    files = {"source": "train.en", "target": "train.es", "dev_source": "dev.en", "dev_target": "dev.es"}
    run: dict[str, Any] = {
        "data": {**{name: str(folder / file) for name, file in files.items()}, "context": context},
        "tokenizer": {"vocabulary": 600},
        "model": {"d_model": 96, "d_ff": 384, "heads": 4, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.1},
        "train": {"steps": steps, "batch_tokens": 1024, "evaluate_every": steps // 3, "dev_sentences": 200},
        "optim": {"peak": 2e-3, "warmup": 300, "schedule": "linear"},
    }
    return train(run, out=folder / f"context-{context}")


def measure_model(folder: Path, context: int, steps: int, documents: list[Document]) -> str:
    """Train a model, translate the documents, and return its row of the table."""
    began = time.process_time()
    model = train_model(folder, context, steps)
    seconds = time.process_time() - began
    lines = [line for first, second in documents for line in (first.source, second.source, "")]
    translations = model.translate_document(lines) if context else model.translate(lines)
    texts = [translation.text for translation in translations]
    right, other, whole = count_pronouns(documents, texts[1::3])
    firsts = sum(first.target == text for (first, _), text in zip(documents, texts[::3], strict=True))
    row = (
        f"| {context} | {right} of {len(documents)} ({right / len(documents):.1%}) | {other} | {whole} | {firsts} "
        f"| {seconds:.0f} s |"
    )
    print(row, flush=True)
    return row


def count_pronouns(documents: list[Document], texts: list[str]) -> tuple[int, int, int]:
    """Count the second sentences with the right gender, with the other one, and those that are right as a whole."""
    right = other = whole = 0
    for (_, second), text in zip(documents, texts, strict=True):
        words, gendered = text.rstrip(".").split(), find_gendered_word(second)
        right += gendered in words
        other += swap_gender(gendered) in words
        whole += text == second.target
    return right, other, whole


def find_gendered_word(second: Phrase) -> str:
    """Return the Spanish word that shows the gender of the pronoun: lo, la, los or las, or else the adjective."""
    words = second.target.rstrip(".").split()
    return next((word for word in words if word in ("lo", "la", "los", "las")), words[-1])


def count_nouns_read(model: Model, documents: list[Document]) -> tuple[int, int]:
    """Count the feminine nouns without which the second translation loses most, of all words before it; and all."""
    named = feminine = 0
    for first, second in documents:
        if not find_gendered_word(second).endswith(("a", "as")):
            continue
        words = first.source.rstrip(".").split()
        noun = next((i for i, word in enumerate(words) if word in ("was", "were")), len(words)) - 1
        trace = model.trace(second.source, context=first.source, keep="decoder.*.cross.pattern")
        losses = [sum(row) for row in trace.verdict().as_json()["erasure_source"][: len(words)]]
        named += losses[noun] == min(losses)
        feminine += 1
    return named, feminine


def swap_gender(word: str) -> str:
    """Return the other gender of a word that `find_gendered_word` found.

    >>> swap_gender("las"), swap_gender("rojo")
    ('los', 'roja')
    """
    stem, plural = (word[:-1], "s") if word.endswith("s") else (word, "")
    return stem[:-1] + {"o": "a", "a": "o"}[stem[-1]] + plural


def page_lines(options: argparse.Namespace, rows: list[str], nouns: tuple[int, int]) -> list[str]:
    """Return the lines of the results page."""
    return [
        "# Pronouns across sentences",
        "",
        f"    OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', '')} python -m benchmarks.context "
        f"--documents {options.documents} --steps {options.steps}",
        "",
        f"{options.documents:,} documents of the phrasebook to train on, {HELD_OUT} others to choose the model by, and "
        f"{HELD_OUT} more to test it, of two sentences each: *Mary found the key. Paul sold it.* The Spanish of the "
        "second shows the gender of the noun in the first (*Paul la vendió*), and half of the nouns are feminine. Both "
        "models have 2 + 2 layers, d_model 96 and the same settings but for `data.context`. "
        f"{platform.processor() or platform.machine()}, Python {sys.version.split()[0]}.",
        "",
        "| sentences before | gender of the pronoun right | the other gender | second sentences right as a whole "
        "| first sentences right | processor time of training |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        f"What the first model read, by the diagnosis of a trace (`explain --context`): in {nouns[0]} of {nouns[1]} "
        f"documents with a feminine noun, among the first {TRACED} of the test, that noun is the word of the sentence "
        "before without which the translation loses most. Without a masculine noun it loses next to nothing, for the "
        "model then writes the masculine all the same.",
    ]


def measure_talks(options: argparse.Namespace) -> list[str]:
    """Train on sentences, news and talks, alone and with the sentence before, and return the section's lines."""
    data = Path(os.environ["PELLUCID_DATA"])
    documents = [pair for name in TRAINING_SETS for pair in [*read_set(data / name), ("", "")]]
    sentences = read_set(data / "tatoeba_en-de" / "train")
    test = read_set(data / "ted_de-en" / "TED.tst2014")
    # A sentence that has none before it is a document of its own, which an empty line ends.
    sets = {"train": documents + [pair for sentence in sentences for pair in (sentence, ("", ""))]}
    sets["dev"] = read_set(data / "ted_de-en" / "TED.tst2013")
    rows, pronouns = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, pairs in sets.items():
            for suffix, side in ((".de", 0), (".en", 1)):
                text = "".join(f"{pair[side]}\n" for pair in pairs)
                (folder / name).with_suffix(suffix).write_text(text, encoding="utf-8")
        for seed in options.seeds:
            comparison, counts = compare_contexts(folder, options.steps, seed, test)
            rows += [talks_row(seed, comparison)]
            pronouns += [f"| {seed} | {context} | {row} |" for context, row in enumerate(counts)]
            print(rows[-1], *pronouns[-2:], sep="\n", flush=True)
    return talks_lines(options, len(documents) - len(TRAINING_SETS), len(sentences), len(test), rows, pronouns)


def talks_run(folder: Path, context: int, steps: int, seed: int) -> dict[str, Any]:
    """Return the settings of a training on sentences, news and talks."""
    files = {"source": "train.de", "target": "train.en", "dev_source": "dev.de", "dev_target": "dev.en"}
    return {
        "seed": seed,
        "data": {**{name: str(folder / file) for name, file in files.items()}, "context": context},
        "tokenizer": {"vocabulary": 6000},
        "model": {"d_model": 192, "d_ff": 768, "heads": 4, "encoder_layers": 3, "decoder_layers": 2, "dropout": 0.1},
        "train": {"steps": steps, "batch_tokens": 2048, "evaluate_every": steps // 3, "dev_sentences": 100}
        | {"precision": "bfloat16"},
        "optim": {"peak": 2e-3, "warmup": steps // 10, "schedule": "linear"},
    }


def read_set(path: Path) -> list[Pair]:
    """Return the German and English lines of a set; punctuation that stands apart is joined to its word."""
    sides = []
    for language in ("de", "en"):
        with gzip.open(f"{path}.{language}.gz", "rt", encoding="utf-8", newline="\n") as file:
            sides.append([re.sub(r" ([,.;:!?)]|'\w+\b|n't\b)", r"\1", line.strip()) for line in file])
    return list(zip(*sides, strict=True))


def compare_contexts(folder: Path, steps: int, seed: int, test: list[Pair]) -> tuple[Comparison, list[str]]:
    """Train without and with the sentence before, and return how the test's translations compare, and pronouns."""
    sources, references = [source for source, _ in test], [reference for _, reference in test]
    texts = []
    for context in (0, 1):
        out = folder / f"talks-{context}-{seed}"
        train(talks_run(folder, context, steps, seed), out=out)
        model = load(out / "average")  # of both models the last, whatever a dev set of talks prefers
        translations = model.translate_document(sources) if context else model.translate(sources)
        texts.append([translation.text for translation in translations])
    alone, with_context = texts
    comparison = compare_translations(alone, with_context, references, sources)
    return comparison, [count_english_pronouns(test, translations) for translations in texts]


def count_english_pronouns(test: list[Pair], texts: list[str]) -> str:
    """Count the translations that have the pronoun of the reference, for each of the three and all; and all words.

    Of the test only pairs with "er" or "sie" in the source and a single one of the three in the reference are read.
    """
    right, lines = dict.fromkeys(PRONOUNS, 0), dict.fromkeys(PRONOUNS, 0)
    for (source, reference), text in zip(test, texts, strict=True):
        kinds = find_pronouns(reference)
        if len(kinds) == 1 and {"er", "sie"} & set(re.findall(r"\w+", source.lower())):
            [kind] = kinds
            lines[kind] += 1
            right[kind] += find_pronouns(text) == kinds
    cells = [f"{right[kind]} of {lines[kind]}" for kind in PRONOUNS]
    words = sum(len(text.split()) for text in texts)
    return " | ".join([*cells, f"{sum(right.values())} of {sum(lines.values())}", f"{words:,}"])


def find_pronouns(text: str) -> set[str]:
    """Return which of "he", "she" and "it" a text has, in any of their forms.

    >>> sorted(find_pronouns("Its owner saw her."))
    ['it', 'she']
    """
    words = set(re.findall(r"\w+", text.lower()))
    return {name for name, forms in PRONOUNS.items() if words & forms}


def talks_row(seed: int, comparison: Comparison) -> str:
    """Return the row of a seed: BLEU and chrF alone and with the sentence before, and whether they differ."""
    scores = [comparison.scores[name] for name in ("bleu", "chrf")]
    cells = [f"{score.a.score:.2f} | {score.b.score:.2f} | {score.p_value:.3f}" for score in scores]
    return f"| {seed} | {' | '.join(cells)} |"


def talks_lines(
    options: argparse.Namespace, training: int, sentences: int, test: int, rows: list[str], pronouns: list[str]
) -> list[str]:
    """Return the lines of the section on news and talks."""
    return [
        "",
        f"    OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', '')} PELLUCID_DATA=... python -m benchmarks.context "
        f"--ted --steps {options.steps} --seeds {' '.join(map(str, options.seeds))}",
        "",
        f"Both models are trained on {sentences:,} pairs of Tatoeba, which have no sentence before them, and on "
        f"{training:,} pairs whose lines stand in order: newstest2008 to 2012, TEDX.tst2013 and TEDX.tst2014. They get "
        f"{options.steps:,} steps with the same settings but for `data.context`, and the means of their last "
        f"checkpoints translate the {test:,} lines of TED.tst2014. 3 + 2 layers, d_model 192, bfloat16; the p-values "
        "are those of `pellucid compare`. A step has as many tokens with context as without.",
        "",
        "| seed | BLEU alone | BLEU with the sentence before | p | chrF alone | chrF with it | p |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        'Pronouns: test lines with "er" or "sie" in the German and one of he, she and it (in any of their forms) in '
        "the reference; a translation is right if it has this one and neither of the others.",
        "",
        "| seed | sentences before | reference has he | she | it | all | words written |",
        "|---|---|---|---|---|---|---|",
        *pronouns,
    ]


if __name__ == "__main__":
    main()
