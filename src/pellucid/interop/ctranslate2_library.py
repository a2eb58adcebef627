"""The installed CTranslate2 library, and the precision of a directory converted for it; needs no torch."""

import json
from pathlib import Path
from types import ModuleType

from pellucid.store.atomic import read_manifest

PRECISIONS = ("float32", "bfloat16", "int8")

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
