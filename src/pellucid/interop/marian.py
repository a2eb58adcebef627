"""Marian models of Hugging Face, and Pegasus ones, which have their norms before each part: imported and exported."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pellucid import bundle
from pellucid.atomic import atomic_directory, join_problems, read_json, refuse_non_model_directory
from pellucid.bundle import Bundle
from pellucid.interop.marian_config import explain_unfit, model_arguments, transformers_config
from pellucid.interop.marian_vocabulary import (
    SENTENCEPIECE_FILES,
    START_TOKEN,
    load_marian_tokenizer,
    read_vocabularies,
    tokenizer_files,
)
from pellucid.interop.marian_weights import (
    DTYPES,
    WEIGHTS,
    ImportPlan,
    StoredNames,
    read_marian_weights,
    start_with_padding,
    usual_names,
    write_marian_weights,
)
from pellucid.interop.padded_heads import with_all_heads
from pellucid.model import ModelConfig, Transformer
from pellucid.model.known_parts import unknown_parts

IMPORTED_FILE = "marian.json"
"""The file of a model directory that holds what an imported model's own files said, so that it can be written again."""

FILES = (
    "config.json",
    "vocab.json",
    "target_vocab.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
)
_LARGEST_JSON = 32 * 2**20
"""Bytes: a vocabulary is larger than what a model directory of ours describes itself with."""


def import_marian(directory: str | Path, out: str | Path) -> Bundle:
    """Read a Marian or Pegasus model with its MarianTokenizer, write it as a model directory, and load that.

    Logits and pieces are those of transformers. No pickle is opened, and nothing outside `directory` is. Raises
    ValueError, naming every problem, for a model that cannot be held, before anything is written.
    """
    directory, out = Path(directory), Path(out)
    refuse_non_model_directory(out)
    if out.resolve() == directory.resolve():
        raise ValueError(f"{out} would replace what is imported; choose another place")
    files = read_json_files(directory)
    plan = plan_import(files, str(directory))
    tokenizer = load_marian_tokenizer(directory, plan.source, plan.target)
    model, stored = read_marian_weights(directory / WEIGHTS, plan)
    kept = {"files": files, "tensors": stored.names, "dtype": stored.dtype}
    bundle.save_bundle(
        out,
        model,
        tokenizer,
        also=lambda folder: write_json_like_transformers(folder / IMPORTED_FILE, kept),
        imported={"from": directory.resolve().name, "format": files["config.json"]["model_type"]},
    )
    return bundle.load_bundle(out)


def export_marian(found: Bundle, out: str | Path) -> None:
    """Write a model so that AutoModelForSeq2SeqLM and AutoTokenizer of transformers 5 load it from `out`.

    With norms after each part it becomes a Marian model, with norms before them a Pegasus one; both get a
    MarianTokenizer. A model that was imported becomes what it was. Heads that were removed from some attentions are
    zeros there, for both formats have as many in every layer. Raises ValueError, naming every reason, for a model
    that neither format can hold, before anything is written.
    """
    if unknown := [f"{part}, which neither format knows" for part in unknown_parts(found.model)]:
        raise ValueError(f"{found.directory} cannot be exported for transformers: {join_problems(unknown)}")
    found = replace(found, model=with_all_heads(found.model))
    if as_imported := files_of_imported(found):
        files, plan, stored = as_imported
        model = found.model
    else:
        files, plan, model = files_of_ours(found)
        stored = usual_names(model, plan)
    with atomic_directory(
        out, exported={"from": found.directory.resolve().name, "format": files["config.json"]["model_type"]}
    ) as folder:
        for name, table in files.items():
            write_json_like_transformers(folder / name, table)
        for name, side in zip(SENTENCEPIECE_FILES, (found.tokenizer.source, found.tokenizer.target), strict=True):
            (folder / name).write_bytes(side.serialized_model_proto())
        write_marian_weights(folder / WEIGHTS, model, plan, stored)


def read_json_files(directory: Path) -> dict[str, Any]:
    """The JSON files of a directory, once everything that is needed is there."""
    if not directory.is_dir():
        name = directory.as_posix()
        hint = ""
        if re.fullmatch(r"[\w.-]+/[\w.-]+|opus-mt-[\w-]+", name) and not directory.exists():
            hub = name if "/" in name else f"Helsinki-NLP/{name}"
            hint = f"; a model of that name is fetched with: hf download {hub} --local-dir {directory.name}"
        raise ValueError(f"{directory} is not a directory with a model of Hugging Face{hint}")
    needed = ("config.json", "vocab.json", *SENTENCEPIECE_FILES)
    problems = [f"{name} is missing" for name in needed if not (directory / name).is_file()]
    if not (directory / WEIGHTS).is_file():
        problems.append(explain_missing_weights(directory))
    if problems:
        raise ValueError(f"{directory} is not a Marian model that can be imported: {join_problems(problems)}")
    return {name: read_json(directory / name, _LARGEST_JSON) for name in FILES if (directory / name).is_file()}


