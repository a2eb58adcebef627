"""Which engine translates: torch, or CTranslate2 where that is installed and gives the same text."""

from pathlib import Path

from pellucid.bundle import Bundle
from pellucid.decode.ct2 import CTranslate2Engine
from pellucid.decode.engines import Engine, TorchEngine
from pellucid.interop.ctranslate2 import installed

ENGINES = ("auto", "torch", "ctranslate2")
PRECISIONS = {"torch": ("float32", "bfloat16"), "ctranslate2": ("float32", "bfloat16", "int8")}


def choose(engine: str, precision: str, found: Bundle, torch: TorchEngine, exported: Path | None = None) -> Engine:
    """The engine that was asked for, in this precision; "auto" takes CTranslate2 where that changes no text.

    That is in float32, for one model that CTranslate2 can hold; and in int8, which it alone has. `exported` is a
    directory that `pellucid export --to ctranslate2` wrote, instead of a conversion of the model. ValueError for what
    cannot be had, with the reason.
    """
    refuse(engine, precision, exported, several=len(torch.models) > 1)
    if engine == "torch" or (engine == "auto" and (precision == "bfloat16" or len(torch.models) > 1)):
        return torch
    if exported is not None:
        return CTranslate2Engine(exported, found.tokenizer, torch, shortlist=(exported / "vmap.txt").exists())
    try:
        return CTranslate2Engine.of(found, torch, precision)
    except ValueError:
        if engine == "auto" and precision == "float32":
            return torch
        raise


def refuse(engine: str, precision: str, exported: Path | None, several: bool) -> None:
    """ValueError for what does not go together."""
    every = sorted({each for some in PRECISIONS.values() for each in some})
    problems = []
    if engine not in ENGINES:
        problems.append(f"engine is {engine!r}, it must be one of {', '.join(ENGINES)}")
    elif precision not in PRECISIONS.get(engine, every):
        problems.append(f"precision is {precision!r}, it must be one of {', '.join(PRECISIONS.get(engine, every))}")
    if engine == "ctranslate2" or precision == "int8" or exported is not None:
        installed()
    if several and (engine == "ctranslate2" or precision == "int8" or exported is not None):
        problems.append("several models translate together with engine = 'torch' only, in float32 or bfloat16")
    if exported is not None and engine == "torch":
        problems.append(f"{exported} was exported for CTranslate2; leave it out, or take engine = 'ctranslate2'")
    if problems:
        raise ValueError("; ".join(problems))
