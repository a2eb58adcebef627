"""Models of other programs: says what a file or directory of one is, and how it becomes a model of Pellucid."""

import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from shlex import quote

# The array in which Marian keeps a model's settings, beside its weights.
_MARIAN_SETTINGS = "special:model.yml.npy"
# Version, length, kind.
_CTRANSLATE2_HEAD = re.compile(rb"[\1-\x40]\0\0\0.\0[A-Za-z0-9]{1,56}Spec\0", re.DOTALL)
_CTRANSLATE2_VOCABULARY = re.compile(r"(?:shared|source|target)_vocabulary\.(?:json|txt)")
_HUB_EXAMPLE = "pellucid import Helsinki-NLP/opus-mt-en-es OUT"

_KINDS_BY_SUFFIX = {
    ".pt": "a file of PyTorch, a pickle, which can run any program when it is opened",
    ".pth": "a file of PyTorch, a pickle, which can run any program when it is opened",
    ".ckpt": "a checkpoint of another program, a pickle, which can run any program when it is opened",
    ".onnx": "a model in ONNX, which holds a computation and not the parts of a Transformer",
    ".gguf": "a model in GGUF, for llama.cpp",
}


def explain_foreign_model(path: Path) -> str | None:
    """Say in one sentence which other program made a model, and how to convert it; None where that is not known.

    Nothing is unpacked or loaded: only names, and the first bytes of a file, are looked at.
    """
    if path.is_dir():
        return _explain_directory(path)
    return _explain_file(path) if path.is_file() else None


def _explain_directory(directory: Path) -> str | None:
    names = {entry.name for entry in directory.iterdir()}

    if (directory / "model" / "model.bin").is_file() and "metadata.json" in names:
        advice = _advise_on_import(directory)
        return f"{directory} is a package of Argos Translate, unpacked; {advice}"

    if "model.bin" in names:
        has_vocabulary = any(map(_CTRANSLATE2_VOCABULARY.fullmatch, names))
        if has_vocabulary or _has_ctranslate2_head(directory / "model.bin"):
            of_others = "" if "manifest.json" in names else " that pellucid did not export"
            advice = _advise_on_import(directory)
            return f"{directory} is a model of CTranslate2{of_others}; {advice}"

    if "config.json" in names and any(name.endswith(".spm") for name in names):
        return None  # as Hugging Face transformers saves it; other files may lie beside
    if any(_is_intgemm(name) for name in names):
        return _explain_intgemm(directory)

    archives = (directory / name for name in sorted(names) if name.endswith(".npz"))
    if any(_is_marian_settings(name) for name in names) or any(map(_is_marian_archive, archives)):
        advice = _advise_on_marian(str(directory), names)
        return f"{directory} is a model in Marian's own format; {advice}"
    return None


def _explain_file(path: Path) -> str | None:
    members = list_archive(path)
    names = {Path(member).name for member in members or ()}

    if path.suffix == ".argosmodel" and members is None:
        return (
            f"{path} is named like a package of Argos Translate, but is no ZIP archive; download it "
            "again"
        )
    if path.suffix == ".argosmodel" or {"metadata.json", "model.bin"} <= names:
        return f"{path} is a package of Argos Translate; {_advise_on_import(path)}"

    if _MARIAN_SETTINGS in names or _is_marian_settings(path.name):
        beside = {entry.name for entry in path.parent.iterdir()}
        what = "the weights" if members else "the settings"
        advice = _advise_on_marian(str(path.parent), beside)
        return f"{path} has {what} of a model in Marian's own format; {advice}"

    if any(map(_is_marian_settings, names)):
        unpacked = path.with_suffix("")
        advice = _advise_on_marian(str(unpacked), names)
        unpacking = f"unpack it (unzip {quote(str(path))} -d {quote(str(unpacked))})"
        return f"{path} is a packed model in Marian's own format; {unpacking}, and {advice}"

    if _is_intgemm(path.name) or any(map(_is_intgemm, names)):
        return _explain_intgemm(path)
    if "model.bin" in names:
        unpacked = path.with_suffix("")
        advice = _advise_on_import(unpacked)
        unpacking = f"unpack it (unzip {quote(str(path))} -d {quote(str(unpacked))})"
        return f"{path} is a packed model of CTranslate2; {unpacking} and {advice}"

    if _has_ctranslate2_head(path):
        return f"{path} has the weights of a model of CTranslate2; {_advise_on_import(path.parent)}"
    if kind := _KINDS_BY_SUFFIX.get(path.suffix):
        return (
            f"{path} is {kind}, and is not read; pellucid imports Marian models of Hugging Face in safetensors, such "
            f"as {_HUB_EXAMPLE}"
        )
    return None


def _advise_on_marian(directory: str, names: Iterable[str]) -> str:
    """Say how a model in Marian's own format, with files of these names, becomes one that can be imported."""
    endings = {Path(name).suffix for name in names}
    if ".bpe" in endings and ".spm" not in endings:
        return (
            "its pieces are those of subword-nmt (.bpe), which cannot be converted; look for a model of these "
            f"languages with source.spm and target.spm, or take one of the Hub, such as {_HUB_EXAMPLE}"
        )
    return (
        "convert it with convert_marian_to_pytorch.py from the source code of transformers (python "
        f"convert_marian_to_pytorch.py --src {quote(directory)} --dest NEW), then: pellucid import NEW OUT; or take "
        f"one that is on the Hub in that form, such as {_HUB_EXAMPLE}"
    )


def _advise_on_import(path: Path) -> str:
    return f"make a model of Pellucid of it: pellucid import {quote(str(path))} OUT"


def _explain_intgemm(path: Path) -> str:
    return (
        f"{path} is a model of Firefox or Bergamot, whose weights were rounded to bytes (intgemm) and cannot be "
        f"converted back; take the model that it was made of, or one of the Hub, such as {_HUB_EXAMPLE}"
    )


def _is_marian_settings(name: str) -> bool:
    return name == "decoder.yml" or name.endswith((".decoder.yml", ".npz.yml"))


def _is_marian_archive(path: Path) -> bool:
    return _MARIAN_SETTINGS in (list_archive(path) or ())


def _has_ctranslate2_head(path: Path) -> bool:
    with path.open("rb") as file:
        return _CTRANSLATE2_HEAD.match(file.read(64)) is not None


def _is_intgemm(name: str) -> bool:
    return ".intgemm" in name and name.endswith((".bin", ".bin.gz", ".bin.zst"))


def list_archive(path: Path) -> list[str] | None:
    """Return the names of what a ZIP archive holds (Marian's .npz is one, too); None for any other file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return None
