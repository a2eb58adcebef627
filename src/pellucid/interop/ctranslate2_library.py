"""The installed CTranslate2 library, and the precision of a directory converted for it; needs no torch."""

import ctypes
import json
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from pellucid.store.atomic import read_manifest

PRECISIONS = ("float32", "bfloat16", "int8")

# What only a GPU computes in, and the precision of the directory whose weights it reads: CTranslate2
# changes them when it loads them.
GPU_PRECISIONS = {"float16": "float32", "int8_float16": "int8"}

VOCABULARY_MAP = "vmap.txt"  # name of the file in which CTranslate2 looks for a lexical shortlist


def precision_of(directory: Path) -> str:
    """Return the precision of a converted directory; ValueError for a directory that was not converted."""
    precision = read_manifest(directory).get("precision")
    if precision not in PRECISIONS:
        raise ValueError(f"{directory} is not a model converted for CTranslate2")
    return precision


def adds_source_end(directory: Path) -> bool:
    """Return whether CTranslate2 itself ends each source of a converted model with EOS; older exports do not say so."""
    config = json.loads((directory / "config.json").read_bytes())
    return config.get("add_source_eos") is True


def import_ctranslate2() -> ModuleType:
    """Import and return CTranslate2; ValueError with the command to install it where it is missing."""
    try:
        import ctranslate2
    except ImportError as error:
        raise ValueError(
            f"CTranslate2 cannot be used here ({error}); install it: pip install 'pellucid[ctranslate2]'"
        ) from None
    return ctranslate2


def split_device(device: str) -> tuple[str, int]:
    """Return the name of a device as CTranslate2 takes it, and the number of a GPU, which is 0 for the first.

    >>> split_device("cuda:1"), split_device("cpu")
    (('cuda', 1), ('cpu', 0))
    """
    name, _, number = device.partition(":")
    return name, int(number or 0)


def load_cublas() -> None:
    """Load NVIDIA's matrix library where pip installed it, since CTranslate2 looks in the system's folders only.

    CTranslate2 opens `libcublas.so.12` by its name when it first multiplies matrices on a GPU; a
    library of that name that the process has loaded already is the one that it gets. Nothing is
    loaded where the package `nvidia-cublas-cu12` is not installed.
    """
    with suppress(ModuleNotFoundError):  # of `nvidia`, the package around it
        package = find_spec("nvidia.cublas")
        folders = [] if package is None else package.submodule_search_locations or []
        for folder in folders:
            # The first one is what the second is linked with.
            for name in ("libcublasLt.so.12", "libcublas.so.12"):
                with suppress(OSError):
                    ctypes.CDLL(str(Path(folder) / "lib" / name), mode=ctypes.RTLD_GLOBAL)
