"""Packages of Argos Translate (.argosmodel): a model of CTranslate2, its SentencePiece model and its languages."""

import json
import shutil
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from pellucid.data.tokenizer import Tokenizer
from pellucid.interop.ctranslate2 import README
from pellucid.interop.ctranslate2_import import import_ctranslate2_model
from pellucid.store.atomic import (
    MANIFEST,
    atomic_file,
    join_problems,
    read_json,
    read_manifest,
    refuse_non_model_directory,
    require_writable,
)
from pellucid.store.directory import Bundle
from pellucid.store.foreign_models import list_archive

_METADATA, _PIECE_MODEL, _SUBWORD_MODEL = "metadata.json", "sentencepiece.model", "bpe.model"
_MODEL_FILES = (
    "model.bin",
    "config.json",
    "shared_vocabulary.json",
    "shared_vocabulary.txt",
    "source_vocabulary.json",
    "source_vocabulary.txt",
    "target_vocabulary.json",
    "target_vocabulary.txt",
)
# Weights hardly shrink in an archive: one that unpacks to so many times its size is no model.
_MOST_EXPANSION = 20


def is_argos_package(path: Path) -> bool:
    """Whether a path is a package of Argos Translate, as a file or unpacked."""
    if path.is_dir():
        return (path / _METADATA).is_file() and (path / "model" / "model.bin").is_file()
    return path.suffix == ".argosmodel" or _find_root(path) is not None


def import_argos_package(package: str | Path, out: str | Path) -> Bundle:
    """Read a package of Argos Translate, as a file or unpacked, write its model as a model directory, and load that.

    The model translates the pieces that Argos would hand to CTranslate2; how Argos parts a text
    into sentences is not part of the package, and Pellucid's own rules part it. Raises ValueError,
    naming every problem, for a package that holds no such model, before anything is written.
    """
    package, out = Path(package), Path(out)
    refuse_non_model_directory(out)

    if package.is_dir():
        return _import_unpacked(package, out, package)
    with TemporaryDirectory() as temporary:
        _unpack(package, Path(temporary))
        return _import_unpacked(Path(temporary), out, package)


def _import_unpacked(folder: Path, out: Path, package: Path) -> Bundle:
    metadata = read_json(folder / _METADATA)
    problems = []
    if (kind := metadata.get("type", "translate")) != "translate":
        problems.append(f"its type is {kind!r:.60}, and only packages that translate are imported")

    languages = {
        "source": str(metadata.get("from_code", "")),
        "target": str(metadata.get("to_code", "")),
    }
    if not all(languages.values()):
        problems.append(f"it does not name one language to read and one to write in {_METADATA}")
    if prefix := metadata.get("target_prefix"):
        problems.append(
            f"each translation is to begin with {prefix!r:.60}, as in models of several languages"
        )

    if not (folder / _PIECE_MODEL).is_file():
        has_subwords = (folder / _SUBWORD_MODEL).is_file()
        instead = f", and {_SUBWORD_MODEL}, of subword-nmt, is not read" if has_subwords else ""
        problems.append(f"it has no {_PIECE_MODEL}{instead}")

    if problems:
        raise ValueError(f"{package} cannot be imported: {join_problems(problems)}")

    try:
        return import_ctranslate2_model(
            folder / "model",
            out,
            piece_model=folder / _PIECE_MODEL,
            languages=languages,
            caller_ends_sources=False,  # Argos hands over the pieces of the text alone
            **{"from": package.resolve().name, "format": "argos"},
        )
    except ValueError as error:
        # The folder is gone when somebody reads the sentence.
        raise ValueError(str(error).replace(str(folder / "model"), f"{package}, model")) from None


def _find_root(package: Path) -> PurePosixPath | None:
    """Return the folder in the archive that holds the package; None for another archive."""
    names = set(list_archive(package) or ())
    for name in sorted(names):
        path = PurePosixPath(name)
        if path.name == _METADATA and str(path.parent / "model" / "model.bin") in names:
            return path.parent
    return None


