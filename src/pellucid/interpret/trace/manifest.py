"""The manifest of a trace: everything the page draws, by name, with the source line of each tensor."""

import inspect
import linecache
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.cpu import give_way
from pellucid.interpret.trace.operations import Operation, operations
from pellucid.interpret.trace.trace import TraceData, axis_sizes, tensor_dims, tensor_shape
from pellucid.model import ModelConfig
from pellucid.model.glossary import LEGEND, TensorRow, glossary
from pellucid.store.weights import model_without_storage

FORMAT, VERSION = "pellucid-trace", 1

# Facts that have their own place in the manifest, or none.
_FACTS_ELSEWHERE = {
    "id",
    "model",
    "run",
    "text",
    "piece_log_probs",
    "translation_notes",
    "alarms",
    "grade",
}


def build_manifest(trace: TraceData) -> dict[str, Any]:
    """Build the `Manifest` of web/src/types.ts, ready for JSON, with None for the checks, which were not made yet."""
    facts = asdict(trace.facts)
    fixed = {
        "mode": "eval",
        "dropout": "off",
        "capture": trace.facts.run.dtype,
        "bytes": trace.nbytes,
    }
    size = axis_sizes(trace.config, len(trace.source.ids), len(trace.inputs.ids))
    made_by, edited = operations(trace.config), trace.replaced

    # For each letter its meaning, its length, and the pieces along S and T.
    axes = {}
    for letter, means in LEGEND.items():
        if letter == "B":  # a trace is of one sentence
            continue
        axes[letter] = {"means": means, "size": size[letter]}
        if letter in trace.labels:
            axes[letter]["labels"] = trace.labels[letter]

    tensors = []
    for row in glossary(trace.config):
        is_edited = row.name in edited
        tensors.append(_tensor_row(trace, row, size, made_by[row.name], is_edited))

    # The weights, each once, as `named_parameters` has them.
    parameters = []
    for name, parameter in trace.model.named_parameters():
        parameters.append({"name": name, "shape": list(parameter.shape), "captured": True})

    return {
        "format": FORMAT,
        "version": VERSION,
        "id": facts["id"],
        "model": facts["model"],
        "run": {**facts["run"], **fixed},
        **{key: value for key, value in facts.items() if key not in _FACTS_ELSEWHERE},
        "axes": axes,
        "tensors": tensors,
        "parameters": parameters,
        "checks": None,
    }


def _tensor_row(
    trace: TraceData, row: TensorRow, size: Mapping[str, int], operation: Operation, is_edited: bool
) -> dict[str, Any]:
    """Return the row of one tensor, with the least and largest of its finite numbers where it was captured."""
    give_way()
    entry: dict[str, Any] = {
        "name": row.name,
        "dims": list(tensor_dims(row)),
        "shape": tensor_shape(row, size),
        "means": row.means,
        "of": row.of,
        "op": operation.as_json(),
        "captured": row.name in trace,
        "dtype": "bool" if row.name.endswith(".allowed") else "float32",
        "code": asdict(source_line_of(row.name, trace.config)),
    }
    if is_edited:
        entry["edited"] = True
    if row.name in trace:
        values, allowed = trace.values_of(row.name), f"{row.name.removesuffix('.scores')}.allowed"
        # Scores of keys that may not be read are captured too, but no softmax uses them.
        if row.name.endswith(".scores") and allowed in trace:
            values = values[np.broadcast_to(trace.values_of(allowed), values.shape)]
        values = values[np.isfinite(values)]
        if values.size:
            entry |= {"least": float(values.min()), "largest": float(values.max())}

    return entry


PACKAGE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class _SourceLine:
    """A line of the installed source, as `SourceLine` of web/src/types.ts.

    Its file is named from the package down.
    """

    file: str
    line: int
    text: str
    before: tuple[str, ...] = ()  # the statements just above it, at most two


def source_line_of(name: str, config: ModelConfig) -> _SourceLine:
    """Return the line where a model of this config shows a tensor.

    Raises KeyError for a name that it does not have.

    >>> config = ModelConfig(8000, 8000, d_model=128, d_ff=256, heads=4, encoder_layers=4, decoder_layers=4)
    >>> code = source_line_of("decoder.3.cross.pattern", config)
    >>> code.file, code.text
    ('model/attention.py', 'pattern = watch("pattern", masked_softmax(scores, watch("allowed", allowed)))')
    """
    layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    layer = re.match(r"(encoder|decoder)\.(\d+)\.", name)
    if layer is not None and int(layer[2]) >= layers[layer[1]]:
        raise KeyError(
            f"{name!r}: the {layer[1]} has {layers[layer[1]]} layers, the first is number 0"
        )

    # Sizes and depth do not decide which lines run, so the smallest model of the same structure is
    # asked; configs that differ in sizes alone then share one entry of the cache.
    sizes = {"source_vocabulary": 5, "target_vocabulary": 5, "d_model": 2, "d_ff": 1, "heads": 1}
    depth = {"encoder_layers": 1, "decoder_layers": 1, "max_positions": 2}
    lines = _source_lines(replace(config, **sizes, **depth))
    return lines[re.sub(r"^(encoder|decoder)\.\d+\.", r"\1.0.", name)]


@cache
def _source_lines(config: ModelConfig) -> Mapping[str, _SourceLine]:
    """Return the source line of every tensor that a model of this config shows, by running one."""
    layers = config.encoder_layers + config.decoder_layers
    model = model_without_storage(config, tensors=layers).eval()
    # Drawing weights would change the state of torch's
    # random generator; no number is looked at here.
    for name, weight in list(model.named_parameters()):
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, nn.Parameter(torch.zeros(weight.shape)))

    pieces = torch.ones(1, 2, dtype=torch.int64)
    listener = _CallerRecorder()
    with torch.inference_mode():
        model(pieces, pieces, watch=listener)
    return MappingProxyType(listener.lines)  # read-only, since the cache hands it to every caller


def _statements_above(file: str, line: int) -> tuple[str, ...]:
    """Return at most two lines above a line that stand in its block and are a statement each.

    Comments are skipped.
    """
    indent = re.match(r"\s*", linecache.getline(file, line))
    above: list[str] = []
    for number in range(line - 1, 0, -1):
        text = linecache.getline(file, number).rstrip()
        if len(above) == 2 or not indent or '"""' in text:
            break
        if not re.fullmatch(indent[0] + r"[\w#].*[^:]", text):
            break
        if not text.lstrip().startswith("#"):
            above.insert(0, text.strip())

    return tuple(above)


class _CallerRecorder:
    """A watcher that notes the line from which it was called."""

    seeing = True

    def __init__(self, prefix: str = "", lines: dict[str, _SourceLine] | None = None):
        self.prefix = prefix
        self.lines: dict[str, _SourceLine] = {} if lines is None else lines

    def __call__(self, name: str, value: Tensor) -> Tensor:
        frame = inspect.currentframe()
        assert frame is not None and frame.f_back is not None
        # One frame back is the line of the model that said watch(name, value).
        file, line = frame.f_back.f_code.co_filename, frame.f_back.f_lineno
        path = Path(file).resolve().relative_to(PACKAGE).as_posix()
        self.lines[self.prefix + name] = _SourceLine(
            path, line, linecache.getline(file, line).strip(), _statements_above(file, line)
        )
        return value

    def within(self, part: str) -> "_CallerRecorder":
        return _CallerRecorder(f"{self.prefix}{part}.", self.lines)
