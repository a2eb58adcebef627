"""A trace on disk: facts as JSON and tensors as safetensors, written whole, read as a stranger's."""

import json
from dataclasses import asdict, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from pellucid.atomic import MANIFEST, atomic_directory, join_problems, read_json, resolve_directory, verify_directory
from pellucid.lazy_bundle import dataclass_from_json
from pellucid.model import ModelConfig
from pellucid.model.glossary import glossary
from pellucid.trace.capture import axis_sizes, tensor_shape
from pellucid.trace.facts import TraceFacts
from pellucid.trace.facts_check import facts_problems
from pellucid.trace.json_types import from_json
from pellucid.trace.manifest import parameter_shapes

if TYPE_CHECKING:
    from pellucid.trace.trace import Trace

FACTS, TENSORS = "trace.json", "tensors.safetensors"
VERSION = 1
_LARGEST_FACTS = 2**25
_MOST_LAYERS = 200
_TYPES = {"float32": "F32", "float64": "F64"}


def save_trace(trace: "Trace", path: str | Path) -> None:
    """Write a trace, whole or not at all. ValueError for a place where something other than a trace stands."""
    refuse_non_trace_directory(Path(path))
    said = {"trace": VERSION, "config": asdict(trace.config), "facts": asdict(trace.facts)}
    text = json.dumps(said, ensure_ascii=False, allow_nan=False)
    with atomic_directory(path, trace=VERSION) as folder:
        (folder / FACTS).write_text(text + "\n", encoding="utf-8")
        save_file({name: trace.values_of(name) for name in trace}, folder / TENSORS)


def refuse_non_trace_directory(place: Path) -> None:
    """ValueError for a file, a model, and any directory that is neither empty nor a trace."""
    if place.is_file():
        raise ValueError(f"{place} is a file; a trace needs a directory of its own")
    if place.is_dir() and any(place.iterdir()) and not (place / FACTS).is_file():
        raise ValueError(f"{place} holds other things than a trace and is not replaced; choose another place")


def load_trace(path: str | Path) -> "Trace":
    """A trace as `save_trace` wrote it. ValueError, naming the problems, for anything that is not one or does not hold
    together; nothing is allocated before its size is known to be right.
    """
    from pellucid.trace.trace import Trace

    place = resolve_directory(path)
    if not (place / MANIFEST).is_file() or not (place / FACTS).is_file():
        raise ValueError(f"{path} is not a saved trace; that is a directory with {FACTS} and {TENSORS} in it")
    try:
        verify_directory(place, needed=(FACTS, TENSORS))
    except ValueError as error:
        raise ValueError(f"{str(error).partition('; restore')[0]}; save the trace again") from None
    said = read_json(place / FACTS, _LARGEST_FACTS)
    if said.get("trace") != VERSION:
        raise ValueError(f"{place / FACTS} is of version {said.get('trace')!r:.60}, this program reads {VERSION}")
    config = read_traced_config(said.get("config"), str(place / FACTS))
    facts = from_json(TraceFacts, said.get("facts"), "facts")
    facts = replace(facts, model=replace(facts.model, config=asdict(config)))
    count = sum(map(prod, parameter_shapes(config).values()))
    problems = facts_problems(facts, config)
    if facts.model.parameters != count:
        problems.append(f"the model has {facts.model.parameters:,} parameters, its config makes {count:,}")
    if problems:
        raise ValueError(f"{place / FACTS} does not hold together: {join_problems(problems)}")
    return Trace(facts, config, read_tensors(place / TENSORS, facts, config))


def read_traced_config(table: Any, where: str) -> ModelConfig:
    """The sizes of the model, small enough to be listed."""
    config = dataclass_from_json(ModelConfig, table, f"{where}, config")
    if config.encoder_layers + config.decoder_layers > _MOST_LAYERS:
        raise ValueError(f"{where}: more than {_MOST_LAYERS:,} layers are no model that was traced")
    return config


def read_tensors(path: Path, facts: TraceFacts, config: ModelConfig) -> dict[str, np.ndarray]:
    """The tensors in the order of computation, once each has a name, a shape and a type that this model gives it."""
    size = axis_sizes(config, len(facts.source.ids), len(facts.inputs.ids))
    shapes = {row.name: tensor_shape(row, config, size) for row in glossary(config)}
    try:
        with safe_open(path, framework="np") as stored:
            found = {name: stored.get_slice(name) for name in stored.keys()}  # noqa: SIM118  (it is no mapping)
            problems = [f"{name!r:.60} is no tensor of this model" for name in found if name not in shapes]
            for name in shapes.keys() & found.keys():
                kind = "BOOL" if name.endswith(".allowed") else _TYPES.get(facts.run.dtype)
                came = found[name].get_dtype(), list(found[name].get_shape())
                if came != (kind, shapes[name]):
                    problems.append(f"{name} is {came[0]} {came[1]}, expected {kind} {shapes[name]}")
            if problems:
                raise ValueError(
                    f"{path} and {FACTS} beside it are not of one trace: {join_problems(sorted(problems))}"
                )
            return {name: stored.get_tensor(name) for name in shapes if name in found}
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from None
