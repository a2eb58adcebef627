"""A model directory read without torch: manifest, sizes and tokenizer checked, the weights as bytes until needed."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from math import prod
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from pellucid.atomic import (
    FORMAT,
    directory_identity,
    explain_no_model,
    join_problems,
    read_json,
    read_manifest,
    resolve_directory,
    verify_directory,
)
from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.sizes import ModelConfig

if TYPE_CHECKING:
    from pellucid.model import Transformer

WEIGHTS, CONFIG = "model.safetensors", "config.json"

_LARGEST_TABLE = 2**24
"""Numbers in a table of positions. It is computed, not stored, so no file's size bounds it."""

_MOST_LAYERS = 1000
"""Of both stacks together. A layer takes milliseconds to build, however narrow it is."""

_SMALL_FILE = 2**20
"""Bytes that are hashed before anything else is looked at."""

_LARGEST_NUMBER = 2**53
"""JSON's integers have no end, and a message that repeats one would have none either."""

Settings = TypeVar("Settings", ModelConfig, TokenizerConfig)
Result = TypeVar("Result")


@dataclass
class LazyBundle:
    """What `bundle.Bundle` is, but the model is made when first asked for, and only then torch is imported.

    It is the model that was there when the directory was read, whatever has become of it since.
    """

    config: ModelConfig
    tokenizer: Tokenizer
    manifest: dict[str, Any]
    directory: Path
    weights: bytes = field(repr=False)
    _model: "Transformer | None" = field(default=None, init=False, repr=False)
    _model_lock: Lock = field(default_factory=Lock, init=False, repr=False)

    @property
    def is_unloaded(self) -> bool:
        """Whether nobody has asked for the model."""
        return self._model is None

    @property
    def model(self) -> "Transformer":
        """In evaluation mode and on the CPU; ValueError for weights that are not those of a model of these sizes."""
        with self._model_lock:
            if self._model is None:
                from pellucid.weights import model_from_bytes  # imports torch

                self._model = model_from_bytes(self.weights, self.config, self.directory / WEIGHTS)
                self.weights = b""
            return self._model


class BundleDescription(NamedTuple):
    """What a model directory says besides its weights."""

    config: ModelConfig
    tokenizer: Tokenizer
    manifest: dict[str, Any]


def load_lazy_bundle(directory: str | Path) -> LazyBundle:
    """A model directory as `bundle.save` wrote it, checked as `bundle.load` does, but for what is in its weights."""
    return read_unreplaced(
        directory, lambda place: LazyBundle(*read_description(place), place, (place / WEIGHTS).read_bytes())
    )


def read_unreplaced(directory: str | Path, read: Callable[[Path], Result]) -> Result:
    """What `read` makes of a directory; once more, if it is replaced meanwhile."""
    while True:
        place = resolve_directory(directory)
        before = directory_identity(place)
        try:
            found = read(place)
        except (ValueError, OSError):
            if directory_identity(place) == before:
                raise
            continue
        if directory_identity(place) == before:
            return found


def read_description(directory: Path) -> BundleDescription:
    """What a directory says, checked against its manifest and itself; ValueError, naming every problem found.

    What costs most comes last, so that a directory made to cost much is refused before: the small files, then the
    header of the weights against the sizes, then every byte.
    """
    manifest = read_manifest(directory)
    if "exported" in manifest or not {WEIGHTS, CONFIG} <= manifest["files"].keys():
        raise ValueError(explain_no_model(directory, manifest))
    verify_directory(directory, largest=_SMALL_FILE)
    config, tokenizer_config = read_config(directory / CONFIG)
    check_header(directory / WEIGHTS, config)
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
    return BundleDescription(config, tokenizer, manifest)


def read_config(path: Path) -> tuple[ModelConfig, TokenizerConfig]:
    """The sizes of the model and the settings of the tokenizer, every type and key checked."""
    tables = read_json(path)
    if tables.get("format") != FORMAT:
        raise ValueError(f"{path} is of format {tables.get('format')!r:.60}, this version reads {FORMAT}")
    config = dataclass_from_json(ModelConfig, tables.get("model"), f"{path}, model")
    if config.max_positions * config.d_model > _LARGEST_TABLE:
        raise ValueError(
            f"{path}: max_positions {config.max_positions} with d_model {config.d_model} makes a table of positions "
            f"of more than {_LARGEST_TABLE:,} numbers"
        )
    if (layers := config.encoder_layers + config.decoder_layers) > _MOST_LAYERS:
        raise ValueError(f"{path}: a model of {layers:,} layers; at most {_MOST_LAYERS:,} are read")
    return config, dataclass_from_json(TokenizerConfig, tables.get("tokenizer"), f"{path}, tokenizer")


def check_header(path: Path, config: ModelConfig) -> None:
    """ValueError for a file that is not safetensors, or that has fewer numbers than a model of these sizes must have.

    Only its header is read. Whether each tensor is what it should be is compared when a model is made of them.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as stored:
            numbers = sum(prod(stored.get_slice(name).get_shape()) for name in stored.keys())  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error!s:.200}") from None
    layers = config.encoder_layers + config.decoder_layers
    least = config.d_model * (max(config.source_vocabulary, config.target_vocabulary) + 2 * config.d_ff * layers)
    if numbers < least:
        raise ValueError(
            f"{path} and config.json beside it do not describe the same model: at least {least:,} "
            f"parameters expected, {numbers:,} stored"
        )


def dataclass_from_json(kind: type[Settings], table: Any, where: str) -> Settings:
    """The dataclass `kind` from a table that may hold anything; ValueError names every problem at once."""
    if not isinstance(table, dict):
        raise ValueError(f"{where}: expected an object")
    hints = get_type_hints(kind)
    problems = []
    for key, value in table.items():
        if key not in hints:
            near = get_close_matches(key, hints, n=1)
            problems.append(f"unknown key {key!r:.60}" + (f", did you mean {near[0]!r}?" if near else ""))
        elif not matches_type(value, hints[key]):
            problems.append(f"{key} is {value!r:.60}, which it cannot be")
    problems += [
        f"{each.name} is missing" for each in fields(kind) if each.default is MISSING and each.name not in table
    ]
    if problems:
        raise ValueError(f"{where}: {join_problems(problems)}")
    try:
        return kind(**table)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def matches_type(value: Any, hint: Any) -> bool:
    """Whether a value read from JSON is of an annotated type; nothing is converted.

    >>> matches_type(True, int), matches_type(1, float), matches_type("pre", Literal["pre", "post"])
    (False, True, True)
    """
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if hint is float:
        return type(value) in (int, float) and abs(value) <= _LARGEST_NUMBER
    return type(value) is hint and (hint is not int or abs(value) <= _LARGEST_NUMBER)
