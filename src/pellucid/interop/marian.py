"""Marian models of Hugging Face, and Pegasus ones, which have their norms before each part: imported and exported."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pellucid import bundle
from pellucid.atomic import listed, read_json, refuse_to_replace, written_whole
from pellucid.bundle import Bundle
from pellucid.interop.marian_config import config_of, model_of, unable
from pellucid.interop.marian_vocabulary import MODELS, START, files_of, tokenizer_of, vocabularies
from pellucid.interop.marian_weights import DTYPES, WEIGHTS, Plan, Stored, read, started_by_padding, usual, write
from pellucid.interop.padded_heads import with_all_heads
from pellucid.model import ModelConfig, Transformer
from pellucid.model.known_parts import unknown_parts

KEPT = "marian.json"
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
    refuse_to_replace(out)
    if out.resolve() == directory.resolve():
        raise ValueError(f"{out} would replace what is imported; choose another place")
    files = read_files(directory)
    plan = understood(files, str(directory))
    tokenizer = tokenizer_of(directory, plan.source, plan.target)
    model, stored = read(directory / WEIGHTS, plan)
    kept = {"files": files, "tensors": stored.names, "dtype": stored.dtype}
    bundle.save(
        out,
        model,
        tokenizer,
        also=lambda folder: write_json(folder / KEPT, kept),
        imported={"from": directory.resolve().name, "format": files["config.json"]["model_type"]},
    )
    return bundle.load(out)


def export_marian(found: Bundle, out: str | Path) -> None:
    """Write a model so that AutoModelForSeq2SeqLM and AutoTokenizer of transformers 5 load it from `out`.

    With norms after each part it becomes a Marian model, with norms before them a Pegasus one; both get a
    MarianTokenizer. A model that was imported becomes what it was. Heads that were removed from some attentions are
    zeros there, for both formats have as many in every layer. Raises ValueError, naming every reason, for a model
    that neither format can hold, before anything is written.
    """
    if unknown := [f"{part}, which neither format knows" for part in unknown_parts(found.model)]:
        raise ValueError(f"{found.directory} cannot be exported for transformers: {listed(unknown)}")
    found = replace(found, model=with_all_heads(found.model))
    if as_imported := kept(found):
        files, plan, stored = as_imported
        model = found.model
    else:
        files, plan, model = described(found)
        stored = usual(model, plan)
    with written_whole(
        out, exported={"from": found.directory.resolve().name, "format": files["config.json"]["model_type"]}
    ) as folder:
        for name, table in files.items():
            write_json(folder / name, table)
        for name, side in zip(MODELS, (found.tokenizer.source, found.tokenizer.target), strict=True):
            (folder / name).write_bytes(side.serialized_model_proto())
        write(folder / WEIGHTS, model, plan, stored)


def read_files(directory: Path) -> dict[str, Any]:
    """The JSON files of a directory, once everything that is needed is there."""
    if not directory.is_dir():
        name = directory.as_posix()
        hint = ""
        if re.fullmatch(r"[\w.-]+/[\w.-]+|opus-mt-[\w-]+", name) and not directory.exists():
            hub = name if "/" in name else f"Helsinki-NLP/{name}"
            hint = f"; a model of that name is fetched with: hf download {hub} --local-dir {directory.name}"
        raise ValueError(f"{directory} is not a directory with a model of Hugging Face{hint}")
    needed = ("config.json", "vocab.json", *MODELS)
    problems = [f"{name} is missing" for name in needed if not (directory / name).is_file()]
    if not (directory / WEIGHTS).is_file():
        problems.append(without_weights_file(directory))
    if problems:
        raise ValueError(f"{directory} is not a Marian model that can be imported: {listed(problems)}")
    return {name: read_json(directory / name, _LARGEST_JSON) for name in FILES if (directory / name).is_file()}


def without_weights_file(directory: Path) -> str:
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


def write_json(path: Path, table: Mapping[str, Any]) -> None:
    """As transformers writes its own."""
    path.write_text(json.dumps(table, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def understood(files: Mapping[str, Any], where: str) -> Plan:
    """What the JSON files say; ValueError, naming every problem, where no model here can be that."""
    settings, problems = model_of(files["config.json"])
    sides, more = vocabularies(files)
    problems = list(dict.fromkeys([*problems, *more]))
    if not problems:
        plan = Plan(settings, *sides)
        try:
            plan.config()
        except ValueError as error:
            problems = [str(error)]
        else:
            return plan
    raise ValueError(f"{where} cannot be imported: {listed(problems)}")


def kept(found: Bundle) -> tuple[dict[str, Any], Plan, Stored] | None:
    """What an imported model was; None for one that was not imported."""
    if KEPT not in found.manifest.get("files", {}):
        return None
    path = found.directory / KEPT
    table = read_json(path, _LARGEST_JSON)
    files, names, dtype = table.get("files"), table.get("tensors"), table.get("dtype")
    if not isinstance(files, dict) or not all(n in FILES and isinstance(each, dict) for n, each in files.items()):
        raise ValueError(f"{path} does not hold the files of a model")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or str(dtype) not in DTYPES:
        raise ValueError(f"{path} does not say how the weights were stored")
    plan = understood({"config.json": {}, **files}, str(path))
    c, tokenizer = found.model.config, found.tokenizer
    if plan.config(positions=c.positions, output_bias=c.output_bias) != c or (
        [tuple(plan.source.names), tuple(plan.target.names)] != [tokenizer.source_names, tokenizer.target_names]
    ):
        raise ValueError(f"{path} does not describe the model beside it")
    return files, plan, Stored(tuple(names), str(dtype))


def described(found: Bundle) -> tuple[dict[str, Any], Plan, Transformer]:
    """The files and the weights of a model of ours; ValueError, naming every reason, where neither format holds it."""
    config, tokenizer = found.model.config, found.tokenizer
    if problems := unable(config, tokenizer):
        raise ValueError(f"{found.directory} cannot be exported for transformers: {listed(problems)}")
    files = files_of(config, tokenizer)
    source, target = files["vocab.json"], files.get("target_vocab.json", files["vocab.json"])
    files |= {"config.json": config_of(config, source, target), "generation_config.json": generation(config, target)}
    plan = understood(files, str(found.directory))
    return files, plan, started_by_padding(found.model) if plan.target.copied else found.model


def generation(config: ModelConfig, ids: Mapping[str, int]) -> dict[str, Any]:
    """What `generate` of transformers does unless it is told otherwise: a beam of 4, and no piece that ours forbids."""
    forbidden = ("<pad>", "<unk>", START, "<0x0A>")
    return {
        "pad_token_id": ids["<pad>"],
        **({"bos_token_id": ids[START]} if START in ids else {}),
        "eos_token_id": ids["</s>"],
        "decoder_start_token_id": ids.get(START, ids["<pad>"]),
        "bad_words_ids": [[ids[piece]] for piece in forbidden if piece in ids],
        "max_length": config.max_positions,
        "num_beams": 4,
    }
