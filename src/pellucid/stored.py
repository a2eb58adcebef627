"""A model directory read without torch: manifest, sizes and tokenizer checked, the weights as bytes until needed."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from math import inf
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from pellucid.data.tokenizer import Tokenizer, TokenizerConfig
from pellucid.sealed import FORMAT, identity, manifest_of, read_json, verify, whole
from pellucid.sizes import ModelConfig

if TYPE_CHECKING:
    from pellucid.model import Transformer

WEIGHTS, CONFIG = "model.safetensors", "config.json"

_LARGEST_TABLE = 2**26
"""Numbers in a table of positions. It is computed, not stored, so no file's size bounds it."""

Settings = TypeVar("Settings", ModelConfig, TokenizerConfig)
Read = TypeVar("Read")


@dataclass
class Stored:
    """What `bundle.Bundle` is, but the model is made when first asked for, and only then torch is imported.

    It is the model that was there when the directory was read, whatever has become of it since.
    """

    config: ModelConfig
    tokenizer: Tokenizer
    manifest: dict[str, Any]
    directory: Path
    weights: bytes = field(repr=False)
    _made: "Transformer | None" = field(default=None, init=False, repr=False)
    _making: Lock = field(default_factory=Lock, init=False, repr=False)

    @property
    def waits(self) -> bool:
        """Whether nobody has asked for the model."""
        return self._made is None

    @property
    def model(self) -> "Transformer":
        """In evaluation mode and on the CPU; ValueError for weights that are not those of a model of these sizes."""
        with self._making:
            if self._made is None:
                from pellucid.weights import model_of  # imports torch

                self._made = model_of(self.weights, self.config, self.directory / WEIGHTS)
                self.weights = b""
            return self._made


class About(NamedTuple):
    """What a model directory says besides its weights."""

    config: ModelConfig
    tokenizer: Tokenizer
    manifest: dict[str, Any]


def load(directory: str | Path) -> Stored:
    """A model directory as `bundle.save` wrote it, checked as `bundle.load` does, but for what is in its weights."""
    return steady(directory, lambda place: Stored(*about(place), place, (place / WEIGHTS).read_bytes()))


def steady(directory: str | Path, read: Callable[[Path], Read]) -> Read:
    """What `read` makes of a directory; once more, if it is replaced meanwhile."""
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


def about(directory: Path) -> About:
    """What a directory says, checked against its manifest and itself; ValueError, naming every problem found."""
    refuse_exported(directory)
    manifest = verify(directory, needed=(WEIGHTS, CONFIG))
    config, tokenizer_config = read_config(directory / CONFIG)
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
    return About(config, tokenizer, manifest)


def refuse_exported(directory: Path) -> None:
    """ValueError for what `pellucid export` wrote: it was made of a model, and is none."""
    origin = manifest_of(directory).get("exported")
    if origin is None:
        return
    kind = origin.get("format") if isinstance(origin, dict) else None
    said = f"{directory} was made of a model by `pellucid export`, and is not the model itself"
    if kind == "ctranslate2":
        raise ValueError(f"{said}; name that model, and this directory with --exported {directory}")
    raise ValueError(f"{said}; name that model, or read this one back: pellucid import {directory} OUT")


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
