"""Every row of the glossary has an operation, made from tensors above it and from weights of the model."""

import re
from pathlib import Path

import pytest
from torch import nn

from pellucid.interpret.trace.operations import FIELDS_OF_KIND, Operation, operations
from pellucid.model.glossary import glossary
from tests.model.models import EVERY_FORMULA, every_option, small_config, small_model

OPTIONS = [*EVERY_FORMULA, {"activation": "silu", "output_bias": True}, {"tie": "none", "output_bias": True}]
with_all_options = pytest.mark.parametrize("options", OPTIONS, ids=[" ".join(map(str, o.values())) for o in OPTIONS])
TYPES = Path(__file__).parents[2] / "web" / "src" / "types.ts"
NORM = nn.LayerNorm | nn.RMSNorm
LEAVES = {"lookup", "sinusoid", "row", "present", "causal"}


@with_all_options
def test_every_row_of_the_glossary_has_its_operation_in_the_same_order(options):
    config = small_config(**options)
    assert list(operations(config)) == [row.name for row in glossary(config)]


@with_all_options
def test_every_operation_reads_tensors_above_it_or_nothing(options):
    above = set()
    for name, operation in operations(small_config(**options)).items():
        assert above.issuperset(operation.inputs), name
        assert (not operation.inputs) == (operation.kind in LEAVES), name
        above.add(name)


@with_all_options
def test_every_tensor_but_the_logits_is_read_by_a_later_one(options):
    graph = operations(small_config(**options))
    read_names = {name for operation in graph.values() for name in operation.inputs}
    assert set(graph) - read_names == {"logits"}


@with_all_options
def test_the_operations_use_exactly_the_weights_of_the_model(options):
    """A weight that several operations share is listed once, under its name among the parameters."""
    used = {
        name
        for operation in operations(small_config(**options)).values()
        for name in (operation.table, operation.weight, operation.bias)
        if name
    }
    assert used == {name for name, _ in small_model(**options).named_parameters()}


@with_all_options
def test_norms_have_the_epsilon_of_the_model(options):
    model = small_model(**options)
    norms = {name: op for name, op in operations(model.config).items() if op.kind == "norm"}
    for operation in norms.values():
        module = model.get_submodule(operation.weight.removesuffix(".weight"))
        assert isinstance(module, NORM)
        assert operation.eps == module.eps
    assert len(norms) == sum(isinstance(module, NORM) for module in model.modules())


def test_operations_have_the_numbers_of_the_config():
    graph = operations(small_config(positions="rotary", norm="post"))
    assert graph["decoder.embedding"].scale ** 2 == pytest.approx(30)
    assert graph["decoder.1.cross.scores"].divisor ** 2 == pytest.approx(10)
    assert [graph[f"decoder.1.self.{name}"].first for name in "qkv"] == [0, 30, 60]
    assert [graph[f"decoder.1.self.{name}"].turned for name in "qkv"] == [True, True, False]
    assert not any(graph[f"decoder.1.cross.{name}"].turned for name in "qkv")
    assert graph["memory"] == Operation("same", ("encoder.0.ffn_residual.norm",))


@pytest.fixture(scope="module")
def op_fields() -> dict[str, dict[str, bool]]:
    """The fields of each kind of `Op` in types.ts, and whether a field must be there."""
    text = TYPES.read_text(encoding="utf-8")
    union = text[text.index("export type Op =") : text.index("export interface TensorRow")]
    union = re.sub(r"/\*.*?\*/", "", union, flags=re.DOTALL)
    shapes = re.findall(r"\{(.*?)\}", union, flags=re.DOTALL)
    fields = [dict(re.findall(r"(\w+)(\??):", shape)) for shape in shapes]
    kinds = [re.findall(r'kind: "(\w+)"', shape)[0] for shape in shapes]
    return {
        kind: {field: not optional for field, optional in kind_fields.items()}
        for kind, kind_fields in zip(kinds, fields, strict=True)
    }


def test_the_page_knows_exactly_the_kinds_of_operation(op_fields):
    assert set(op_fields) == set(FIELDS_OF_KIND)


@every_option
def test_as_json_has_the_fields_that_the_page_reads(options, op_fields):
    for name, operation in operations(small_config(**options)).items():
        row, fields = operation.as_json(), op_fields[operation.kind]
        assert set(row) <= set(fields), name
        assert {field for field, needed in fields.items() if needed} <= set(row), name
        assert row.get("inputs", []) == list(operation.inputs)
        assert all(row[field] is True for field in row if not fields[field])


def test_as_json_holds_the_fields_of_the_operation():
    graph = operations(small_config(tie="all", positions="rotary"))
    assert graph["logits"].as_json() == {
        "kind": "linear",
        "inputs": ["states"],
        "weight": "source_embedding.weight",
        "bias": None,
        "first": 0,
    }
    assert graph["encoder.0.self.k"].as_json() == {
        "kind": "linear",
        "inputs": ["encoder.0.self_residual.norm"],
        "weight": "encoder.0.self.qkv.weight",
        "bias": "encoder.0.self.qkv.bias",
        "first": 30,
        "split": True,
        "turned": True,
    }
    assert graph["decoder.embedding"].as_json()["side"] == "target"
    assert graph["decoder.0.self.allowed"].as_json() == {"kind": "causal"}
