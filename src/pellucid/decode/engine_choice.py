"""Which engine translates: torch, or CTranslate2 where that is installed and gives the same text."""

import re
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.atomic import verify_directory
from pellucid.decode.ctranslate2_engine import CTranslate2Engine, count_processors
from pellucid.decode.request import Engine
from pellucid.decode.translate import Translator
from pellucid.interop import ctranslate2_library
from pellucid.interop.ctranslate2_library import VOCABULARY_MAP, import_ctranslate2, precision_of
from pellucid.lazy_bundle import LazyBundle

if TYPE_CHECKING:
    from pellucid.bundle import Bundle

ENGINES = ("auto", "torch", "ctranslate2")
PRECISIONS = {"torch": ("float32", "bfloat16"), "ctranslate2": ctranslate2_library.PRECISIONS}


def choose_engine(
    engine: str,
    precision: str,
    bundle: "Bundle | LazyBundle",
    translator: Translator,
    exported: Path | None = None,
    workers: int | None = None,
) -> Engine:
    """The engine that was asked for, for the translator of a model; "auto": CTranslate2 where that changes no text.

    That is in float32, for one model that CTranslate2 can hold; and in int8, which it alone has. `exported` is a
    directory that `pellucid export --to ctranslate2` wrote, instead of a conversion of the model, with the precision
    and the shortlist it has. ValueError for what cannot be had, with the reason.

    `workers` translate a batch each, by default one on each processor. A single worker has all processors: that is
    quicker for one sentence at a time, except in int8, where CTranslate2's threads are in each other's way.
    """
    refuse_engine_options(engine, precision, exported, several=translator.is_ensemble)
    if engine == "torch" or (engine == "auto" and (precision == "bfloat16" or translator.is_ensemble)):
        return translator.torch
    torch = translator.bounds, lambda: translator.torch
    if exported is not None:
        require_export_of(exported, bundle)
        precision = precision_of(exported)
    hands = {"workers": workers, "threads": count_processors() if workers == 1 and precision != "int8" else 1}
    try:
        if exported is not None:
            hands["shortlist"] = (exported / VOCABULARY_MAP).exists()
            taken = CTranslate2Engine(exported, bundle.tokenizer, *torch, **hands)
        else:
            taken = CTranslate2Engine.for_bundle(bundle, *torch, precision, **hands)
    except ValueError as error:
        if engine == "auto" and precision == "float32" and exported is None:
            if find_spec("ctranslate2"):
                warnings.warn(f"torch translates, for {error}", stacklevel=3)
            return translator.torch
        raise
    translator.threads = taken.threads
    return taken


def refuse_engine_options(
    engine: str, precision: str, exported: Path | None, several: bool, device: str = "cpu"
) -> None:
    """ValueError for what does not go together, and for a device that is not there."""
    every = sorted({each for some in PRECISIONS.values() for each in some})
    problems = []
    if engine not in ENGINES:
        problems.append(f"engine is {engine!r}, it must be one of {', '.join(ENGINES)}")
    elif precision not in PRECISIONS.get(engine, every):
        problems.append(f"precision is {precision!r}, it must be one of {', '.join(PRECISIONS.get(engine, every))}")
    of_ctranslate2 = engine == "ctranslate2" or precision == "int8" or exported is not None
    if device != "cpu":
        problems += device_problems(device)
        if of_ctranslate2:
            problems.append(f"CTranslate2 is run on the CPU here; on {device} take engine = 'torch', without an export")
    if of_ctranslate2:
        import_ctranslate2()
    if exported is not None and precision not in ("float32", precision_of(exported)):
        problems.append(
            f"{exported} is of precision {precision_of(exported)}, not {precision}; leave the precision out"
        )
    if several and of_ctranslate2:
        problems.append("several models translate together with engine = 'torch' only, in float32 or bfloat16")
    if exported is not None and engine == "torch":
        problems.append(f"{exported} was exported for CTranslate2; leave it out, or take engine = 'ctranslate2'")
    if problems:
        raise ValueError("; ".join(problems))


def device_problems(device: str) -> list[str]:
    """What is wrong with a device, if anything."""
    import torch

    if not re.fullmatch(r"cuda(:\d+)?", device):
        return [f"device is {device!r}, it must be cpu, cuda, or one of several GPUs such as cuda:1"]
    there = torch.cuda.device_count()
    if int(device.partition(":")[2] or 0) < there:
        return []
    found = f"{there or 'no'} CUDA device{'s' * (there > 1)}"
    return [f"device is {device!r}, and torch finds {found} here; leave it out to use the CPU"]


def require_export_of(exported: Path, bundle: "Bundle | LazyBundle") -> None:
    """ValueError unless a directory is whole and was exported from this very model."""
    origin = verify_directory(exported).get("exported")
    if not isinstance(origin, dict) or origin.get("sha256") != bundle.manifest["sha256"]:
        raise ValueError(
            f"{exported} was not exported from {bundle.directory} as it is now; make it anew: "
            f"pellucid export {bundle.directory} {exported} --to ctranslate2"
        )
