"""Checks before a run is resumed: what its directory holds, its text, and most of its settings must fit."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from pellucid.data.corpus import HELD_OUT_FILE
from pellucid.store.atomic import MANIFEST, join_problems, read_json, write_text_whole
from pellucid.training.checkpoint import list_checkpoints
from pellucid.training.config import DATA_PATHS, RunConfig, read_run
from pellucid.training.data import (
    TrainingData,
    describe_text_file,
    has_changed,
    training_files,
)
from pellucid.training.tracking import MLFLOW_FILE, TENSORBOARD_FOLDER

# File in a run's directory that lists the files of text the run began with.
TEXTS_FILE = "texts.json"
# Settings of [train] that may not change; the others say how long to train, and what to do beside
# it.
_FIXED_TRAIN_SETTINGS = (
    "batch_tokens",
    "accumulate",
    "initial_embeddings",
    "both_directions",
    "precision",
)
_LANGUAGE_SETTINGS = ("source_language", "target_language")
RUN_FILES = (  # files and directories that a run writes into its directory
    *("run.toml", TEXTS_FILE, HELD_OUT_FILE, "log.jsonl", "checkpoints", "last", "best", "average"),
    *(TENSORBOARD_FOLDER, MLFLOW_FILE),
)
# How a run that is to be resumed begins: anew where there is no run yet, again where no checkpoint
# was saved yet, or from the newest checkpoint.
Beginning = Literal["anew", "again", "from a checkpoint"]


def choose_beginning(out: Path) -> Beginning:
    """Return how a run that is to be resumed in `out` begins, by what stands there.

    Raises ValueError where there is no checkpoint and a new run would take the place of something
    trained.
    """
    if list_checkpoints(out):
        return "from a checkpoint"
    if (out / MANIFEST).exists():
        raise ValueError(
            f"{out} is a model and not the directory of a run, so there is nothing to resume in "
            f"it; to train on from it, give --start {out} and another --out"
        )

    existing = [name for name in RUN_FILES if (out / name).exists()]
    if not existing:
        return "anew"
    if "run.toml" not in existing:
        raise ValueError(
            f"{out} holds files of a run ({', '.join(existing)}), but neither its settings "
            "(run.toml) nor a checkpoint: it cannot be resumed, and a new run does not take its "
            "place; choose another --out, or remove these files"
        )
    # They are written when training is over, and by then there were checkpoints.
    if models := [name for name in ("last", "average") if name in existing]:
        raise ValueError(
            f"{out} holds a finished run ({', '.join(models)}) whose checkpoints are gone: it "
            "cannot be resumed, and a new run does not take its place; to train on from its "
            f"model, give --start {out / 'best'} and another --out"
        )

    return "again"


def set_earlier_results_aside(out: Path) -> str:
    """Move the best model and the reports of a run without a checkpoint out of the way.

    Returns where they are. The run begins again and writes its own. Without a best model nothing is
    kept, and the answer is empty.
    """
    if not (out / "best").exists():
        (out / "log.jsonl").unlink(missing_ok=True)
        return ""

    number = 1
    while (folder := out / f"before-restart-{number}").exists():
        number += 1
    folder.mkdir()
    for name in ("best", "log.jsonl"):
        if (out / name).exists():
            (out / name).rename(folder / name)
    return str(folder)


def refuse_other_settings(run: RunConfig, out: Path) -> None:
    """Raise ValueError if settings differ that would make the resumed run another than that in `out`.

    How long to train, how often to evaluate and to save, where the text is, whether the ids come
    from shards and whether the model is sharded may change.
    """
    now, then = _fixed_settings(run), _fixed_settings(read_run(out / "run.toml", began=out))
    problems = []
    for name, value in now.items():
        if value != then[name]:
            problems.append(f"{name} is {value!r}, it began with {then[name]!r}")
    if problems:
        raise ValueError(
            f"{out} would become another run: {'; '.join(problems)}; a resumed run keeps its "
            "settings"
        )


def _fixed_settings(run: RunConfig) -> dict[str, Any]:
    """Return the settings that a resumed run keeps, by their names."""
    settings: dict[str, Any] = {"seed": run.seed}
    # Files may have been moved, as long as their text is the same. That text decides, and not what
    # its languages are called or who chose them.
    free_data_settings = (*DATA_PATHS, *_LANGUAGE_SETTINGS, "corpus")
    for section in ("train", "data", "tokenizer", "model", "optim"):
        table = getattr(run, section)
        names = [setting.name for setting in fields(table)]
        if section == "train":
            names = _FIXED_TRAIN_SETTINGS
        elif section == "data":
            names = [name for name in names if name not in free_data_settings]
        for name in names:
            settings[f"{section}.{name}"] = getattr(table, name)

    # The files of a corpus may have moved, its weight and its direction may not change.
    corpora = run.data.corpora
    settings["data.corpus: weights"] = [corpus.weight for corpus in corpora]
    settings["data.corpus: languages"] = [corpus.languages for corpus in corpora]
    settings["data.corpus: parts of the run"] = [(corpus.from_, corpus.until) for corpus in corpora]
    return settings


def record_texts(run: RunConfig, data: TrainingData, out: Path) -> None:
    """Write the list of the files that a new run reads, with their checksums, into its directory."""
    if run.data.shards:
        # Of the text they were made from, which may not be there any more.
        training = list(data.texts)
    else:
        training = list(map(describe_text_file, training_files(run.data)))
    texts = {
        "training": data.fingerprint,
        "dev": data.dev_fingerprint,
        "pairs": [account.row() for account in data.accounts],
        "files": [*training, *map(describe_text_file, run.data.dev_files)],
    }
    write_text_whole(out / TEXTS_FILE, json.dumps(texts, indent=1) + "\n")


def refuse_other_text(
    run: RunConfig,
    data: TrainingData,
    out: Path,
    checkpoint: Path | None = None,
    trained_on: str | None = None,
) -> None:
    """Raise ValueError, naming changed files, if the text is not what the run in `out` began with.

    `trained_on` is the fingerprint of the training text in the manifest of `checkpoint`; a run that
    begins again has none of both.
    """
    # A run that is older than this list has all of its files named.
    began: dict[str, Any] = read_json(out / TEXTS_FILE) if (out / TEXTS_FILE).is_file() else {}
    training, dev, recorded = training_files(run.data), run.data.dev_files, began.get("files", [])
    before = f"what {checkpoint} was trained on"
    if checkpoint is None:
        before = f"what the run in {out} began with"
        trained_on = began.get("training", data.fingerprint)

    problems = []
    # The fingerprint of what was read decides; the list only helps to name files.
    if data.fingerprint != trained_on:
        problems.append(
            f"the training data is not {before}: {_name_changed_files(training, recorded)}"
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
    changed = []
    for path, description in zip(files, recorded, strict=False):
        if path.exists() and has_changed(path, description):
            changed.append(str(path))
    if not changed:
        return f"look at {', '.join(map(str, files))}"
    return f"{', '.join(changed)} {'have' if len(changed) > 1 else 'has'} changed since"