def _unpack(package: Path, folder: Path) -> None:
    """Write the files of a package that are needed under names of our own, not under the archive's names."""
    root = _find_root(package)
    if root is None:
        raise ValueError(
            f"{package} is no whole package of Argos Translate: it is no ZIP archive with {_METADATA} and "
            "model/model.bin; download it again"
        )

    (folder / "model").mkdir()
    wanted = [_METADATA, _PIECE_MODEL, _SUBWORD_MODEL, *(f"model/{name}" for name in _MODEL_FILES)]

    try:
        with zipfile.ZipFile(package) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            members = {name: str(root / name) for name in wanted if str(root / name) in sizes}
            unpacked = sum(sizes[member] for member in members.values())
            packed = package.stat().st_size
            if unpacked > _MOST_EXPANSION * packed:
                raise ValueError(
                    f"{package} has {packed:,} bytes and unpacks to {unpacked:,}, more than any model would"
                )
            for name, member in members.items():
                with archive.open(member) as content, (folder / name).open("wb") as file:
                    shutil.copyfileobj(content, file)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise ValueError(f"{package} is damaged ({error!s:.100}); download it again") from None


_ARGOS_README = """\
{from_name} to {to_name}, exported by Pellucid from {model} (SHA-256 of its manifest: {sha256}).

    {install}
    argos-translate --from-lang {from_code} --to-lang {to_code} "..."
"""

# Argos Translate that decodes byte pieces, and splits sentences without a model inside the package.
_ARGOS_VERSION = "1.10"


def install_command(file: str) -> str:
    """Return the command that installs the package in a file; argospm only knows the packages of its index."""
    return f'python -c "from argostranslate import package; package.install_from_path({file!r})"'


def refuse_unfit_for_argos(tokenizer: Tokenizer, out: Path) -> None:
    """Raise ValueError with every reason why no Argos package can be made of a model, or written to a path."""
    require_writable(out)
    problems = []
    if out.suffix != ".argosmodel":
        problems.append(
            f"{out} must end in .argosmodel, by which Argos Translate knows its packages"
        )
    if tokenizer.lowercase:
        problems.append(
            "the model reads lower case only, and Argos Translate does not make its text lower case"
        )
    if tokenizer.languages:
        problems.append(
            "the model is multilingual, and Argos Translate would not tell it which language to write"
        )

    if problems:
        raise ValueError("; ".join(problems))


def write_argos_package(
    converted: Path, tokenizer: Tokenizer, out: Path, languages: Mapping[str, str]
) -> int:
    """Write the package, whole or not at all, and return its bytes.

    `converted` is an export of the model to CTranslate2, beside which the package is put together;
    `languages` has the entries from_code, from_name, to_code and to_name of its description.
    """
    origin = read_manifest(converted)["exported"]
    readme = _ARGOS_README.format(
        **languages,
        model=origin["from"],
        sha256=origin["sha256"],
        install=install_command(out.name),
    )

    metadata = {
        "package_version": "1.0",
        "argos_version": _ARGOS_VERSION,
        **languages,
        "pellucid": origin,
    }
    folder = f"translate-{languages['from_code']}_{languages['to_code']}-1_0"

    package = converted.with_name(f"{converted.name}.zip")
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{folder}/metadata.json", _to_json(metadata))
        archive.writestr(f"{folder}/README.md", readme)
        # One model for both sides: Argos cuts the source with it, and pieces
        # that it does not know are joined as text.
        archive.writestr(f"{folder}/sentencepiece.model", tokenizer.source.serialized_model_proto())
        for path in sorted(converted.iterdir()):
            if path.name not in (MANIFEST, README, *tokenizer.files(tokenizer.config)):
                archive.write(path, f"{folder}/model/{path.name}")

    with atomic_file(out) as write:
        write(package.read_bytes())
    return package.stat().st_size


def _to_json(table: Mapping[str, Any]) -> str:
    return json.dumps(table, ensure_ascii=False, indent=2) + "\n"
