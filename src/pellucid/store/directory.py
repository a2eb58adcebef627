"""A model directory: reads it, checks it as a stranger's input, and writes it; only its weights need torch."""

import json
import shutil
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import MISSING, asdict, fields
from math import prod
from pathlib import Path
from threading import Lock
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from pellucid.config import suggest_nearest
from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.model.config import ModelConfig, drop_removed_settings
from pellucid.store.atomic import (
    FORMAT,
    MANIFEST,
    atomic_directory,
    directory_identity,
    explain_no_model,
    join_problems,
    read_json,
    read_manifest,
    resolve_directory,
    verify_directory,
)
from pellucid.store.manifest_checks import check_manifest, read_directions

if TYPE_CHECKING:
    from pellucid.model import Transformer

WEIGHTS, CONFIG = "model.safetensors", "config.json"

# The most numbers in a table of positions, which is computed, not
# stored, so that no file's size limits it.
_LARGEST_TABLE = 2**24
# The most layers of both stacks together, because a layer takes
# milliseconds to build, however narrow it is.
_MOST_LAYERS = 1000
_SMALL_FILE = 2**20  # the most bytes of a file that is hashed before anything else is read
# The largest number accepted from JSON, whose integers, and messages that
# repeat them, would otherwise have no end.
_LARGEST_NUMBER = 2**53

_Settings = TypeVar("_Settings", ModelConfig, TokenizerConfig)
_Result = TypeVar("_Result")


class _UnreadModel(NamedTuple):
    """The sizes of a model and the content of its weights file, before a model is made of them."""

    config: ModelConfig
    content: bytes
    path: Path


class Bundle:
    """A model with its tokenizer and manifest, as loaded from a model directory.

    A model that was not read yet is built, and torch imported, when it is first asked for. It is
    the model that was there when the directory was read, even if the directory has changed since.
    """

    def __init__(
        self,
        model: "Transformer | _UnreadModel",
        tokenizer: Tokenizer,
        manifest: dict[str, Any],
        directory: Path,
    ):
        self.tokenizer, self.manifest, self.directory = tokenizer, manifest, directory
        # In a list, which the copies for several languages share: it is read once for all of them.
        self._models: list[Transformer | _UnreadModel] = [model]
        # Two threads of a server may ask for the model at once; it is built by one of them.
        self._model_lock = Lock()

    @property
    def config(self) -> ModelConfig:
        """The sizes of the model."""
        return self._models[0].config

    @property
    def is_unloaded(self) -> bool:
        """Whether nobody has asked for the model yet."""
        return isinstance(self._models[0], _UnreadModel)

    @property
    def model(self) -> "Transformer":
        """The model, in evaluation mode and on the CPU; ValueError for weights that do not fit the config."""
        with self._model_lock:
            [model] = self._models
            if isinstance(model, _UnreadModel):
                from pellucid.store.weights import model_from_bytes  # imports torch

                # The bytes go with the object that held them: the tensors are a copy, and as large.
                model = self._models[0] = model_from_bytes(model.content, model.config, model.path)
            return model

    def into(self, language: str) -> "Bundle":
        """Return this multilingual model, with the same weights, for one language to write.

        Its manifest then names both languages, where there is one
        source. Raises ValueError for another language.
        """
        bundle = copy(self)
        bundle.tokenizer = self.tokenizer.into(language)

        directions = read_directions(self.manifest)
        sources = [source for source, target in directions if target == language]
        if len(sources) == 1:
            languages = {"source": sources[0], "target": language}
            bundle.manifest = self.manifest | {"languages": languages}
        return bundle


