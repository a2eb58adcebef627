"""A model directory: weights, sizes, tokenizer and manifest, saved, checked and loaded as one thing."""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from difflib import get_close_matches
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
from pellucid.sealed import FORMAT, identity, listed, read_json, verify, whole, written_whole

WEIGHTS, CONFIG = "model.safetensors", "config.json"

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
