"""What must not change between the beginning of a run and its going on: the text it reads, and most of its settings."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from pellucid.atomic import join_problems, read_json
from pellucid.data.corpus import fingerprint_pairs
from pellucid.train.config import RunConfig, read_run
from pellucid.train.pairs import TrainingData
from pellucid.train.shard_reading import describe_text_file, has_changed, read_shards_manifest, training_files
from pellucid.train.state import write_text_whole

TEXTS_FILE = "texts.json"
"""Which files a run began with, and what they were."""

PATH_SETTINGS = ("source", "target", "train", "dev_source", "dev_target", "dev", "shards", "corpus")
"""Settings of [data] that say where text is. It may have been moved, but not have become another."""


def refuse_other_settings(run: RunConfig, out: Path) -> None:
    """ValueError if the run in `out` began with settings that would make its continuation another run.

    How long to train, how often to look and to save, where the text is, whether the ids come from shards and whether
    the model is sharded may change.
    """
    began = read_run(out / "run.toml", began=out)
    fixed = [("", "seed"), *(("train", key) for key in ("batch_tokens", "accumulate", "precision"))]
    fixed += [(s, each.name) for s in ("data", "tokenizer", "model", "optim") for each in fields(getattr(run, s))]
    fixed = [each for each in fixed if each not in [("data", place) for place in PATH_SETTINGS]]
    values = {
        f"{section}.{key}".lstrip("."): [getattr(getattr(c, section) if section else c, key) for c in (run, began)]
        for section, key in fixed
    }
    values["data.corpus: weights"] = [[each.weight for each in c.data.corpora] for c in (run, began)]
    problems = [f"{name} is {now!r}, it began with {then!r}" for name, (now, then) in values.items() if now != then]
    if problems:
        raise ValueError(f"{out} would become another run: {'; '.join(problems)}; a resumed run keeps its settings")


def record_texts(run: RunConfig, data: TrainingData, out: Path) -> None:
    """Write into the directory of a run that begins what it reads."""
    training = (
        read_shards_manifest(Path(run.data.shards))["texts"]
        if run.data.shards
        else list(map(describe_text_file, training_files(run)))
    )
    accounts = [each.row() for each in data.accounts]
    files = [*training, *map(describe_text_file, dev_set_files(run))]
    texts = {"dev": fingerprint_pairs(data.dev), "pairs": accounts, "files": files}
    write_text_whole(out / TEXTS_FILE, json.dumps(texts, indent=1) + "\n")


def refuse_other_text(run: RunConfig, data: TrainingData, out: Path, place: Path, trained_on: str | None) -> None:
    """ValueError, naming the files that changed, if the text is not what the run in `out` began with.

    `trained_on` is what the checkpoint `place` says of the training text. A run that is older than its list of files
    has all of them named.
    """
    began: dict[str, Any] = read_json(out / TEXTS_FILE) if (out / TEXTS_FILE).is_file() else {}
    training, dev, then = training_files(run), dev_set_files(run), began.get("files", [])
    problems = []
    if data.fingerprint != trained_on:
        problems.append(f"the training data is not what {place} was trained on: {name_changed_files(training, then)}")
    if began and fingerprint_pairs(data.dev) != began["dev"]:
        problems.append(
            f"the dev data is not what it was measured with: {name_changed_files(dev or training, then[-len(dev) :])}"
        )
    if problems:
        raise ValueError(f"{join_problems(problems)}; restore it or start a new run")


def name_changed_files(files: list[Path], then: list[dict[str, Any]]) -> str:
    """The files that are not what they were, in words."""
    pairs = zip(files, then, strict=False)
    others = [str(path) for path, was in pairs if path.exists() and has_changed(path, was)]
    if not others:
        return f"look at {', '.join(map(str, files))}"
    return f"{', '.join(others)} {'have' if len(others) > 1 else 'has'} changed since"


def dev_set_files(run: RunConfig) -> list[Path]:
    """The files of the dev set, if one is named."""
    return [Path(file) for file in (run.data.dev_source, run.data.dev_target, run.data.dev) if file is not None]
