"""Reading of shards: what a directory that `pellucid prepare` wrote contains, and whether a run may train on it."""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pellucid.data.corpus import SentencePairs, read_pairs
from pellucid.data.shards import map_shards
from pellucid.data.tokenizer import Tokenizer
from pellucid.store.atomic import MANIFEST, file_sha256, join_problems, manifest_sha256, read_json
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
"""Entries of the manifest, beside its kind, format and checksum, and their types."""

DEV_FILE = "dev.jsonl"
"""File of the pairs held out of training, where no dev set was named."""


def read_shards(run: RunConfig, tokenizer: Tokenizer | None = None) -> TrainingData:
    """Return the data of a run from the shards that it names, as `read_data` does; ids stay on the disk until needed.

    Raises ValueError for a directory that holds no shards, is damaged, or was made from other text or with other
    settings.
    """
    assert run.data.shards is not None
    folder = Path(run.data.shards)
    manifest = read_shards_manifest(folder)
    problems = [*explain_other_settings(run, tokenizer, manifest)] or [*explain_changed_texts(run, manifest)]
    if problems:
        raise ValueError(f"{folder} is not of this run: {join_problems(problems)}; run `pellucid prepare` again")
    shards_tokenizer = Tokenizer.load(folder, run.tokenizer)
    if tokenizer is not None and tokenizer_contents(tokenizer) != tokenizer_contents(shards_tokenizer):
        raise ValueError(f"{folder} was cut into pieces by another tokenizer than the run began with; prepare it again")
    counts = [entry["pairs"] for entry in manifest["corpora"]]
    encoded = with_corpus_shares(map_shards(folder, sum(counts), manifest["types"]), counts, run.data)
    named_dev, held_out = read_dev_pairs(run.data), len(manifest["dev"]["lines"]) if manifest["dev"] else 0
    max_characters = manifest["settings"]["data.max_characters"]
    dev, notes = named_dev or (read_held_out(folder, manifest["dev"], max_characters), ())
    fingerprint = combine_fingerprints([entry["fingerprint"] for entry in manifest["corpora"]])
    accounts = tuple(
        # Only the first corpus has held-out pairs.
        CorpusAccount(corpus.display_name, entry["pairs"], 0 if number else held_out, entry["left_out"])
        for number, (corpus, entry) in enumerate(zip(run.data.corpora, manifest["corpora"], strict=True))
    )
    return TrainingData(shards_tokenizer, encoded, dev, fingerprint, (*manifest["notes"], *notes), accounts)


def read_shards_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a directory of shards, and check its own SHA-256 and the size of every file."""
    if not (folder / MANIFEST).is_file():
        raise ValueError(f"{folder} holds no shards; make them with `pellucid prepare RUN.toml --out {folder}`")
    manifest = read_json(folder / MANIFEST)
    if manifest.get("kind") != KIND or manifest.get("shards_format") != FORMAT:
        raise ValueError(f"{folder} holds no shards that this version can read; make them with `pellucid prepare`")
    if manifest.get("sha256") != manifest_sha256(manifest) or not all(
        type(manifest.get(key)) is expected_type for key, expected_type in MANIFEST_TYPES.items()
    ):
        raise ValueError(f"{folder / MANIFEST} was changed after it was written; run `pellucid prepare` again")
    # Sizes only; `shard_writing.shards_are_done` verifies every byte.
    problems = [
        f"{name} is missing or was cut"
        for name, entry in manifest["files"].items()
        if not (folder / name).is_file() or (folder / name).stat().st_size != entry["bytes"]
    ]
    if problems:
        raise ValueError(f"{folder} is damaged: {join_problems(problems)}; run `pellucid prepare` again")
    return manifest


def shard_settings(run: RunConfig, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Return the settings that the ids depend on; the weights of corpora are not among them."""
    dev_named = run.data.dev_source is not None or run.data.dev is not None
    # A tokenizer that is not learned from the text, but that of the initial model, is such a setting itself.
    initial_tokenizer = (
        {"tokenizer of model.start": tokenizer_digest(tokenizer)} if tokenizer and run.model.start else {}
    )
    return {
        "seed": run.seed,
        "data.max_characters": run.data.max_characters,
        "data.max_pieces": run.data.max_pieces,
        "data.held_out": None if dev_named else run.data.held_out,
        **{f"tokenizer.{name}": value for name, value in asdict(run.tokenizer).items()},
        "tokenizer sentences": pairs.TOKENIZER_SENTENCES,
        "files of each corpus": [len(corpus_files(corpus)) for corpus in run.data.corpora],
        **initial_tokenizer,
    }


def explain_other_settings(run: RunConfig, tokenizer: Tokenizer | None, manifest: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each setting that differs from those the shards were made with."""
    ours = shard_settings(run, tokenizer)
    for name in {**ours, **manifest["settings"]}:
        value, recorded = ours.get(name), manifest["settings"].get(name)
        # The seed matters only if something was drawn with it: held-out pairs, or a sample for the vocabulary.
        if recorded != value and not (name == "seed" and not manifest["drawn"]):
            yield f"{name} is {value!r}, it was made with {recorded!r}"


def corpus_files(corpus: CorpusConfig) -> list[Path]:
    """Return the files of a corpus, one or two."""
    return [Path(file) for file in corpus.files if file is not None]


def training_files(run: RunConfig) -> list[Path]:
    """Return all files of training text, corpus by corpus."""
    return [path for corpus in run.data.corpora for path in corpus_files(corpus)]


def describe_text_file(path: Path) -> dict[str, Any]:
    """Return path, size, time and SHA-256 of a file of text, by which it is recognised later."""
    status = path.stat()
    return {"path": str(path), "bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": file_sha256(path)}


def explain_changed_texts(run: RunConfig, manifest: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each file of text that has changed since the shards were made."""
    for path, recorded in zip(training_files(run), manifest["texts"], strict=True):
        # A missing file is no problem: the shards hold all of its pairs.
        if path.exists() and has_changed(path, recorded):
            yield f"{path} has changed since"


def has_changed(path: Path, recorded: dict[str, Any]) -> bool:
    """Whether a file has other bytes than `recorded`; one with the same size and time is not read again."""
    status = path.stat()
    if status.st_size != recorded["bytes"]:
        return True
    return status.st_mtime_ns != recorded["mtime_ns"] and file_sha256(path) != recorded["sha256"]


def read_held_out(folder: Path, dev: dict[str, Any], max_characters: int) -> SentencePairs:
    """Read the pairs that were held out of training, with the lines they stood on."""
    pairs_read = read_pairs(folder / DEV_FILE, max_characters=max_characters)
    return replace(pairs_read, lines=dev["lines"], files=tuple(dev["files"]))


def tokenizer_contents(tokenizer: Tokenizer) -> tuple[Any, ...]:
    """Return what makes two tokenizers equal: their SentencePiece models and the ids of all pieces."""
    return (
        tokenizer.source.serialized_model_proto(),
        tokenizer.target.serialized_model_proto(),
        [*tokenizer.source_names],
        [*tokenizer.target_names],
    )


def tokenizer_digest(tokenizer: Tokenizer) -> str:
    """Return a fingerprint of a tokenizer, in 12 hexadecimal digits."""
    return hashlib.sha256(repr(tokenizer_contents(tokenizer)).encode()).hexdigest()[:12]
