"""A model directory: weights, sizes, tokenizer and manifest, saved, checked and loaded as one thing."""

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
    """A model, ready to translate, with the tokenizer it was trained with and what is known of it."""

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
    """Write a model directory, whole or not at all; one that is there is replaced.

    `also` may write more files into the folder it is given; `manifest` is what shall be known of the model. Raises
    ValueError for weights that are no numbers, and for a directory that holds something other than a model.
    """
    # Shared matrices are listed, and so stored, once.
    weights = {name: each.detach().cpu().contiguous() for name, each in model.named_parameters()}
    refuse_non_finite(weights, "the model to be saved")
    config = {"format": FORMAT, "model": asdict(model.config), "tokenizer": asdict(tokenizer.config)}
    with atomic_directory(directory, **manifest) as folder:
        save_file(weights, folder / WEIGHTS)
        (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
        tokenizer.save(folder)
        if also is not None:
            also(folder)


def load_bundle(directory: str | Path) -> Bundle:
    """A model directory as `save` wrote it, in evaluation mode and on the CPU.

    It is read as a stranger's: checked whole, against its manifest and itself, before memory is taken for it. Raises
    ValueError, naming every problem found, for a directory that is no model, or is damaged, or does not agree with
    itself. (`stored.load_bundle` is the same without torch, for what may need no model.)
    """
    return read_unreplaced(directory, read_bundle)


def read_bundle(directory: Path) -> Bundle:
    """What `load_bundle` returns, unless the directory is replaced meanwhile."""
    config, tokenizer, manifest = read_description(directory)
    return Bundle(read_model(directory / WEIGHTS, config), tokenizer, manifest, directory)
