"""What a trace says of where it comes from: the model, the pieces of each side, its own short name."""

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

BYTE = re.compile("<0x[0-9A-F]{2}>")


def make_side(pieces: Sequence[str], ids: list[int], text: str, normalised: str) -> TraceSide:
    """The pieces of one side, and which word of its text each belongs to: the first, of a piece that spells two."""
    last = len(ids) - (ids[-1:] == [EOS])
    of_piece: list[int | None] = [None] * len(ids)
    for word, piece in reversed(
        [(n, i) for n, some in enumerate(word_piece_ranges(pieces[:last], text)) for i in some]
    ):
        of_piece[piece] = word
    unknown = [i == UNK or bool(BYTE.fullmatch(piece)) for i, piece in zip(ids, pieces, strict=True)]
    return TraceSide(text, normalised, list(pieces), ids, of_piece, unknown)


def model_facts(bundle: Bundle) -> ModelFacts:
    """The model, by the last two names of its directory, with the hashes of its files as they were loaded."""
    files = bundle.manifest.get("files", {})
    sizes = sum(each.numel() for each in bundle.model.parameters())
    tokenizer = [files.get(name, {}).get("sha256", "") for name in Tokenizer.files(bundle.tokenizer.config)]
    return ModelFacts(
        "/".join(bundle.directory.resolve().parts[-2:]),
        asdict(bundle.model.config),
        sizes,
        files.get(WEIGHTS, {}).get("sha256", ""),
        " ".join(tokenizer),
    )


def search_settings(config: SearchConfig, given: bool, prefix: Sequence[str]) -> dict[str, SettingValue]:
    """How the translation was come by: searched for, from these pieces on, or given."""
    return {
        "method": "given" if given else "beam" if config.beam > 1 else "greedy",
        "beam": config.beam,
        "length_penalty": config.length_penalty,
        "max_extra": config.max_extra,
        "prefix": " ".join(prefix),
    }


def run_facts(model: Transformer, asked: dict[str, SettingValue], seconds: float) -> RunFacts:
    """The machine and the programs that ran the model."""
    weight = model.output_embedding.weight
    dtype, device = str(weight.dtype).removeprefix("torch."), str(weight.device)
    return RunFacts(dtype, device, installed_version("pellucid") or "not installed", torch.__version__, asked, seconds)


def trace_id(
    model: Sequence[Any],
    sentence: str,
    settings: Mapping[str, Any],
    target: Sequence[int] | None,
    edits: Sequence[EditSpec],
) -> str:
    """A short name that the same model, sentence, settings and edits have again."""
    said = json.dumps([model, sentence, settings, target, [asdict(each) for each in edits]], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:12]
