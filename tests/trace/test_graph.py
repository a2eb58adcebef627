"""The operations: a row for every row of the glossary, made from rows above it, with weights that are there."""

import re
from pathlib import Path
from typing import get_args

import pytest
from torch import nn

from pellucid.model.glossary import glossary
from pellucid.trace.checks.graph import Kind, Operation, operations
from tests.model.models import EVERY_OPTION, every_option, small_config, small_model

EVERY = [*EVERY_OPTION, {"activation": "silu", "output_bias": True}, {"tie": "none", "output_bias": True}]
every = pytest.mark.parametrize("options", EVERY, ids=[" ".join(map(str, o.values())) for o in EVERY])
TYPES = Path(__file__).parents[2] / "web" / "src" / "types.ts"
NORM = nn.LayerNorm | nn.RMSNorm
LEAVES = {"lookup", "sinusoid", "row", "present", "causal"}


@every
def test_every_row_of_the_glossary_has_its_operation_in_the_same_order(options):
    config = small_config(**options)
    assert list(operations(config)) == [row.name for row in glossary(config)]


@every
def test_every_operation_reads_tensors_above_it_or_nothing(options):
    above = set()
    for name, operation in operations(small_config(**options)).items():
        assert above.issuperset(operation.inputs), name
        assert (not operation.inputs) == (operation.kind in LEAVES), name
        above.add(name)


@every
def test_every_tensor_but_the_logits_is_read_by_a_later_one(options):
    found = operations(small_config(**options))
    read = {each for operation in found.values() for each in operation.inputs}
    assert set(found) - read == {"logits"}


@every
def test_every_weight_is_used_and_no_other(options):
    """Under the name it has among the parameters: a matrix that is shared is listed there once."""
    used = {
        name
        for operation in operations(small_config(**options)).values()
        for name in (operation.table, operation.weight, operation.bias)
        if name
    }
    assert used == {name for name, _ in small_model(**options).named_parameters()}


@every
def test_norms_have_the_epsilon_of_the_model(options):
    model = small_model(**options)
    norms = {name: op for name, op in operations(model.config).items() if op.kind == "norm"}
    for operation in norms.values():
        module = model.get_submodule(operation.weight.removesuffix(".weight"))
        assert isinstance(module, NORM)
        assert operation.eps == module.eps
    assert len(norms) == sum(isinstance(module, NORM) for module in model.modules())


def test_operations_know_the_numbers_of_the_config():
    found = operations(small_config(positions="rotary", norm="post"))
    assert found["decoder.embedding"].scale ** 2 == pytest.approx(30)
    assert found["decoder.1.cross.scores"].divisor ** 2 == pytest.approx(10)
    assert [found[f"decoder.1.self.{name}"].first for name in "qkv"] == [0, 30, 60]
    assert [found[f"decoder.1.self.{name}"].turned for name in "qkv"] == [True, True, False]
    assert not any(found[f"decoder.1.cross.{name}"].turned for name in "qkv")
    assert found["memory"] == Operation("same", ("encoder.0.ffn_residual.norm",))


@pytest.fixture(scope="module")
def described() -> dict[str, dict[str, bool]]:
    """Of each kind of `Op` in types.ts its fields, and whether each must be there."""
    text = TYPES.read_text(encoding="utf-8")
    union = text[text.index("export type Op =") : text.index("export interface TensorRow")]
    union = re.sub(r"/\*.*?\*/", "", union, flags=re.DOTALL)
    shapes = re.findall(r"\{(.*?)\}", union, flags=re.DOTALL)
    fields = [dict(re.findall(r"(\w+)(\??):", shape)) for shape in shapes]
    kinds = [re.findall(r'kind: "(\w+)"', shape)[0] for shape in shapes]
    return {kind: {f: not mark for f, mark in of.items()} for kind, of in zip(kinds, fields, strict=True)}


def test_the_page_knows_every_kind_and_no_other(described):
    assert set(described) == set(get_args(Kind))


@every_option
def test_as_json_has_the_fields_that_the_page_reads(options, described):
    for name, operation in operations(small_config(**options)).items():
        said, fields = operation.as_json(), described[operation.kind]
        assert set(said) <= set(fields), name
        assert {field for field, needed in fields.items() if needed} <= set(said), name
        assert said.get("inputs", []) == list(operation.inputs)
        assert all(said[field] is True for field in said if not fields[field])


def test_as_json_says_what_stands_in_the_description():
    found = operations(small_config(tie="all", positions="rotary"))
    assert found["logits"].as_json() == {
        "kind": "linear",
        "inputs": ["states"],
        "weight": "source_embedding.weight",
        "bias": None,
        "first": 0,
    }
    assert found["encoder.0.self.k"].as_json() == {
        "kind": "linear",
        "inputs": ["encoder.0.self_residual.norm"],
        "weight": "encoder.0.self.qkv.weight",
        "bias": "encoder.0.self.qkv.bias",
        "first": 30,
        "split": True,
        "turned": True,
    }
    assert found["decoder.embedding"].as_json()["side"] == "target"
    assert found["decoder.0.self.allowed"].as_json() == {"kind": "causal"}
