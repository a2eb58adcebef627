"""Packs a model converted for CTranslate2 as a package that Argos Translate and LibreTranslate install."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.data.tokenizer import Tokenizer
from pellucid.store.atomic import MANIFEST, atomic_file, read_manifest, require_writable

_README = """\
{from_name} to {to_name}, exported by Pellucid from {model} (SHA-256 of its manifest: {sha256}).

    {install}
    argos-translate --from-lang {from_code} --to-lang {to_code} "..."
"""

# Argos Translate that decodes byte pieces, and splits sentences without a model inside the package.
_ARGOS_VERSION = "1.10"


def install_command(file: str) -> str:
    """Return the command that installs a package; argospm only knows those of its index."""
    return f'python -c "from argostranslate import package; package.install_from_path({file!r})"'


def refuse_unfit_for_argos(tokenizer: Tokenizer, out: Path) -> None:
    """Raise ValueError, naming every reason, for a model or a path of which no package for Argos can be made."""
    require_writable(out)
    problems = []
    if out.suffix != ".argosmodel":
        problems.append(f"{out} must end in .argosmodel, by which Argos Translate knows its packages")
    if tokenizer.lowercase:
        problems.append("the model reads lower case only, and Argos Translate does not make its text lower case")
    if tokenizer.languages:
        problems.append("the model is multilingual, and Argos Translate would not tell it which language to write")
    if problems:
        raise ValueError("; ".join(problems))


def write_argos_package(converted: Path, tokenizer: Tokenizer, out: Path, languages: Mapping[str, str]) -> None:
    """Write the package, whole or not at all.

    `converted` is an export of the model to CTranslate2, beside which the package is put together; `languages` has the
    entries from_code, from_name, to_code and to_name of its description.
    """
    origin = read_manifest(converted)["exported"]
    readme = _README.format(
        **languages, model=origin["from"], sha256=origin["sha256"], install=install_command(out.name)
    )
    metadata = {"package_version": "1.0", "argos_version": _ARGOS_VERSION, **languages, "pellucid": origin}
    folder = f"translate-{languages['from_code']}_{languages['to_code']}-1_0"
    package = converted.with_name(f"{converted.name}.zip")
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{folder}/metadata.json", _to_json(metadata))
        archive.writestr(f"{folder}/README.md", readme)
        # One model for both sides: Argos cuts the source with it, and pieces that it does not know are joined as text.
        archive.writestr(f"{folder}/sentencepiece.model", tokenizer.source.serialized_model_proto())
        for path in sorted(converted.iterdir()):
            if path.name == "config.json":
                # Argos hands over the pieces of the text, without the end of the sentence.
                config = {**json.loads(path.read_bytes()), "add_source_eos": True}
                archive.writestr(f"{folder}/model/{path.name}", _to_json(config))
            elif path.name != MANIFEST:
                archive.write(path, f"{folder}/model/{path.name}")
    with atomic_file(out) as write:
        write(package.read_bytes())


def _to_json(table: Mapping[str, Any]) -> str:
    return json.dumps(table, ensure_ascii=False, indent=2) + "\n"
