"""A model directory: weights, sizes, tokenizer and manifest, saved, checked and loaded as one thing."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING, asdict, dataclass, fields
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from math import inf, prod
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.model import ModelConfig, Transformer

FORMAT = 1
WEIGHTS, CONFIG, MANIFEST = "model.safetensors", "config.json", "manifest.json"

_LARGEST_JSON = 2**20
_LARGEST_TABLE = 2**26
"""Numbers in a table of positions. It is computed, not stored, so no file's size bounds it."""

Settings = TypeVar("Settings", ModelConfig, TokenizerConfig)


@dataclass(frozen=True)
class Bundle:
    """A model, ready to translate, with the tokenizer it was trained with and what is known of it."""

    model: Transformer
    tokenizer: Tokenizer
    manifest: dict[str, Any]
    directory: Path


def save(
    directory: str | Path,
    model: Transformer,
    tokenizer: Tokenizer,
    *,
    also: Callable[[Path], None] | None = None,
    **manifest: Any,
) -> None:
    """Write a model directory, whole or not at all; one that is there is replaced.

    `also` may write more files into the folder it is given; `manifest` is what shall be known of the model. Raises
    ValueError for weights that are no numbers, and for a directory that holds something other than a model.
    """
    # Shared matrices are listed, and so stored, once.
    weights = {name: each.detach().cpu().contiguous() for name, each in model.named_parameters()}
    refuse_non_finite(weights, "the model to be saved")
    config = {"format": FORMAT, "model": asdict(model.config), "tokenizer": asdict(tokenizer.config)}
    with written_whole(directory, **manifest) as folder:
        save_file(weights, folder / WEIGHTS)
        (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        tokenizer.save(folder)
        if also is not None:
            also(folder)


def load(directory: str | Path) -> Bundle:
    """A model directory as `save` wrote it, in evaluation mode and on the CPU.

    It is read as a stranger's: checked whole, against its manifest and itself, before memory is taken for it. Raises
    ValueError, naming every problem found, for a directory that is no model, or is damaged, or does not agree with
    itself.
    """
    while True:
        place = whole(directory)
        before = identity(place)
        try:
            found = read(place)
        except (ValueError, OSError):
            if identity(place) == before:
                raise
            continue
        if identity(place) == before:
            return found


def read(directory: Path) -> Bundle:
    """What `load` returns, unless the directory is replaced meanwhile."""
    manifest = verify(directory, needed=(WEIGHTS, CONFIG))
    config, tokenizer_config = read_config(directory / CONFIG)
    unlisted = [name for name in Tokenizer.files(tokenizer_config.joint) if name not in manifest["files"]]
    if unlisted:
        raise ValueError(f"{directory} lacks {' and '.join(unlisted)}")
    tokenizer = Tokenizer.load(directory, tokenizer_config)
    for side in ("source_vocabulary", "target_vocabulary"):
        if getattr(config, side) != getattr(tokenizer, side):
            raise ValueError(
                f"{directory}: the model's {side} is {getattr(config, side):,}, "
                f"its tokenizer has {getattr(tokenizer, side):,} pieces; they do not belong together"
            )
    return Bundle(read_model(directory / WEIGHTS, config), tokenizer, manifest, directory)


def read_config(path: Path) -> tuple[ModelConfig, TokenizerConfig]:
    """The sizes of the model and the settings of the tokenizer, every type and key checked."""
    tables = read_json(path)
    if tables.get("format") != FORMAT:
        raise ValueError(f"{path} is of format {tables.get('format')!r}, this version reads {FORMAT}")
    config = settings(ModelConfig, tables.get("model"), f"{path}, model")
    if config.max_positions * config.d_model > _LARGEST_TABLE:
        raise ValueError(
            f"{path}: max_positions {config.max_positions} with d_model {config.d_model} makes a table of positions "
            f"of more than {_LARGEST_TABLE:,} numbers"
        )
    return config, settings(TokenizerConfig, tables.get("tokenizer"), f"{path}, tokenizer")


def settings(kind: type[Settings], table: Any, where: str) -> Settings:
    """The dataclass `kind` from a table that may hold anything; ValueError names every problem at once."""
    if not isinstance(table, dict):
        raise ValueError(f"{where}: expected an object")
    hints = get_type_hints(kind)
    problems = []
    for key, value in table.items():
        if key not in hints:
            near = get_close_matches(key, hints, n=1)
            problems.append(f"unknown key {key!r:.60}" + (f", did you mean {near[0]!r}?" if near else ""))
        elif not fits(value, hints[key]):
            problems.append(f"{key} is {value!r:.60}, which it cannot be")
    problems += [
        f"{each.name} is missing" for each in fields(kind) if each.default is MISSING and each.name not in table
    ]
    if problems:
        raise ValueError(f"{where}: " + "; ".join(problems))
    try:
        return kind(**table)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def fits(value: Any, hint: Any) -> bool:
    """Whether a value read from JSON is of an annotated type; nothing is converted.

    >>> fits(True, int), fits(1, float), fits("pre", Literal["pre", "post"])
    (False, True, True)
    """
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if hint is float:
        return type(value) in (int, float) and abs(value) < inf
    return type(value) is hint


def read_model(path: Path, config: ModelConfig) -> Transformer:
    """The weights in `path` as a model of these sizes, which are compared with the file before memory is taken."""
    try:
        with safe_open(path, framework="pt") as stored:
            found = {name: stored.get_slice(name) for name in stored.keys()}  # noqa: SIM118  (it is no mapping)
            model = without_weights(config, tensors=len(found))
            wanted = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
            shapes = {name: tuple(each.get_shape()) for name, each in found.items()}
            problems = differences(wanted, shapes)
            problems += [
                f"{n} is {each.get_dtype()}, not F32" for n, each in found.items() if each.get_dtype() != "F32"
            ]
            if problems:
                raise ValueError(f"{path} and {CONFIG} beside it do not describe the same model: {listed(problems)}")
            # Copied out of the file's pages: whoever writes to the file later must not change a model in use.
            weights = {name: stored.get_tensor(name).clone() for name in wanted}
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from None
    refuse_non_finite(weights, str(path))
    for name, weight in weights.items():
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, nn.Parameter(weight))
    return model.eval()


