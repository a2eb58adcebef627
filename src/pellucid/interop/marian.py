"""Imports and exports Hugging Face's Marian models, and Pegasus ones, which are pre-norm."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.interop.marian_files import (
    SENTENCEPIECE_FILES,
    START_TOKEN,
    explain_unfit,
    load_marian_tokenizer,
    model_arguments,
    read_vocabularies,
    tokenizer_files,
    transformers_config,
)
from pellucid.interop.marian_weights import (
    DTYPES,
    WEIGHTS,
    ImportPlan,
    read_marian_weights,
    start_with_padding,
    usual_names,
    write_marian_weights,
)
from pellucid.model import ModelConfig, Transformer
from pellucid.model.known_parts import unknown_parts
from pellucid.store.atomic import (
    atomic_directory,
    join_problems,
    read_json,
    refuse_non_model_directory,
)
from pellucid.store.directory import Bundle, load_bundle, save_bundle
from pellucid.store.foreign_models import explain_foreign_model
from pellucid.store.manifest_checks import make_showable

# File of a model directory that keeps the JSON files of an imported model, so that they can be
# exported again.
_IMPORTED_FILE = "marian.json"

JSON_FILES = (
    "config.json",
    "vocab.json",
    "target_vocab.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
)
# Bytes of the largest JSON file that is read: a vocabulary is larger than any such file of a model
# directory.
_LARGEST_JSON = 32 * 2**20

# A name that ends in two languages; longer codes, as in opus-mt-en-roa, may stand for a whole
# family.
_OPUS_LANGUAGES = re.compile(r"opus-mt-(?:[\w-]+-)?([a-z]{2})-([a-z]{2})")


def import_marian(directory: str | Path, out: str | Path, name: str | None = None) -> Bundle:
    """Read a Marian or Pegasus model with its MarianTokenizer, write it as a model directory, and load that.

    `name` is the model's name, by default the name of the directory;
    one like opus-mt-en-es tells the languages.

    Logits and pieces equal those in transformers. No pickle is opened, and no file outside
    `directory`. Raises ValueError, naming every problem, for a model that cannot be represented,
    before anything is written.
    """
    directory, out = Path(directory), Path(out)
    refuse_non_model_directory(out)
    if out.resolve() == directory.resolve():
        raise ValueError(f"{out} would replace what is imported; choose another directory")

    files = read_json_files(directory)
    plan = _plan_import(files, str(directory))
    tokenizer = load_marian_tokenizer(directory, plan.source, plan.target)
    model, names, dtype = read_marian_weights(directory / WEIGHTS, plan)

    name = name or directory.resolve().name
    languages = _OPUS_LANGUAGES.fullmatch(name.rpartition("/")[2])

    # So that an export gives back the very files, names and precision.
    origin = {"files": files, "tensors": names, "dtype": dtype}
    save_bundle(
        out,
        model,
        tokenizer,
        also=lambda folder: _write_json_like_transformers(folder / _IMPORTED_FILE, origin),
        imported={"from": make_showable(name), "format": files["config.json"]["model_type"]},
        **({"languages": {"source": languages[1], "target": languages[2]}} if languages else {}),
    )
    return load_bundle(out)


def export_marian(loaded: Bundle, out: str | Path) -> None:
    """Write a model so that AutoModelForSeq2SeqLM and AutoTokenizer of transformers 5 load it from `out`.

    A post-norm model becomes a Marian model, a pre-norm one a Pegasus model; both get a
    MarianTokenizer. A model that was imported becomes what it was. Raises ValueError, naming every
    reason, for a model that neither format can hold, before anything is written.
    """
    unknown = [f"{part}, which neither format knows" for part in unknown_parts(loaded.model)]
    if loaded.tokenizer.languages:
        unknown.append(
            "it is multilingual, and neither tokenizer would tell it which language to write"
        )

    if unknown:
        raise ValueError(
            f"{loaded.directory} cannot be exported for transformers: {join_problems(unknown)}"
        )

    if imported_files := _files_of_imported(loaded):
        files, plan, names, dtype = imported_files
        model = loaded.model
    else:
        files, plan, model = _files_of_ours(loaded)
        names, dtype = usual_names(model, plan), "F32"

    kind = files["config.json"]["model_type"]
    exported = {"from": loaded.directory.resolve().name, "format": kind}
    sides = loaded.tokenizer.source, loaded.tokenizer.target
    with atomic_directory(out, exported=exported) as folder:
        for name, table in files.items():
            _write_json_like_transformers(folder / name, table)
        for name, side in zip(SENTENCEPIECE_FILES, sides, strict=True):
            (folder / name).write_bytes(side.serialized_model_proto())
        write_marian_weights(folder / WEIGHTS, model, plan, names, dtype)


def read_json_files(directory: Path) -> dict[str, Any]:
    """Return the JSON files of a directory; ValueError, naming everything that is missing, for an incomplete one."""
    if not directory.is_dir():
        if foreign := explain_foreign_model(directory):
            raise ValueError(foreign)
        name = directory.as_posix()
        hint = ""
        if re.fullmatch(r"[\w.-]+/[\w.-]+|opus-mt-[\w-]+", name) and not directory.exists():
            hub = name if "/" in name else f"Helsinki-NLP/{name}"
            command = f"hf download {hub} --local-dir {directory.name}"
            hint = f"; to download a model of that name: {command}"
        raise ValueError(f"{directory} is not a directory with a model of Hugging Face{hint}")

    needed = ("config.json", "vocab.json", *SENTENCEPIECE_FILES)
    problems = [f"{name} is missing" for name in needed if not (directory / name).is_file()]
    if not (directory / WEIGHTS).is_file():
        problems.append(_explain_missing_weights(directory))

    if problems:
        if foreign := explain_foreign_model(directory):
            raise ValueError(foreign)
        raise ValueError(
            f"{directory} is not a Marian model that can be imported: {join_problems(problems)}"
        )

    tables = {}
    for name in JSON_FILES:
        if (directory / name).is_file():
            tables[name] = read_json(directory / name, _LARGEST_JSON)
    return tables


def _explain_missing_weights(directory: Path) -> str:
    """Explain why a directory has no model.safetensors, and what to do about it."""
    if (directory / "model.safetensors.index.json").exists():
        return f"its weights are in several files; load it with transformers and save it as one {WEIGHTS}"
    if (directory / "pytorch_model.bin").exists():
        return (
            f"{WEIGHTS} is missing, and pytorch_model.bin is a pickle, which can run any program when it is opened; "
            'where you trust it, convert it with python -c "from transformers import AutoModelForSeq2SeqLM as M; '
            f"M.from_pretrained('{directory}').save_pretrained('{directory}')\""
        )
    return f"{WEIGHTS} is missing"


def _write_json_like_transformers(path: Path, table: Mapping[str, Any]) -> None:
    """Write a JSON file in the layout of transformers."""
    path.write_text(json.dumps(table, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _plan_import(files: Mapping[str, Any], where: str) -> ImportPlan:
    """Make the plan of an import from the JSON files; ValueError, naming every problem, for models that do not fit."""
    settings, problems = model_arguments(files["config.json"])
    sides, vocabulary_problems = read_vocabularies(files)
    problems = list(dict.fromkeys([*problems, *vocabulary_problems]))
    if not problems:
        plan = ImportPlan(settings, *sides)
        try:
            plan.config()  # which checks the numbers against one another
        except ValueError as error:
            problems = [str(error)]
        else:
            return plan
    raise ValueError(f"{where} cannot be imported: {join_problems(problems)}")


def _files_of_imported(loaded: Bundle) -> tuple[dict[str, Any], ImportPlan, list[str], str] | None:
    """Return the files, plan, stored names and precision of an imported model; None for one that was not imported."""
    if _IMPORTED_FILE not in loaded.manifest.get("files", {}):
        return None
    path = loaded.directory / _IMPORTED_FILE
    table = read_json(path, _LARGEST_JSON)

    files, names, dtype = table.get("files"), table.get("tensors"), table.get("dtype")
    if not isinstance(files, dict) or not set(files) <= set(JSON_FILES):
        raise ValueError(f"{path} does not hold the files of a model")
    if not all(isinstance(content, dict) for content in files.values()):
        raise ValueError(f"{path} does not hold the files of a model")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{path} does not say how the weights were stored")
    if str(dtype) not in DTYPES:
        raise ValueError(f"{path} does not say how the weights were stored")

    # The file may have been edited or copied from another model, so it is checked like an import.
    plan = _plan_import({"config.json": {}, **files}, str(path))
    c, tokenizer = loaded.model.config, loaded.tokenizer
    planned = plan.config(positions=c.positions, output_bias=c.output_bias)
    names_planned = tuple(plan.source.names), tuple(plan.target.names)
    if planned != c or names_planned != (tokenizer.source_names, tokenizer.target_names):
        raise ValueError(f"{path} does not describe the model beside it")
    return files, plan, names, str(dtype)


def _files_of_ours(loaded: Bundle) -> tuple[dict[str, Any], ImportPlan, Transformer]:
    """Make the files and weights of an export; ValueError, naming every reason, if neither format fits the model."""
    config, tokenizer = loaded.model.config, loaded.tokenizer
    if problems := explain_unfit(config, tokenizer):
        raise ValueError(
            f"{loaded.directory} cannot be exported for transformers: {join_problems(problems)}"
        )

    files = tokenizer_files(config, tokenizer)
    source, target = files["vocab.json"], files.get("target_vocab.json", files["vocab.json"])
    files |= {
        "config.json": transformers_config(config, source, target),
        "generation_config.json": generation_config(config, target),
    }
    plan = _plan_import(files, str(loaded.directory))
    return files, plan, start_with_padding(loaded.model) if plan.target.copied else loaded.model


def generation_config(config: ModelConfig, ids: Mapping[str, int]) -> dict[str, Any]:
    """Return the defaults for `generate` of transformers: a beam of 4, and the pieces that Pellucid forbids."""
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
