"""The manifest of a trace: everything the page draws, by name."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.model import ModelConfig
from pellucid.model.glossary import LEGEND, TensorRow, glossary
from pellucid.trace.capture import axis_sizes, tensor_dims, tensor_shape
from pellucid.trace.checks.graph import operations
from pellucid.trace.checks.source_lines import source_line_of
from pellucid.weights import model_without_storage

if TYPE_CHECKING:
    from pellucid.trace.trace import Trace

FORMAT, VERSION = "pellucid-trace", 1


def build_manifest(trace: "Trace") -> dict[str, Any]:
    """Build the `Manifest` of web/src/types.ts, ready for JSON."""
    facts = trace.facts
    fact_table = asdict(facts)
    fact_names = (
        "sentence",
        "source",
        "target",
        "inputs",
        "forced",
        "stop",
        "log_prob",
        "score",
        "notes",
        "edits",
        "steps",
        "tree",
    )
    fixed = {"mode": "eval", "dropout": "off", "capture": facts.run.dtype, "bytes": trace.nbytes}
    return {
        "format": FORMAT,
        "version": VERSION,
        "id": facts.id,
        "model": fact_table["model"],
        "run": {**fact_table["run"], **fixed},
        **{key: fact_table[key] for key in fact_names},
        "axes": axis_table(trace),
        "tensors": tensor_rows(trace),
        "parameters": parameter_rows(trace),
        "checks": [check.as_json() for check in trace.checks()],
    }


def axis_table(trace: "Trace") -> dict[str, dict[str, Any]]:
    """Return for each letter its meaning, its length, and the pieces along S and T."""
    size = axis_sizes(trace.config, len(trace.source.ids), len(trace.inputs.ids))
    labels = trace.labels
    return {
        letter: {"means": means, "size": size[letter], **({"labels": labels[letter]} if letter in labels else {})}
        for letter, means in LEGEND.items()
        if letter != "B"  # a trace is of one sentence, and its tensors have no such axis
    }


def tensor_rows(trace: "Trace") -> list[dict[str, Any]]:
    """Return a row for each tensor of the glossary, captured or not."""
    size = axis_sizes(trace.config, len(trace.source.ids), len(trace.inputs.ids))
    operation_of = operations(trace.config)
    return [tensor_row(trace, row, size, operation_of[row.name].as_json()) for row in glossary(trace.config)]


def tensor_row(trace: "Trace", row: TensorRow, size: dict[str, int], op: dict[str, Any]) -> dict[str, Any]:
    """Return the row of one tensor, with the least and largest of its numbers where it was captured."""
    dims = tensor_dims(row)
    entry = {
        "name": row.name,
        "dims": list(dims),
        "shape": tensor_shape(row, size),
        "means": row.means,
        "of": row.of,
        "op": op,
        "captured": row.name in trace,
        "dtype": "bool" if row.name.endswith(".allowed") else "float32",
        "code": source_line_of(row.name, trace.config).as_json(),
    }
    if row.name in trace.replaced:
        entry["edited"] = True
    if row.name in trace:
        entry |= finite_extremes(trace, row.name)
    return entry


def finite_extremes(trace: "Trace", name: str) -> dict[str, float]:
    """Return the least and largest finite number of a tensor; of scores, only where a query may read."""
    values = trace.values_of(name)
    allowed = f"{name.removesuffix('.scores')}.allowed"
    # Scores of keys that may not be read are captured too, but no softmax uses them.
    if name.endswith(".scores") and allowed in trace:
        values = values[np.broadcast_to(trace.values_of(allowed), values.shape)]
    values = values[np.isfinite(values)]
    if not values.size:
        return {}
    return {"least": float(values.min()), "largest": float(values.max())}


def parameter_rows(trace: "Trace") -> list[dict[str, Any]]:
    """Return the names and shapes of the weights, each once, as `named_parameters` has them."""
    captured = trace.model is not None
    shapes = parameter_shapes(trace.config)
    return [{"name": name, "shape": shape, "captured": captured} for name, shape in shapes.items()]


def parameter_shapes(config: ModelConfig) -> dict[str, list[int]]:
    """Return the shape of each weight of a model of this config; ValueError for sizes that no machine holds."""
    if config.positions != "learned":
        config = replace(config, max_positions=2)  # position tables that are computed are no parameters
    model = model_without_storage(config, tensors=config.encoder_layers + config.decoder_layers)
    return {name: list(parameter.shape) for name, parameter in model.named_parameters()}
