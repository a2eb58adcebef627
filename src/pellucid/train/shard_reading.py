"""Shards: what a directory that `pellucid prepare` wrote says of itself, and whether a run may train on it."""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pellucid.atomic import MANIFEST, file_sha256, join_problems, manifest_sha256, read_json
from pellucid.data.corpus import SentencePairs, read_pairs
from pellucid.data.shards import map_shards
from pellucid.data.tokenizer import Tokenizer
from pellucid.train import pairs
from pellucid.train.config import CorpusConfig, RunConfig
from pellucid.train.pairs import CorpusAccount, TrainingData, combine_fingerprints, read_dev_pairs, with_corpus_shares

KIND, FORMAT = "pellucid shards", 2
MANIFEST_TYPES = {
    "settings": dict,
    "texts": list,
    "corpora": list,
    "types": dict,
    "notes": list,
    "drawn": bool,
    "files": dict,
}
"""What the manifest holds beside."""

DEV_FILE = "dev.jsonl"
"""The pairs held out of training, where no dev set was named."""


def read_shards(run: RunConfig, tokenizer: Tokenizer | None = None) -> TrainingData:
    """What `read_data` returns, from the directory that the run names; ids stay on the disk until they are needed.

    Raises ValueError for a directory that is no shards, or damaged, or made from other text or for other settings.
    """
    assert run.data.shards is not None
    folder = Path(run.data.shards)
    about = read_shards_manifest(folder)
    problems = [*explain_other_settings(run, tokenizer, about)] or [*explain_changed_texts(run, about)]
    if problems:
        raise ValueError(f"{folder} is not of this run: {join_problems(problems)}; run `pellucid prepare` again")
    own = Tokenizer.load(folder, run.tokenizer)
    if tokenizer is not None and tokenizer_contents(tokenizer) != tokenizer_contents(own):
        raise ValueError(f"{folder} was cut into pieces by another tokenizer than the run began with; prepare it again")
    counts = [each["pairs"] for each in about["corpora"]]
    encoded = with_corpus_shares(map_shards(folder, sum(counts), about["types"]), counts, run.data)
    named, held_out = read_dev_pairs(run.data), len(about["dev"]["lines"]) if about["dev"] else 0
    longest = about["settings"]["data.max_characters"]
    dev, notes = named or (read_held_out(folder, about["dev"], longest), ())
    seal = combine_fingerprints([each["fingerprint"] for each in about["corpora"]])
    accounts = tuple(
        CorpusAccount(corpus.display_name, each["pairs"], 0 if number else held_out, each["left_out"])
        for number, (corpus, each) in enumerate(zip(run.data.corpora, about["corpora"], strict=True))
    )
    return TrainingData(own, encoded, dev, seal, (*about["notes"], *notes), accounts)


def read_shards_manifest(folder: Path) -> dict[str, Any]:
    """What a shards directory says of itself, its own SHA-256 and the size of every file checked."""
    if not (folder / MANIFEST).is_file():
        raise ValueError(f"{folder} holds no shards; make them with `pellucid prepare RUN.toml --out {folder}`")
    about = read_json(folder / MANIFEST)
    if about.get("kind") != KIND or about.get("shards_format") != FORMAT:
        raise ValueError(f"{folder} is no directory of shards that this version reads; `pellucid prepare` makes them")
    if about.get("sha256") != manifest_sha256(about) or not all(
        type(about.get(key)) is kind for key, kind in MANIFEST_TYPES.items()
    ):
        raise ValueError(f"{folder / MANIFEST} was changed after it was written; run `pellucid prepare` again")
    problems = [
        f"{name} is missing or was cut"
        for name, each in about["files"].items()
        if not (folder / name).is_file() or (folder / name).stat().st_size != each["bytes"]
    ]
    if problems:
        raise ValueError(f"{folder} is damaged: {join_problems(problems)}; run `pellucid prepare` again")
    return about


def shard_settings(run: RunConfig, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """The settings that the ids depend on; weights are not among them.

    The tokenizer is one of them where it is not learned from the text, but that of the model that the run starts from.
    """
    dev_named = run.data.dev_source is not None or run.data.dev is not None
    given = {"tokenizer of model.start": tokenizer_digest(tokenizer)} if tokenizer and run.model.start else {}
    return {
        "seed": run.seed,
        "data.max_characters": run.data.max_characters,
        "data.max_pieces": run.data.max_pieces,
        "data.held_out": None if dev_named else run.data.held_out,
        **{f"tokenizer.{name}": value for name, value in asdict(run.tokenizer).items()},
        "tokenizer sentences": pairs.TOKENIZER_SENTENCES,
        "files of each corpus": [len(corpus_files(corpus)) for corpus in run.data.corpora],
        **given,
    }


def explain_other_settings(run: RunConfig, tokenizer: Tokenizer | None, about: dict[str, Any]) -> Iterator[str]:
    """A sentence for each setting that differs; the seed counts only if something was drawn by it."""
    ours = shard_settings(run, tokenizer)
    for name in {**ours, **about["settings"]}:
        value, made = ours.get(name), about["settings"].get(name)
        if made != value and not (name == "seed" and not about["drawn"]):
            yield f"{name} is {value!r}, it was made with {made!r}"


def corpus_files(corpus: CorpusConfig) -> list[Path]:
    """The files of a corpus, one or two."""
    return [Path(file) for file in corpus.files if file is not None]


def training_files(run: RunConfig) -> list[Path]:
    """All files of training text, corpus by corpus."""
    return [path for corpus in run.data.corpora for path in corpus_files(corpus)]


def describe_text_file(path: Path) -> dict[str, Any]:
    """By what a file of text is known again."""
    seen = path.stat()
    return {"path": str(path), "bytes": seen.st_size, "mtime_ns": seen.st_mtime_ns, "sha256": file_sha256(path)}


def explain_changed_texts(run: RunConfig, about: dict[str, Any]) -> Iterator[str]:
    """A sentence for each file that is not what it was; one whose size and time are the same is not read again.

    One that is not there cannot be trained on, but neither need it be.
    """
    for path, then in zip(training_files(run), about["texts"], strict=True):
        if path.exists() and has_changed(path, then):
            yield f"{path} has changed since"


def has_changed(path: Path, then: dict[str, Any]) -> bool:
    """Whether a file has other bytes than it had."""
    now = path.stat()
    if now.st_size != then["bytes"]:
        return True
    return now.st_mtime_ns != then["mtime_ns"] and file_sha256(path) != then["sha256"]


def read_held_out(folder: Path, dev: dict[str, Any], max_characters: int) -> SentencePairs:
    """The pairs that were held out of training, with the lines they stood in."""
    found = read_pairs(folder / DEV_FILE, max_characters=max_characters)
    return replace(found, lines=dev["lines"], files=tuple(dev["files"]))


def tokenizer_contents(tokenizer: Tokenizer) -> tuple[Any, ...]:
    """By what tokenizers are compared: the models that cut, and the number of each piece."""
    return (
        tokenizer.source.serialized_model_proto(),
        tokenizer.target.serialized_model_proto(),
        [*tokenizer.source_names],
        [*tokenizer.target_names],
    )


def tokenizer_digest(tokenizer: Tokenizer) -> str:
    """The same in twelve digits."""
    return hashlib.sha256(repr(tokenizer_contents(tokenizer)).encode()).hexdigest()[:12]
