"""Corpus small enough to train on in seconds: sentences of numbers, translated word by word and reversed."""

from dataclasses import replace
from pathlib import Path
from random import Random

from pellucid.training.config import RunConfig, make_run

WORDS = {"one": "uno", "two": "dos", "three": "tres", "four": "cuatro", "five": "cinco", "six": "seis"}

MOST_PIECES = 41
"""More than any sentence here has. A model of few updates writes as much as it may, which took most of a run's time."""


WORDS_AS_PIECES = {"tokenizer": {"vocabulary": 320}, "data": {"max_pieces": 16}, "model": {"max_positions": 16}}
"""Changes to a small run whose pieces are words: it learns in fewer updates, and its nonsense ends sooner."""


def write_corpus(folder: Path, pairs: int = 211, seed: int = 1) -> dict[str, str]:
    """Write files of `pairs` training and 23 dev sentences, and return the keys of [data] that name them."""
    random = Random(seed)
    files = {}
    for name, count in (("", pairs), ("dev_", 23)):
        lines = [random.choices(list(WORDS), k=random.randint(2, 7)) for _ in range(count)]
        texts = {
            "source": [" ".join(line) for line in lines],
            "target": [" ".join(WORDS[word] for word in reversed(line)) for line in lines],
        }
        for side, text in texts.items():
            path = folder / f"{name}{side}.txt"
            path.write_text("\n".join(text) + "\n", encoding="utf-8")
            files[f"{name}{side}"] = str(path)
    return files


def small_run(folder: Path, **changes: dict) -> RunConfig:
    """Return a run of seconds on this corpus; `changes` override keys of its sections."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "data": {**write_corpus(folder), "max_pieces": MOST_PIECES},
        "tokenizer": {"vocabulary": 290},
        "model": {"size": "tiny", "d_model": 14, "d_ff": 22, "heads": 2, "encoder_layers": 1, "decoder_layers": 2}
        | {"max_positions": MOST_PIECES},
        "train": {
            "steps": 12,
            "batch_tokens": 257,
            "evaluate_every": 6,
            "save_every": 4,
            "dev_sentences": 3,
            "dev_beam": 1,
        },
        "optim": {"peak": 0.003, "warmup": 5},
    }
    return make_run({name: {**table, **changes.get(name, {})} for name, table in tables.items()})


def mixed(run: RunConfig, folder: Path) -> RunConfig:
    """Return the run on three weighted corpora instead: two of two files each, and one file of pairs."""
    files = write_corpus(folder, pairs=89)
    (folder / "more").mkdir(exist_ok=True)
    web_files = write_corpus(folder / "more", pairs=67, seed=2)
    rows = [f"one two {'three ' * (i % 5)}six\tseis {'tres ' * (i % 5)}dos uno" for i in range(41)]
    (folder / "rows.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    corpora = [
        {"source": files["source"], "target": files["target"], "name": "clean"},
        {"source": web_files["source"], "target": web_files["target"], "name": "web", "weight": 0.3},
        {"pairs": str(folder / "rows.tsv"), "weight": 2.0},
    ]
    data = {key: value for key, value in files.items() if key.startswith("dev")}
    data_config = make_run({"data": {"corpus": corpora, **data}, "train": {"steps": 1}}).data
    return replace(run, data=replace(data_config, max_pieces=run.data.max_pieces))
