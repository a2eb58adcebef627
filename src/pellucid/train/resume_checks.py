"""Checks before a run is resumed: its text, and most of its settings, must not have changed."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from pellucid.store.atomic import join_problems, read_json, write_text_whole
from pellucid.train.config import DATA_PATHS, RunConfig, read_run
from pellucid.train.data import TrainingData, describe_text_file, has_changed, read_shards_manifest, training_files

TEXTS_FILE = "texts.json"  # file in a run's directory that lists the files of text the run began with
# Settings of [train] that may not change; the others say how long to train, and what to do beside it.
_FIXED_TRAIN_SETTINGS = ("batch_tokens", "accumulate", "initial_embeddings", "both_directions", "precision")
_LANGUAGE_SETTINGS = ("source_language", "target_language")


def refuse_other_settings(run: RunConfig, out: Path) -> None:
    """Raise ValueError if settings differ that would make the resumed run another one than the run in `out`.

    How long to train, how often to evaluate and to save, where the text is, whether the ids come from shards and
    whether the model is sharded may change.
    """
    began = read_run(out / "run.toml", began=out)
    # Files may have been moved, as long as their text is the same.
    values: dict[str, list[Any]] = {"seed": [run.seed, began.seed]}
    for section in ("train", "data", "tokenizer", "model", "optim"):
        names = [setting.name for setting in fields(getattr(run, section))]
        fixed = {
            "train": _FIXED_TRAIN_SETTINGS,
            # The text that is read decides, and not what its languages are called or who chose them.
            "data": [name for name in names if name not in (*DATA_PATHS, *_LANGUAGE_SETTINGS, "corpus")],
        }
        for name in fixed.get(section, names):
            values[f"{section}.{name}"] = [getattr(getattr(c, section), name) for c in (run, began)]
    # The files of a corpus may have moved, its weight and its direction may not change.
    values["data.corpus: weights"] = [[corpus.weight for corpus in c.data.corpora] for c in (run, began)]
    values["data.corpus: languages"] = [[corpus.languages for corpus in c.data.corpora] for c in (run, began)]
    values["data.corpus: parts of the run"] = [
        [(corpus.from_, corpus.until) for corpus in c.data.corpora] for c in (run, began)
    ]
    problems = [f"{name} is {now!r}, it began with {then!r}" for name, (now, then) in values.items() if now != then]
    if problems:
        raise ValueError(f"{out} would become another run: {'; '.join(problems)}; a resumed run keeps its settings")


def record_texts(run: RunConfig, data: TrainingData, out: Path) -> None:
    """Write the list of the files that a new run reads, with their checksums, into its directory."""
    # Shards carry the description of the text they were made from, which may not be there any more.
    training = (
        read_shards_manifest(Path(run.data.shards))["texts"]
        if run.data.shards
        else list(map(describe_text_file, training_files(run.data)))
    )
    accounts = [account.row() for account in data.accounts]
    files = [*training, *map(describe_text_file, run.data.dev_files)]
    texts = {"dev": data.dev_fingerprint, "pairs": accounts, "files": files}
    write_text_whole(out / TEXTS_FILE, json.dumps(texts, indent=1) + "\n")


def refuse_other_text(run: RunConfig, data: TrainingData, out: Path, checkpoint: Path, trained_on: str | None) -> None:
    """Raise ValueError, naming the files that changed, if the text is not what the run in `out` began with.

    `trained_on` is the fingerprint of the training text in the manifest of `checkpoint`.
    """
    # A run that is older than this list has all of its files named.
    began: dict[str, Any] = read_json(out / TEXTS_FILE) if (out / TEXTS_FILE).is_file() else {}
    training, dev, recorded = training_files(run.data), run.data.dev_files, began.get("files", [])
    problems = []
    # The fingerprint of what was read decides; the list only helps to name files.
    if data.fingerprint != trained_on:
        problems.append(
            f"the training data is not what {checkpoint} was trained on: {_name_changed_files(training, recorded)}"
        )
    if began and data.dev_fingerprint != began["dev"]:
        problems.append(
            "the dev data is not what it was measured with: "
            f"{_name_changed_files(dev or training, recorded[-len(dev) :])}"
        )
    if problems:
        raise ValueError(f"{join_problems(problems)}; restore it or start a new run")


def _name_changed_files(files: list[Path], recorded: list[dict[str, Any]]) -> str:
    """Return the files that have changed, in words."""
    pairs = zip(files, recorded, strict=False)
    changed = [str(path) for path, description in pairs if path.exists() and has_changed(path, description)]
    if not changed:
        return f"look at {', '.join(map(str, files))}"
    return f"{', '.join(changed)} {'have' if len(changed) > 1 else 'has'} changed since"