def differences(wanted: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]]) -> list[str]:
    """A sentence for each way in which stored tensors are not the parameters that were expected."""
    counts = [sum(map(prod, shapes.values())) for shapes in (wanted, found)]
    return [
        *([f"{counts[0]:,} parameters expected, {counts[1]:,} stored"] if counts[0] != counts[1] else []),
        *(f"{name} is missing" for name in wanted if name not in found),
        *(f"{name!r:.60} is unknown" for name in found if name not in wanted),
        *(f"{n} is {found[n]}, expected {shape}" for n, shape in wanted.items() if found.get(n, shape) != shape),
    ]


def without_weights(config: ModelConfig, tensors: int) -> Transformer:
    """A model whose parameters have a shape and no storage; nothing is drawn, so no generator moves."""
    layers = config.encoder_layers + config.decoder_layers
    if layers > tensors:
        raise ValueError(f"{layers:,} layers expected, {tensors:,} tensors stored")
    try:
        with _Unstored():
            return Transformer(config)
    except (RuntimeError, OverflowError, TypeError):
        raise ValueError(f"no machine holds a model of these sizes: {config}") from None


class _Unstored(TorchFunctionMode):
    # As torch.device("meta"), but for parameters only: tables of sines are computed as ever, and it takes no second.

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.empty:
            return func(*args, **{**(kwargs or {}), "device": "meta"})
        if getattr(func, "__name__", "") in ("normal_", "uniform_"):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def refuse_non_finite(weights: Mapping[str, Tensor], where: str) -> None:
    """ValueError for weights that are infinite or no numbers."""
    broken = [name for name, weight in weights.items() if not torch.isfinite(weight).all()]
    if broken:
        raise ValueError(f"{where} has weights that are infinite or not a number, in {listed(broken)}")


