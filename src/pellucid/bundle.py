"""Model directories with torch: saves, checks and loads weights, sizes, tokenizer and manifest together."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from pellucid.atomic import FORMAT, atomic_directory
from pellucid.data.tokenizer import Tokenizer
from pellucid.lazy_bundle import CONFIG, WEIGHTS, read_description, read_unreplaced
from pellucid.model import Transformer
from pellucid.weights import read_model, refuse_non_finite


@dataclass(frozen=True)
class Bundle:
    """A model with its tokenizer and manifest, as loaded from a model directory."""

    model: Transformer
    tokenizer: Tokenizer
    manifest: dict[str, Any]
    directory: Path


def save_bundle(
    directory: str | Path,
    model: Transformer,
    tokenizer: Tokenizer,
    *,
    also: Callable[[Path], None] | None = None,
    **manifest: Any,
) -> None:
    """Write a model directory, whole or not at all, replacing one that is there.

    `also` may write more files into the folder it is given; `manifest` is recorded in manifest.json. Raises ValueError
    for weights that are infinite or not a number, and for a directory that holds something other than a model.
    """
    # named_parameters() lists a matrix that several modules share once, so it is stored once.
    weights = {name: weight.detach().cpu().contiguous() for name, weight in model.named_parameters()}
    refuse_non_finite(weights, "the model to be saved")
    config = {"format": FORMAT, "model": asdict(model.config), "tokenizer": asdict(tokenizer.config)}
    with atomic_directory(directory, **manifest) as folder:
        save_file(weights, folder / WEIGHTS)
        (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        tokenizer.save(folder)
        if also is not None:
            also(folder)


def load_bundle(directory: str | Path) -> Bundle:
    """Load a model directory that `save_bundle` wrote, in evaluation mode and on the CPU.

    It is checked completely, against its manifest and itself, before memory is taken for it. Raises ValueError, naming
    every problem, for a directory that is not a model, or is damaged, or contradicts itself.
    """
    # `lazy_bundle.load_lazy_bundle` does it without torch, for commands that may not need the weights.
    return read_unreplaced(directory, read_bundle)


def read_bundle(directory: Path) -> Bundle:
    """Read a model directory for `load_bundle`, which reads again if it is replaced meanwhile."""
    config, tokenizer, manifest = read_description(directory)
    return Bundle(read_model(directory / WEIGHTS, config), tokenizer, manifest, directory)
