"""Every tensor follows from its inputs, and a wrong formula anywhere is found out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pellucid.interpret.trace import Record
from pellucid.interpret.trace.operations import (
    ACTIVATIONS,
    Operation,
    operations,
    recompute,
    recompute_sinusoids,
    recompute_softmax,
)
from pellucid.model import Transformer, attention
from tests.model.models import every_option, sentences, small_model

SOURCE, TARGET = sentences([11]), sentences([7], seed=2)
IDS = {"source": SOURCE[0].tolist(), "target": TARGET[0].tolist()}


def capture_tensors(model: Transformer) -> dict[str, np.ndarray]:
    record = Record()
    with torch.inference_mode():
        model(SOURCE, TARGET, watch=record)
    return {name: (x if name.endswith(".positions") else x[0]).numpy() for name, x in record.items()}


def relative_error(model: Transformer, tensors: dict[str, np.ndarray], name: str, operation: Operation) -> float:
    """Distance of a tensor from the result of its operation, relative to its largest number; 1 if shapes do not fit."""
    inputs = [tensors[input_name] for input_name in operation.inputs]
    try:
        recomputed = recompute(operation, inputs, parameters(model), IDS, tensors[name].shape)
    except (ValueError, TypeError):  # shapes that do not go together
        return 1.0
    return float(np.abs(recomputed - tensors[name]).max() / np.abs(tensors[name]).max())


def parameters(model: Transformer):
    return lambda name: model.get_parameter(name).detach().numpy()


def wrong_tensors(model: Transformer, tensors: dict[str, np.ndarray], limit: float) -> set[str]:
    """Last parts of the names of the tensors that do not follow from their inputs."""
    graph = operations(model.config).items()
    return {name.rpartition(".")[2] for name, op in graph if not relative_error(model, tensors, name, op) <= limit}


@every_option
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str)
def test_every_tensor_follows_from_its_inputs(options, dtype, limit):
    model = small_model(**options).to(dtype)
    assert wrong_tensors(model, capture_tensors(model), limit) == set()


@pytest.mark.parametrize("options", [{"activation": "silu"}, {"output_bias": True, "tie": "decoder", "norm": "post"}])
def test_every_tensor_follows_from_its_inputs_with_rare_options(options):
    model = small_model(**options)
    assert wrong_tensors(model, capture_tensors(model), 1e-12) == set()


@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_every_change_to_an_operation_is_found_out(norm, positions):
    """Each field of each operation is changed in turn, and the tensor no longer follows from its inputs."""
    model = small_model(norm=norm, positions=positions, activation="gelu", tie="none", output_bias=True)
    tensors = capture_tensors(model)
    graph = operations(model.config)
    tried = 0
    for name, operation in graph.items():
        for mutant in mutate_operation(operation, model):
            assert relative_error(model, tensors, name, mutant) > 1e-6, (name, operation, mutant)
            tried += 1
    assert tried > 3 * len(graph)


def mutate_operation(operation: Operation, model: Transformer) -> list[Operation]:
    """Copies of an operation with one change: another weight or none, another block, another number, a flag turned."""
    fields = operation.as_json()
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    changes: dict[str, list[Any]] = {
        **{field: similar_weights(fields[field], shapes) for field in ("weight", "bias", "table") if fields.get(field)},
        **{field: [fields[field] ** 2, 1.0] for field in ("scale", "divisor") if field in fields},
        "eps": [1e-3],
        "first": [block for block in (0, 30, 60) if block != operation.first] if operation.split else [],
        "split": [False] if operation.split else [],
        "merged": [False] if operation.merged else [],
        "turned": [not operation.turned] if operation.split else [],
        "side": ["target" if operation.side == "source" else "source"],
        "function": ["relu", "silu"],
        "inputs": [(tensor_name,) for tensor_name in operation.inputs] if operation.kind == "add" else [],
    }
    field_names = {"split", "merged", "turned", *fields}
    changed = [
        replace(operation, **{field: value})
        for field, values in changes.items()
        if field in field_names
        for value in values
    ]
    return [*changed, replace(operation, bias=None)] if fields.get("bias") and operation.kind == "linear" else changed


def similar_weights(name: str, shapes: Mapping[str, torch.Size]) -> list[str]:
    """Up to three other weights of the same shape."""
    return [other for other in shapes if other != name and shapes[other] == shapes[name]][:3]


def test_heads_split_along_the_wrong_axis_are_found_out(monkeypatch):
    monkeypatch.setattr(
        attention.Attention,
        "split",
        lambda self, x, parts: x.view(*x.shape[:2], parts, -1, self.heads).permute(2, 0, 4, 1, 3).unbind(),
    )
    model = small_model()
    assert wrong_tensors(model, capture_tensors(model), 1e-10) == {"q", "k", "v"}


def test_heads_merged_along_the_wrong_axis_are_found_out(monkeypatch):
    monkeypatch.setattr(
        attention.Attention,
        "merge",
        lambda self, z, watch: watch("output", self.output(z.permute(0, 2, 3, 1).flatten(2))),
    )
    model = small_model()
    assert wrong_tensors(model, capture_tensors(model), 1e-10) == {"output"}


def test_swapped_queries_and_keys_are_found_out():
    model = small_model()
    tensors = capture_tensors(model)
    name = "encoder.0.self.products"  # as long as it is wide: its shape says nothing
    tensors[name] = tensors[name].swapaxes(1, 2)
    assert wrong_tensors(model, tensors, 1e-10) == {"products", "scores"}


def test_a_scale_that_is_wrong_is_found_out():
    model = small_model()
    tensors = capture_tensors(model)
    for name in tensors:
        if name.endswith(".scores"):
            tensors[name] = tensors[name] * 10**0.5 / 30**0.5
    assert wrong_tensors(model, tensors, 1e-10) == {"scores", "pattern"}


def test_a_mask_that_is_missing_is_found_out(monkeypatch):
    monkeypatch.setattr(attention, "masked_softmax", lambda scores, allowed: scores.softmax(dim=-1))
    model = small_model()
    assert wrong_tensors(model, capture_tensors(model), 1e-10) == {"pattern"}


def test_a_mask_that_lets_the_future_through_is_found_out(monkeypatch):
    monkeypatch.setattr(
        "pellucid.model.masks.causal_mask", lambda q, k: torch.ones(1, 1, len(q), len(k), dtype=torch.bool)
    )
    model = small_model()
    assert wrong_tensors(model, capture_tensors(model), 1e-10) == {"allowed"}


def test_sinusoids_are_those_of_the_paper():
    table = recompute_sinusoids(50, 512)
    assert table[3, 2] == pytest.approx(np.sin(3 / 10000 ** (2 / 512)), abs=1e-7)
    assert table[49, 511] == pytest.approx(np.cos(49 / 10000 ** (510 / 512)), abs=1e-7)
    assert np.array_equal(table[0], [0.0, 1.0] * 256)


def test_softmax_is_exact_where_the_scores_are_large_and_where_nothing_may_be_read():
    scores = np.array([[1000.0, 1000.0 + np.log(3.0), 2000.0], [5.0, 6.0, 7.0]])
    allowed = np.array([[True, True, False], [False, False, False]])
    np.testing.assert_allclose(recompute_softmax(scores, allowed), [[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]], atol=1e-12)


def test_activations_have_the_values_computed_by_hand():
    x = np.array([-1.0, 0.0, 2.0])
    assert ACTIVATIONS["relu"](x).tolist() == [0.0, 0.0, 2.0]
    np.testing.assert_allclose(ACTIVATIONS["gelu"](x), [-0.15865525393, 0.0, 1.9544997361], atol=1e-10)  # normal table
    np.testing.assert_allclose(ACTIVATIONS["silu"](x), [-1 / (1 + np.e), 0.0, 2 / (1 + np.exp(-2.0))], atol=1e-12)
    np.testing.assert_allclose(ACTIVATIONS["swiglu"](np.array([2.0, 3.0])), [6 / (1 + np.exp(-2.0))], atol=1e-12)
    with np.errstate(all="raise", under="ignore"):
        assert np.abs(ACTIVATIONS["silu"](np.array([-1e4, 1e4])) - [0.0, 1e4]).max() < 1e-9