def explain_missing_weights(directory: Path) -> str:
    """What is missing where there is no model.safetensors, and what to do."""
    if (directory / "model.safetensors.index.json").exists():
        return f"its weights are in several files; load it with transformers and save it as one {WEIGHTS}"
    if (directory / "pytorch_model.bin").exists():
        return (
            f"{WEIGHTS} is missing, and pytorch_model.bin is a pickle, which can run any program when it is opened; "
            'where you trust it, convert it with python -c "from transformers import AutoModelForSeq2SeqLM as M; '
            f"M.from_pretrained('{directory}').save_pretrained('{directory}')\""
        )
    return f"{WEIGHTS} is missing"


def write_json_like_transformers(path: Path, table: Mapping[str, Any]) -> None:
    """As transformers writes its own."""
    path.write_text(json.dumps(table, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def plan_import(files: Mapping[str, Any], where: str) -> ImportPlan:
    """What the JSON files say; ValueError, naming every problem, where no model here can be that."""
    settings, problems = model_arguments(files["config.json"])
    sides, more = read_vocabularies(files)
    problems = list(dict.fromkeys([*problems, *more]))
    if not problems:
        plan = ImportPlan(settings, *sides)
        try:
            plan.config()
        except ValueError as error:
            problems = [str(error)]
        else:
            return plan
    raise ValueError(f"{where} cannot be imported: {join_problems(problems)}")


def files_of_imported(found: Bundle) -> tuple[dict[str, Any], ImportPlan, StoredNames] | None:
    """What an imported model was; None for one that was not imported."""
    if IMPORTED_FILE not in found.manifest.get("files", {}):
        return None
    path = found.directory / IMPORTED_FILE
    table = read_json(path, _LARGEST_JSON)
    files, names, dtype = table.get("files"), table.get("tensors"), table.get("dtype")
    if not isinstance(files, dict) or not all(n in FILES and isinstance(each, dict) for n, each in files.items()):
        raise ValueError(f"{path} does not hold the files of a model")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or str(dtype) not in DTYPES:
        raise ValueError(f"{path} does not say how the weights were stored")
    plan = plan_import({"config.json": {}, **files}, str(path))
    c, tokenizer = found.model.config, found.tokenizer
    if plan.config(positions=c.positions, output_bias=c.output_bias) != c or (
        [tuple(plan.source.names), tuple(plan.target.names)] != [tokenizer.source_names, tokenizer.target_names]
    ):
        raise ValueError(f"{path} does not describe the model beside it")
    return files, plan, StoredNames(tuple(names), str(dtype))


def files_of_ours(found: Bundle) -> tuple[dict[str, Any], ImportPlan, Transformer]:
    """The files and the weights of a model of ours; ValueError, naming every reason, where neither format holds it."""
    config, tokenizer = found.model.config, found.tokenizer
    if problems := explain_unfit(config, tokenizer):
        raise ValueError(f"{found.directory} cannot be exported for transformers: {join_problems(problems)}")
    files = tokenizer_files(config, tokenizer)
    source, target = files["vocab.json"], files.get("target_vocab.json", files["vocab.json"])
    files |= {
        "config.json": transformers_config(config, source, target),
        "generation_config.json": generation_config(config, target),
    }
    plan = plan_import(files, str(found.directory))
    return files, plan, start_with_padding(found.model) if plan.target.copied else found.model


def generation_config(config: ModelConfig, ids: Mapping[str, int]) -> dict[str, Any]:
    """What `generate` of transformers does unless it is told otherwise: a beam of 4, and no piece that ours forbids."""
    forbidden = ("<pad>", "<unk>", START_TOKEN, "<0x0A>")
    return {
        "pad_token_id": ids["<pad>"],
        **({"bos_token_id": ids[START_TOKEN]} if START_TOKEN in ids else {}),
        "eos_token_id": ids["</s>"],
        "decoder_start_token_id": ids.get(START_TOKEN, ids["<pad>"]),
        "bad_words_ids": [[ids[piece]] for piece in forbidden if piece in ids],
        "max_length": config.max_positions,
        "num_beams": 4,
    }
