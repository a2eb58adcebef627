"""Provenance of a trace: facts of the model and the run, the pieces of each side, and the id of the trace."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from pellucid.atomic import installed_version
from pellucid.bundle import WEIGHTS, Bundle
from pellucid.data.tokenizer import EOS, UNK, Tokenizer
from pellucid.decode.alignment import word_piece_ranges
from pellucid.decode.config import SearchConfig
from pellucid.model import Transformer
from pellucid.trace.edits import EditSpec
from pellucid.trace.facts import ModelFacts, RunFacts, SettingValue, TraceSide

# A piece that SentencePiece writes for one byte of a character that the vocabulary lacks.
BYTE = re.compile("<0x[0-9A-F]{2}>")


def make_side(pieces: Sequence[str], ids: list[int], text: str, normalised: str) -> TraceSide:
    """Return one side of a trace, each piece with its word; a piece that spans two words belongs to the first."""
    last = len(ids) - (ids[-1:] == [EOS])
    word_of_piece: list[int | None] = [None] * len(ids)
    # In reverse, so that the first of two words that share a piece is written last.
    for word, piece in reversed(
        [(n, i) for n, piece_range in enumerate(word_piece_ranges(pieces[:last], text)) for i in piece_range]
    ):
        word_of_piece[piece] = word
    unknown = [i == UNK or bool(BYTE.fullmatch(piece)) for i, piece in zip(ids, pieces, strict=True)]
    return TraceSide(text, normalised, list(pieces), ids, word_of_piece, unknown)


def model_facts(bundle: Bundle) -> ModelFacts:
    """Return the facts of the model; its name is the end of its directory, its hashes are those of the files loaded."""
    files = bundle.manifest.get("files", {})
    parameter_count = sum(parameter.numel() for parameter in bundle.model.parameters())
    tokenizer_hashes = [files.get(name, {}).get("sha256", "") for name in Tokenizer.files(bundle.tokenizer.config)]
    return ModelFacts(
        "/".join(bundle.directory.resolve().parts[-2:]),
        asdict(bundle.model.config),
        parameter_count,
        files.get(WEIGHTS, {}).get("sha256", ""),
        " ".join(tokenizer_hashes),
    )


def search_settings(config: SearchConfig, given: bool, prefix: Sequence[str]) -> dict[str, SettingValue]:
    """Return how the translation was found: by a search, beginning with the pieces `prefix`, or given."""
    return {
        "method": "given" if given else "beam" if config.beam > 1 else "greedy",
        "beam": config.beam,
        "length_penalty": config.length_penalty,
        "max_extra": config.max_extra,
        "prefix": " ".join(prefix),
    }


def run_facts(model: Transformer, settings: dict[str, SettingValue], seconds: float) -> RunFacts:
    """Return the machine and the programs that ran the model."""
    weight = model.output_embedding.weight
    dtype, device = str(weight.dtype).removeprefix("torch."), str(weight.device)
    return RunFacts(
        dtype, device, installed_version("pellucid") or "not installed", torch.__version__, settings, seconds
    )


def trace_id(
    model: Sequence[Any],
    sentence: str,
    settings: Mapping[str, Any],
    target: Sequence[int] | None,
    edits: Sequence[EditSpec],
) -> str:
    """Return a short hash, equal for the same model, sentence, settings, target and edits."""
    text = json.dumps([model, sentence, settings, target, [asdict(edit) for edit in edits]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
