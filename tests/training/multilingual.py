"""A model of two directions, trained in seconds: one copies a sentence, the other turns it round."""

from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from pellucid.api import Model, load
from pellucid.training.config import RunConfig, make_run
from pellucid.training.loop import train_run

SENTENCES = [" ".join(words) for n in (2, 3) for words in product(["red", "cat", "sun", "dog"], repeat=n)]


def turn_round(sentence: str) -> str:
    """Return the sentence with its words from the last to the first."""
    return " ".join(reversed(sentence.split()))


WRITES = {"eo": str, "tlh": turn_round}
"""What each language makes of a sentence."""

KEPT: list[TemporaryDirectory[str]] = []
"""Folders that stay until the tests end: a model is loaded again from its own."""


def two_directions(folder: Path, only_start: bool = False, **changes: dict) -> RunConfig:
    """Return a run whose corpora have the same sources, into two languages; `changes` override keys of its sections.

    With `only_start` the model to start from alone says how large it is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.txt").write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    corpora = []
    for language, write in WRITES.items():
        target = folder / f"{language}.txt"
        target.write_text("\n".join(map(write, SENTENCES)) + "\n", encoding="utf-8")
        files = {"source": str(folder / "source.txt"), "target": str(target)}
        dev = {f"dev_{side}": file for side, file in files.items()}
        corpora.append({**files, **dev, "languages": ["en", language], "name": language})
    tables = {
        "data": {"corpus": corpora, "max_pieces": 31},
        "tokenizer": {"vocabulary": 290},
        "model": {"d_model": 32, "d_ff": 64, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
        | {"max_positions": 31},
        "train": {"steps": 12, "batch_tokens": 257, "evaluate_every": 6, "save_every": 4, "dev_sentences": 80}
        | {"dev_beam": 1},
        "optim": {"peak": 0.006, "warmup": 30, "label_smoothing": 0.0},
    }
    if only_start:
        tables |= {"model": {}, "tokenizer": {}}
    return make_run({name: {**table, **changes.get(name, {})} for name, table in tables.items()})


@cache
def trained_model() -> Model:
    """Train on both directions until the model has learned them."""
    folder = TemporaryDirectory(prefix="pellucid-")
    KEPT.append(folder)
    run = two_directions(Path(folder.name) / "data", train={"steps": 300, "evaluate_every": 100, "save_every": 100})
    return load(train_run(run, Path(folder.name) / "out").best)
