"""CTranslate2 as it is installed, and what a directory made for it says of itself; without torch."""

from pathlib import Path
from types import ModuleType

from pellucid.atomic import read_manifest

PRECISIONS = ("float32", "bfloat16", "int8")

VOCABULARY_MAP = "vmap.txt"
"""The name under which CTranslate2 looks for a lexical shortlist."""


def precision_of(directory: Path) -> str:
    """The precision `convert` wrote this directory in; ValueError for one it did not write."""
    precision = read_manifest(directory).get("precision")
    if precision not in PRECISIONS:
        raise ValueError(f"{directory} is not a model converted for CTranslate2")
    return precision


def import_ctranslate2() -> ModuleType:
    """CTranslate2; ValueError, saying how to get it, where it is not installed."""
    try:
        import ctranslate2
    except ImportError as error:
        raise ValueError(
            f"CTranslate2 cannot be used here ({error}); install it: pip install 'pellucid[ctranslate2]'"
        ) from None
    return ctranslate2
