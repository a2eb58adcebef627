"""Chooses the engine that translates: torch, or CTranslate2 where it is installed and gives the same text."""

import re
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pellucid.cpu import count_threads_of_product
from pellucid.decode.request import Engine
from pellucid.decode.translator import Translator
from pellucid.interop import ctranslate2_library
from pellucid.interop.ctranslate2_engine import CTranslate2Engine
from pellucid.interop.ctranslate2_library import (
    GPU_PRECISIONS,
    VOCABULARY_MAP,
    import_ctranslate2,
    precision_of,
    split_device,
)
from pellucid.store.atomic import verify_directory
from pellucid.store.directory import Bundle

ENGINES = ("auto", "torch", "ctranslate2")
PRECISIONS = {
    "torch": ("float32", "bfloat16"),
    "ctranslate2": (*ctranslate2_library.PRECISIONS, *GPU_PRECISIONS),
}


def choose_engine(
    engine: str,
    precision: str,
    bundle: Bundle,
    translator: Translator,
    exported: Path | None = None,
    workers: int | None = None,
    device: str = "cpu",
) -> Engine:
    """Return the engine that was asked for; "auto" takes CTranslate2 where that changes no text.

    That is in float32, for one model that CTranslate2 can hold; and in the precisions that only
    CTranslate2 has: int8 and, on a GPU, float16 and int8_float16. `exported` is a directory that
    `pellucid export --to ctranslate2` wrote: it takes the place of a conversion of the model, and
    decides on the precision and the shortlist. `workers` translate a batch each, by default one on
    each processor, and one on a GPU (`device`). Raises ValueError, with the reason,
    for an engine that cannot be had.
    """
    refuse_engine_options(engine, precision, exported, translator.models.is_ensemble, device)
    only_torch_can = precision == "bfloat16" or translator.models.is_ensemble
    if engine == "torch" or (engine == "auto" and only_torch_can):
        return translator.torch

    # A function, so that torch is imported only when a request needs it. It holds the models and
    # not the translator, which holds the engine: in a cycle, models that a server has replaced
    # would stay in memory until Python looks for cycles.
    models = translator.models
    bounds_and_fallback = translator.bounds, lambda: models.engine

    if exported is not None:
        _require_export_of(exported, bundle)
        precision = precision_of(exported)

    # A single worker has all processors: that is quicker for one sentence at a time, except in
    # int8, where CTranslate2's threads are in each other's way.
    threads = count_threads_of_product() if workers == 1 and precision != "int8" else 1
    options: dict[str, Any] = {"workers": workers, "threads": threads, "device": device}
    try:
        if exported is not None:
            options["shortlist"] = (exported / VOCABULARY_MAP).exists()
            chosen = CTranslate2Engine(exported, bundle.tokenizer, *bounds_and_fallback, **options)
        else:
            options["precision"] = precision
            chosen = CTranslate2Engine.for_bundle(bundle, *bounds_and_fallback, **options)
    except ValueError as error:
        if engine == "auto" and precision == "float32" and exported is None:
            # Without CTranslate2 torch is the normal way, and nothing to warn of.
            if find_spec("ctranslate2"):
                reason = f"translating with torch, because {error}"
                warnings.warn(reason, stacklevel=4)  # the caller of `load`
            return translator.torch
        raise
    if device == "cpu":
        models.threads = chosen.threads
    return chosen


def refuse_engine_options(
    engine: str, precision: str, exported: Path | None, is_ensemble: bool, device: str = "cpu"
) -> None:
    """Raise ValueError for options that do not go together, and for a device that is not there."""
    all_precisions = sorted({*PRECISIONS["torch"], *PRECISIONS["ctranslate2"]})
    its_precisions = PRECISIONS.get(engine, all_precisions)
    if device == "cpu" and precision not in GPU_PRECISIONS:
        its_precisions = [name for name in its_precisions if name not in GPU_PRECISIONS]
    problems = []
    if engine not in ENGINES:
        problems.append(f"engine is {engine!r}, it must be one of {', '.join(ENGINES)}")
    elif precision not in its_precisions:
        problems.append(
            f"precision is {precision!r}, it must be one of {', '.join(its_precisions)}"
        )

    only_ctranslate2_has = (
        precision in PRECISIONS["ctranslate2"] and precision not in PRECISIONS["torch"]
    )
    needs_ctranslate2 = engine == "ctranslate2" or only_ctranslate2_has or exported is not None
    if device != "cpu":
        problems += _device_problems(device)
    elif precision in GPU_PRECISIONS:
        problems.append(
            f"precision is {precision}, which only a GPU computes in; name it as the device: cuda"
        )

    if needs_ctranslate2:
        # This raises ValueError, with the command to install it, where it is missing.
        import_ctranslate2()

    if exported is not None and precision not in ("float32", precision_of(exported)):
        problems.append(
            f"{exported} is of precision {precision_of(exported)}, not {precision}; leave the "
            "precision out"
        )
    if is_ensemble and needs_ctranslate2:
        problems.append(
            "several models translate together with engine = 'torch' only, in float32 or bfloat16"
        )
    if exported is not None and engine == "torch":
        problems.append(
            f"{exported} was exported for CTranslate2; leave it out, or take engine = 'ctranslate2'"
        )

    if problems:
        raise ValueError("; ".join(problems))


def _device_problems(device: str) -> list[str]:
    """Return what is wrong with the name of a device; nothing for a device that can be used."""
    import torch

    if not re.fullmatch(r"cuda(:\d+)?", device):
        return [
            f"device is {device!r}, it must be cpu, cuda, or one of several GPUs such as cuda:1"
        ]

    count = torch.cuda.device_count()
    _, number = split_device(device)
    if number < count:
        return []
    available = f"{count or 'no'} CUDA device{'s' * (count > 1)}"
    return [f"device is {device!r}, and torch finds {available} here; leave it out to use the CPU"]


def _require_export_of(exported: Path, bundle: Bundle) -> None:
    """Raise ValueError unless a directory is intact and was exported from exactly this model."""
    # The checksum, not the path: a model that was trained further has the same path.
    origin = verify_directory(exported).get("exported")
    if not isinstance(origin, dict) or origin.get("sha256") != bundle.manifest["sha256"]:
        raise ValueError(
            f"{exported} was not exported from {bundle.directory} as it is now; export it again: "
            f"pellucid export {bundle.directory} {exported} --to ctranslate2"
        )
