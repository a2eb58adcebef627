"""Trains a model with the sentence before and one without, and counts the pronouns that each translates rightly.

    python -m benchmarks.context [--documents 5000] [--steps 1500] [--page benchmarks/results/context.md]

The documents are the phrasebook's: two sentences, the second with a pronoun for a noun of the first. Its English does
not tell the gender that its Spanish shows, so a model that reads single sentences can only guess.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

from pellucid import Model, load, train
from pellucid.phrasebook import generate_documents
from pellucid.phrasebook.chunk import Phrase

ROOT = Path(__file__).resolve().parent.parent
HELD_OUT = 500
TRACED = 100
"""Test documents whose second sentence is traced."""

Document = tuple[Phrase, Phrase]


def main() -> None:
    """Train both models and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.context", description=__doc__)
    parser.add_argument("--documents", type=int, default=5000, help="documents to train on")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--page", type=Path, default=ROOT / "benchmarks" / "results" / "context.md")
    parser.add_argument("--out", type=Path, default=None, help="folder in which the runs stay")
    options = parser.parse_args()
    documents = list(islice(generate_documents(seed=1), 2 * HELD_OUT + options.documents))
    test, dev, training = documents[:HELD_OUT], documents[HELD_OUT : 2 * HELD_OUT], documents[2 * HELD_OUT :]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write_documents(folder / "train", training)
        write_documents(folder / "dev", dev)
        rows = [measure_model(folder, context, options.steps, test) for context in (1, 0)]
        nouns = count_nouns_read(load(folder / "context-1" / "best"), test[:TRACED])
    options.page.write_text("\n".join(page_lines(options, rows, nouns)) + "\n", encoding="utf-8")


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


if __name__ == "__main__":
    main()