@contextmanager
def written_whole(directory: str | Path, **manifest: Any) -> Iterator[Path]:
    """A temporary folder to write files into; afterwards it stands at `directory`, with a manifest.

    Files and folders are forced to the disk before they are renamed, so after a crash `directory` is what it was, or
    what it was to be. Replacing takes two renames; between them `whole` finds the new one.
    """
    directory = Path(directory).resolve()
    refuse_to_replace(directory)
    new, old = beside(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    if (there := whole(directory)) != directory:
        there.rename(directory)
    for left_over in (new, old):
        if left_over.exists():
            shutil.rmtree(left_over)
    new.mkdir()
    try:
        yield new
        write_manifest(new, manifest)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    if directory.exists():
        directory.rename(old)
    new.rename(directory)
    force_to_disk(directory.parent)
    if old.exists():
        shutil.rmtree(old)


def beside(directory: Path) -> tuple[Path, Path]:
    """Where a directory is written, and where the one it replaces waits to be removed."""
    return directory.with_name(f".{directory.name}.new"), directory.with_name(f".{directory.name}.old")


def whole(directory: str | Path) -> Path:
    """Where `directory` is: itself, or, if a crash hit between the two renames of its replacement, the new one."""
    directory = Path(directory)
    if directory.exists():
        return directory
    new, old = beside(directory.resolve())
    if not old.exists():
        return directory
    return new if (new / MANIFEST).exists() else old


def identity(directory: Path) -> tuple[int, ...] | None:
    """What changes when a directory is replaced by another of its name."""
    with suppress(FileNotFoundError):
        found = directory.stat()
        return found.st_dev, found.st_ino, found.st_mtime_ns
    return None


def refuse_to_replace(directory: Path) -> None:
    """ValueError for a place where something other than a model stands."""
    if directory.is_dir() and any(directory.iterdir()) and not (directory / MANIFEST).exists():
        raise ValueError(f"{directory} holds other things than a model and is not replaced; choose another place")
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file; a model needs a directory")


def write_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    """List the files of a folder with their SHA-256, and force them all to the disk."""
    paths = sorted(folder.iterdir())
    manifest = {
        **about,
        "format": FORMAT,
        "files": {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in paths},
        "versions": {name: installed(name) for name in ("pellucid", "torch", "sentencepiece", "safetensors")},
    }
    manifest["sha256"] = own_sha256(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    for path in paths:
        shutil.copymode(folder / MANIFEST, path)  # safetensors would have its files read by nobody else
    for path in (*paths, folder / MANIFEST, folder):
        force_to_disk(path)


def manifest_of(directory: str | Path) -> dict[str, Any]:
    """What is known of a model directory: its files, the versions that wrote it, and what `save` was told.

    Raises ValueError for a directory without one, or with a damaged one.
    """
    directory = Path(directory)
    path = directory / MANIFEST
    if not path.is_file():
        raise ValueError(not_a_model(directory))
    manifest = read_json(path)
    if manifest.get("format") != FORMAT:
        raise ValueError(f"{path} is of format {manifest.get('format')!r}, this version reads {FORMAT}")
    if manifest.get("sha256") != own_sha256(manifest):
        raise ValueError(f"{path} was changed after it was written; {_RECOVER}")
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(
        name == Path(name).name and name not in ("", "..") and "\\" not in name and isinstance(each, dict)
        for name, each in files.items()
    ):
        raise ValueError(f"{path} does not list the files of this directory")
    return manifest


def verify(directory: str | Path, needed: tuple[str, ...] = ()) -> dict[str, Any]:
    """The manifest, once every file it lists is there with the bytes it had; ValueError names those that are not."""
    directory = Path(directory)
    manifest = manifest_of(directory)
    problems = [f"{name} is not listed in {MANIFEST}" for name in needed if name not in manifest["files"]]
    for name, written in manifest["files"].items():
        path = directory / name
        if not path.is_file():
            problems.append(f"{name} is missing")
        elif path.stat().st_size != written.get("bytes"):
            problems.append(
                f"{name} has {path.stat().st_size:,} bytes, not {written.get('bytes')}: it was cut or changed"
            )
        elif sha256(path) != written.get("sha256"):
            problems.append(f"{name} was changed after it was written")
    if problems:
        raise ValueError(f"{directory} is damaged: {listed(problems)}; {_RECOVER}")
    return manifest


_RECOVER = "restore it from a copy, or use another model of the same run (best, average, last, checkpoints)"


def not_a_model(directory: Path) -> str:
    """Why a directory without a manifest is no model, and which one may be meant."""
    if not directory.exists():
        return f"{directory} does not exist; a model is a directory such as runs/demo/best"
    if not directory.is_dir():
        return f"{directory} is a file; a model is a directory such as runs/demo/best"
    inside = [name for name in ("best", "average", "last") if (directory / name / MANIFEST).exists()]
    if inside:
        return f"{directory} is a run, not a model; did you mean {directory / inside[0]}?"
    return f"{directory} is not a model directory: {MANIFEST} is missing"


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file of reasonable size; ValueError for anything else."""
    if path.stat().st_size > _LARGEST_JSON:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes; it should have less than {_LARGEST_JSON:,}")
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected an object")
    return found


def own_sha256(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of what a manifest says, apart from this number."""
    said = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def sha256(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def installed(package: str) -> str | None:
    """The version of a package, or None for one that runs without having been installed."""
    with suppress(PackageNotFoundError):
        return version(package)
    return None


def force_to_disk(path: Path) -> None:
    """Return once a file or a directory is on the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no directories
    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def listed(problems: list[str], most: int = 8) -> str:
    """The problems as one sentence, the first of many."""
    return "; ".join(problems[:most]) + (f"; and {len(problems) - most} more" if len(problems) > most else "")
