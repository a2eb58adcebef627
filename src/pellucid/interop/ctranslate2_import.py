"""Imports Transformers of CTranslate2, and those in packages of Argos Translate."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.interop.ctranslate2_file import CTranslate2File, read_ctranslate2_file
from pellucid.interop.ctranslate2_vocabulary import (
    SpecialPieces,
    load_listed_tokenizer,
    read_piece_orders,
)
from pellucid.interop.ctranslate2_weights import fill_from_ctranslate2
from pellucid.model.layers import EPSILON
from pellucid.store.atomic import join_problems, read_json, refuse_non_model_directory
from pellucid.store.directory import Bundle, load_bundle, save_bundle

WEIGHTS = "model.bin"
_CONFIG = "config.json"


def import_ctranslate2_model(
    directory: str | Path,
    out: str | Path,
    *,
    piece_model: Path | None = None,
    languages: Mapping[str, str] | None = None,
    caller_ends_sources: bool = True,
    **imported: str,
) -> Bundle:
    """Read a translation model of CTranslate2, write it as a model directory, and load that.

    Its logits equal CTranslate2's in float32; where weights were rounded when it was made,
    they are computed with the rounded weights, and a table of sines and cosines is computed
    anew. `piece_model` is its SentencePiece model, if that does not lie in the directory.
    Models of Hugging Face and fairseq expect the calling program to end a source with the
    end piece, and models of OpenNMT expect none; their files do not say which they are. With
    `caller_ends_sources`, a model whose translations start with the end piece or with
    padding is taken for one of the former. `imported` tells the manifest more of where the
    model came from. Raises ValueError, naming every problem, for a model that cannot be
    represented, before anything is written.
    """
    directory, out = Path(directory), Path(out)
    refuse_non_model_directory(out)
    if out.resolve() == directory.resolve():
        raise ValueError(f"{out} would replace what is imported; choose another directory")
    if not (directory / WEIGHTS).is_file():
        raise ValueError(f"{directory} is not a model of CTranslate2: it has no {WEIGHTS}")

    stored = read_ctranslate2_file(directory / WEIGHTS)
    special, adds_end = _read_config(directory, stored)
    source, target = read_piece_orders(directory, special)

    # Those models start a translation with the end piece, or with padding;
    # OpenNMT's, which read no end, with another.
    source_end = adds_end or (caller_ends_sources and special.start in (special.end, "<pad>"))
    tokenizer = load_listed_tokenizer(directory, piece_model, source, target, source_end)
    model = fill_from_ctranslate2(stored, source, target)

    about = {
        "from": directory.resolve().name,
        "format": "ctranslate2",
        "stored_as": _name_types(stored),
        **imported,
    }

    more: dict[str, Any] = {"languages": dict(languages)} if languages else {}
    save_bundle(out, model, tokenizer, imported=about, **more)
    return load_bundle(out)


def is_ctranslate2_directory(path: Path) -> bool:
    """Whether a directory holds a model of CTranslate2, and none of transformers beside it."""
    return (path / WEIGHTS).is_file() and not (path / "model.safetensors").is_file()


def _read_config(directory: Path, stored: CTranslate2File) -> tuple[SpecialPieces, bool]:
    """Return the special pieces, and whether CTranslate2 ends each source itself; ValueError names every problem."""
    path = directory / _CONFIG
    # Before there was a config.json, numbers among the weights said the same.
    table = read_json(path) if path.is_file() else {}
    end = table.get("eos_token", "</s>")
    starts_with_end = stored.read_number("with_target_bos") == 0
    usual_start = end if starts_with_end else table.get("bos_token", "<s>")
    start = table.get("decoder_start_token", usual_start)
    unknown = table.get("unk_token", "<unk>")

    problems = []
    if start is None or stored.read_number("user_decoder_start_tokens"):
        problems.append(
            "its first piece is to be chosen for each text, as in models of several languages"
        )
    elif not all(isinstance(piece, str) for piece in (unknown, start, end)):
        problems.append(
            f"unk_token, decoder_start_token and eos_token are {unknown!r:.40}, {start!r:.40}, "
            f"{end!r:.40}"
        )

    if table.get("add_source_bos") or stored.read_number("with_source_bos"):
        problems.append("add_source_bos is true, and no piece stands before a source here")

    epsilon = table.get("layer_norm_epsilon")
    if epsilon is not None and epsilon != EPSILON:
        problems.append(f"layer_norm_epsilon is {epsilon!r:.40}, and the norms here add {EPSILON}")
    if table.get("quantization_type"):
        problems.append("its weights have four bits (AWQ)")

    if problems or start is None:
        raise ValueError(f"{directory} cannot be imported: {join_problems(problems)}")

    starts_from_zero = bool(stored.read_number("decoder/start_from_zero_embedding"))
    adds_end = bool(table.get("add_source_eos") or stored.read_number("with_source_eos"))
    return SpecialPieces(unknown, start, end, starts_from_zero), adds_end


def _name_types(stored: CTranslate2File) -> str:
    """Return the type in which the matrices of weights are stored."""
    types = set()
    for name, variable in stored.variables.items():
        if name.endswith("/weight"):
            types.add(variable.dtype)
    return " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in types))
