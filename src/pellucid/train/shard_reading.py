"""Shards: what a directory that `pellucid prepare` wrote says of itself, and whether a run may train on it."""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pellucid.atomic import MANIFEST, listed, own_sha256, read_json, sha256
from pellucid.data.corpus import Pairs, read_pairs
from pellucid.data.shards import mapped
from pellucid.data.tokenizer import Tokenizer
from pellucid.train import pairs
from pellucid.train.config import CorpusConfig, RunConfig
from pellucid.train.pairs import Account, Data, combined, read_dev, shared

KIND, FORMAT = "pellucid shards", 2
SAYS = {"settings": dict, "texts": list, "corpora": list, "types": dict, "notes": list, "drawn": bool, "files": dict}
"""What the manifest holds beside."""

DEV = "dev.jsonl"
"""The pairs held out of training, where no dev set was named."""


def read_shards(run: RunConfig, tokenizer: Tokenizer | None = None) -> Data:
    """What `read_data` returns, from the directory that the run names; ids stay on the disk until they are needed.

    Raises ValueError for a directory that is no shards, or damaged, or made from other text or for other settings.
    """
    assert run.data.shards is not None
    folder = Path(run.data.shards)
    about = manifest_of(folder)
    problems = [*other_settings(run, tokenizer, about)] or [*other_text(run, about)]
    if problems:
        raise ValueError(f"{folder} is not of this run: {listed(problems)}; run `pellucid prepare` again")
    own = Tokenizer.load(folder, run.tokenizer)
    if tokenizer is not None and pieces(tokenizer) != pieces(own):
        raise ValueError(f"{folder} was cut into pieces by another tokenizer than the run began with; prepare it again")
    counts = [each["pairs"] for each in about["corpora"]]
    encoded = shared(mapped(folder, sum(counts), about["types"]), counts, run.data)
    named, held_out = read_dev(run.data), len(about["dev"]["lines"]) if about["dev"] else 0
    longest = about["settings"]["data.max_characters"]
    dev, notes = named or (held_back(folder, about["dev"], longest), ())
    seal = combined([each["fingerprint"] for each in about["corpora"]])
    accounts = tuple(
        Account(corpus.called, each["pairs"], 0 if number else held_out, each["left_out"])
        for number, (corpus, each) in enumerate(zip(run.data.corpora, about["corpora"], strict=True))
    )
    return Data(own, encoded, dev, seal, (*about["notes"], *notes), accounts)


def manifest_of(folder: Path) -> dict[str, Any]:
    """What a shards directory says of itself, its own SHA-256 and the size of every file checked."""
    if not (folder / MANIFEST).is_file():
        raise ValueError(f"{folder} holds no shards; make them with `pellucid prepare RUN.toml --out {folder}`")
    about = read_json(folder / MANIFEST)
    if about.get("kind") != KIND or about.get("shards_format") != FORMAT:
        raise ValueError(f"{folder} is no directory of shards that this version reads; `pellucid prepare` makes them")
    if about.get("sha256") != own_sha256(about) or not all(type(about.get(key)) is kind for key, kind in SAYS.items()):
        raise ValueError(f"{folder / MANIFEST} was changed after it was written; run `pellucid prepare` again")
    problems = [
        f"{name} is missing or was cut"
        for name, each in about["files"].items()
        if not (folder / name).is_file() or (folder / name).stat().st_size != each["bytes"]
    ]
    if problems:
        raise ValueError(f"{folder} is damaged: {listed(problems)}; run `pellucid prepare` again")
    return about


def settings_of(run: RunConfig, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """The settings that the ids depend on; weights are not among them.

    The tokenizer is one of them where it is not learned from the text, but that of the model that the run starts from.
    """
    dev_named = run.data.dev_source is not None or run.data.dev is not None
    given = {"tokenizer of model.start": known_by(tokenizer)} if tokenizer and run.model.start else {}
    return {
        "seed": run.seed,
        "data.max_characters": run.data.max_characters,
        "data.max_pieces": run.data.max_pieces,
        "data.held_out": None if dev_named else run.data.held_out,
        **{f"tokenizer.{name}": value for name, value in asdict(run.tokenizer).items()},
        "tokenizer sentences": pairs.TOKENIZER_SENTENCES,
        "files of each corpus": [len(named(corpus)) for corpus in run.data.corpora],
        **given,
    }


def other_settings(run: RunConfig, tokenizer: Tokenizer | None, about: dict[str, Any]) -> Iterator[str]:
    """A sentence for each setting that differs; the seed counts only if something was drawn by it."""
    ours = settings_of(run, tokenizer)
    for name in {**ours, **about["settings"]}:
        value, made = ours.get(name), about["settings"].get(name)
        if made != value and not (name == "seed" and not about["drawn"]):
            yield f"{name} is {value!r}, it was made with {made!r}"


def named(corpus: CorpusConfig) -> list[Path]:
    """The files of a corpus, one or two."""
    return [Path(file) for file in corpus.files if file is not None]


def files_of(run: RunConfig) -> list[Path]:
    """All files of training text, corpus by corpus."""
    return [path for corpus in run.data.corpora for path in named(corpus)]


def described(path: Path) -> dict[str, Any]:
    """By what a file of text is known again."""
    seen = path.stat()
    return {"path": str(path), "bytes": seen.st_size, "mtime_ns": seen.st_mtime_ns, "sha256": sha256(path)}


def other_text(run: RunConfig, about: dict[str, Any]) -> Iterator[str]:
    """A sentence for each file that is not what it was; one whose size and time are the same is not read again.

    One that is not there cannot be trained on, but neither need it be.
    """
    for path, then in zip(files_of(run), about["texts"], strict=True):
        if path.exists() and changed(path, then):
            yield f"{path} has changed since"


def changed(path: Path, then: dict[str, Any]) -> bool:
    """Whether a file has other bytes than it had."""
    now = path.stat()
    if now.st_size != then["bytes"]:
        return True
    return now.st_mtime_ns != then["mtime_ns"] and sha256(path) != then["sha256"]


def held_back(folder: Path, dev: dict[str, Any], max_characters: int) -> Pairs:
    """The pairs that were held out of training, with the lines they stood in."""
    found = read_pairs(folder / DEV, max_characters=max_characters)
    return replace(found, lines=dev["lines"], files=tuple(dev["files"]))


def pieces(tokenizer: Tokenizer) -> tuple[Any, ...]:
    """By what tokenizers are compared: the models that cut, and the number of each piece."""
    return (
        tokenizer.source.serialized_model_proto(),
        tokenizer.target.serialized_model_proto(),
        [*tokenizer.source_names],
        [*tokenizer.target_names],
    )


def known_by(tokenizer: Tokenizer) -> str:
    """The same in twelve digits."""
    return hashlib.sha256(repr(pieces(tokenizer)).encode()).hexdigest()[:12]