def save_bundle(
    directory: str | Path,
    model: "Transformer",
    tokenizer: Tokenizer,
    *,
    also: Callable[[Path], None] | None = None,
    **manifest: Any,
) -> None:
    """Write a model directory, whole or not at all, replacing one that is there.

    `also` may write more files into the folder it is given; `manifest` is recorded in
    manifest.json. Raises ValueError for weights that are infinite or not a number, and for a
    directory that holds something other than a model.
    """
    from pellucid.store.weights import write_model  # imports torch

    config = {
        "format": FORMAT,
        "model": asdict(model.config),
        "tokenizer": asdict(tokenizer.config),
    }
    with atomic_directory(directory, **manifest) as folder:
        write_model(model, folder / WEIGHTS)
        (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        tokenizer.save(folder)
        if also is not None:
            also(folder)


def add_files(
    directory: str | Path, files: Mapping[str, str], out: str | Path | None = None, **manifest: Any
) -> None:
    """Add texts as files, and entries of the manifest, to a model directory or, where `out` is given, to a copy of it.

    `files` are the texts by the names of their files.
    """
    source = resolve_directory(directory)

    about = read_manifest(source)
    kept = dict(about)
    for written_anew in ("files", "format", "versions", "sha256"):
        kept.pop(written_anew, None)

    with atomic_directory(directory if out is None else out, **{**kept, **manifest}) as folder:
        for file in about["files"].keys() - files.keys():
            shutil.copyfile(source / file, folder / file)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")


def load_bundle(directory: str | Path, lazy: bool = False) -> Bundle:
    """Load a model directory that `save_bundle` wrote, in evaluation mode and on the CPU.

    It is checked completely, against its manifest and itself, before memory is taken for it. A
    `lazy` one builds its model, and checks the numbers in the weights, when the model is first
    asked for. Raises ValueError, naming every problem, for a directory that is not a model, or is
    damaged, or contradicts itself.
    """
    return read_unreplaced(directory, lambda folder: _read_bundle(folder, lazy))


def _read_bundle(directory: Path, lazy: bool) -> Bundle:
    config, tokenizer, manifest = read_description(directory)
    path = directory / WEIGHTS
    bundle = Bundle(_UnreadModel(config, path.read_bytes(), path), tokenizer, manifest, directory)
    if not lazy:
        _ = bundle.model
    return bundle


def read_unreplaced(directory: str | Path, reader: Callable[[Path], _Result]) -> _Result:
    """Return what `reader` reads from a directory, and read it again if the directory is replaced meanwhile."""
    while True:
        folder = resolve_directory(directory)
        before = directory_identity(folder)
        try:
            result = reader(folder)
        except (ValueError, OSError):
            # Half of the files may be from before the replacement; only an error of an unchanged
            # directory counts.
            if directory_identity(folder) == before:
                raise
            continue
        if directory_identity(folder) == before:
            return result


def read_description(directory: Path) -> tuple[ModelConfig, Tokenizer, dict[str, Any]]:
    """Read everything but the weights, checked against the manifest and itself; ValueError names every problem."""
    # The costly checks come last, so that a directory made to be costly is refused earlier: the
    # small files first, then the header of the weights against the sizes, then every byte.
    manifest = read_manifest(directory)

    if "exported" in manifest or not {WEIGHTS, CONFIG} <= manifest["files"].keys():
        raise ValueError(explain_no_model(directory, manifest))
    check_manifest(manifest, directory / MANIFEST)
    verify_directory(directory, largest=_SMALL_FILE)
    config, tokenizer_config = read_config(directory / CONFIG)
    _check_header(directory / WEIGHTS, config)
    verify_directory(directory)

    unlisted = [name for name in Tokenizer.files(tokenizer_config) if name not in manifest["files"]]
    if unlisted:
        raise ValueError(f"{directory} lacks {' and '.join(unlisted)}")
    tokenizer = Tokenizer.load(directory, tokenizer_config)

    for side in ("source_vocabulary", "target_vocabulary"):
        if getattr(config, side) != getattr(tokenizer, side):
            raise ValueError(
                f"{directory}: the model's {side} is {getattr(config, side):,}, "
                f"its tokenizer has {getattr(tokenizer, side):,} pieces; they do not belong together"
            )
    return config, tokenizer, manifest


def read_config(path: Path) -> tuple[ModelConfig, TokenizerConfig]:
    """Read the sizes of the model and the settings of the tokenizer, with every type and key checked."""
    tables = read_json(path)
    if tables.get("format") != FORMAT:
        raise ValueError(
            f"{path} is of format {tables.get('format')!r:.60}, this version reads {FORMAT}"
        )

    table = tables.get("model")
    kept = drop_removed_settings(table, f"{path}, model") if isinstance(table, dict) else table
    config = _dataclass_from_json(ModelConfig, kept, f"{path}, model")
    if config.max_positions * config.d_model > _LARGEST_TABLE:
        raise ValueError(
            f"{path}: max_positions {config.max_positions} with d_model {config.d_model} makes a table of positions "
            f"of more than {_LARGEST_TABLE:,} numbers"
        )

    if (layers := config.encoder_layers + config.decoder_layers) > _MOST_LAYERS:
        raise ValueError(f"{path}: a model of {layers:,} layers; at most {_MOST_LAYERS:,} are read")
    settings = tables.get("tokenizer")
    return config, _dataclass_from_json(TokenizerConfig, settings, f"{path}, tokenizer")


def _check_header(path: Path, config: ModelConfig) -> None:
    """Raise ValueError for a file that is not safetensors, or has fewer numbers than a model of these sizes.

    Only the header is read. Each tensor's shape is compared later, when the model is built.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            numbers = sum(prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error!s:.200}") from None
    layers = config.encoder_layers + config.decoder_layers
    # One embedding and the feed-forward matrices alone: every model of these sizes has at least
    # those.
    pieces = max(config.source_vocabulary, config.target_vocabulary)
    least = config.d_model * (pieces + 2 * config.d_ff * layers)

    if numbers < least:
        raise ValueError(
            f"{path} and config.json beside it do not describe the same model: at least {least:,} "
            f"parameters expected, {numbers:,} stored"
        )


def _dataclass_from_json(kind: type[_Settings], table: Any, where: str) -> _Settings:
    """Make an instance of the dataclass `kind` from a table that may hold anything; ValueError names every problem."""
    if not isinstance(table, dict):
        raise ValueError(f"{where}: expected an object")

    hints = get_type_hints(kind)
    problems = []
    for key, value in table.items():
        if key not in hints:
            problems.append(f"unknown key {key!r:.60}{suggest_nearest(key, hints)}")
        elif not _matches_type(value, hints[key]):
            problems.append(f"{key} is {value!r:.60}, which it cannot be")

    for setting in fields(kind):
        if setting.default is MISSING and setting.name not in table:
            problems.append(f"{setting.name} is missing")

    if problems:
        raise ValueError(f"{where}: {join_problems(problems)}")

    try:
        return kind(**table)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _matches_type(value: Any, hint: Any) -> bool:
    """Whether a value read from JSON is of an annotated type; nothing is converted.

    >>> _matches_type(True, int), _matches_type(1, float), _matches_type("pre", Literal["pre", "post"])
    (False, True, True)
    """
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if hint is float:
        return type(value) in (int, float) and abs(value) <= _LARGEST_NUMBER
    # isinstance would take True for an int.
    return type(value) is hint and (hint is not int or abs(value) <= _LARGEST_NUMBER)


def trained_context(manifest: Mapping[str, Any]) -> int:
    """Return how many sentences before another the sources of training had."""
    context: int = manifest.get("context", 0)
    return context
