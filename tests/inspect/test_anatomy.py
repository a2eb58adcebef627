from itertools import chain

import pytest
import torch

from pellucid.interpret.studies.anatomy import (
    ArchitectureBox,
    EqualLayers,
    count_fixed,
    count_trained,
    list_arrays,
    read_architecture,
)
from pellucid.model import Transformer
from tests.model.models import every_option, small_config, small_model


@pytest.mark.article("A1")
@every_option
def test_parameters_are_counted_as_torch_counts_them(options):
    model = small_model(**options)
    arrays = list_arrays(model)
    assert count_trained(arrays) == sum(parameter.numel() for parameter in model.parameters())
    assert count_fixed(arrays) == sum(buffer.numel() for buffer in model.buffers())
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    assert [array.name for array in arrays if array.trained] == sorted(
        names, key=[array.name for array in arrays].index
    )
    for array in arrays:
        owner, _, leaf = array.name.rpartition(".")
        assert tuple(getattr(model.get_submodule(owner), leaf).shape) == array.shape


@every_option
def test_boxes_hold_every_parameter_once(options):
    model = small_model(**options)
    drawn = read_architecture(model)
    total = 0
    for part in (*drawn.encoder, *drawn.decoder):
        if isinstance(part, ArchitectureBox):
            total += part.parameters
        else:
            total += part.times * sum(box.parameters for box in chain(*part.parts))
    assert total == drawn.parameters == sum(parameter.numel() for parameter in model.parameters())


def test_shared_arrays_name_their_owner():
    shared_of = {
        tie: [(a.name, a.shared_with) for a in list_arrays(small_model(tie=tie)) if a.shared_with]
        for tie in ("all", "none")
    }
    first = "source_embedding.weight"
    assert shared_of == {"all": [("target_embedding.weight", first), ("output_embedding.weight", first)], "none": []}


@pytest.mark.article("D3", "X6", "X30")
def test_fixed_and_frozen_arrays_are_not_trained():
    model = small_model(positions="sinusoidal")
    tables = [array for array in list_arrays(model) if array.kind == "Sinusoidal"]
    assert [(array.name, array.trained) for array in tables] == [
        ("source_positions.table", False),
        ("target_positions.table", False),
    ]
    assert all(array.trained for array in list_arrays(small_model(positions="learned")) if array.kind == "Learned")
    model.get_parameter("encoder_norm.bias").requires_grad_(False)
    assert [array.name for array in list_arrays(model) if not array.trained][-1] == "encoder_norm.bias"


def layers(model: Transformer, stack: str) -> list[EqualLayers]:
    return [part for part in getattr(read_architecture(model), stack) if isinstance(part, EqualLayers)]


def test_layers_are_drawn_in_the_order_of_computation():
    def titles(norm: str) -> list[list[str]]:
        [decoder] = layers(small_model(norm=norm), "decoder")
        assert decoder.times == 2
        return [[box.title for box in part] for part in decoder.parts]

    names = ["masked self-attention", "cross-attention", "feed-forward"]
    assert titles("pre") == [["norm", name] for name in names]
    assert titles("post") == [[name, "add, norm"] for name in names]
    assert [
        box.title for box in read_architecture(small_model(norm="post")).encoder if isinstance(box, ArchitectureBox)
    ] == [
        "source embedding",
        "+ positions",
    ]


@pytest.mark.article("A1", "B10", "B36")
def test_sizes_are_read_from_the_live_model():
    [encoder] = layers(small_model(activation="swiglu"), "encoder")
    assert [part[1].detail for part in encoder.parts] == ["3 heads of 10", "30 → 34 → 30, swiglu"]


def test_a_different_layer_gets_its_own_box():
    torch.manual_seed(1)
    model = Transformer(small_config(decoder_layers=3))
    model.decoder[2].ffn.inner = torch.nn.Linear(30, 11)
    model.decoder[2].ffn.outer = torch.nn.Linear(11, 30)
    assert [group.times for group in layers(model, "decoder")] == [2, 1]


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        ("sinusoidal", ["sines and cosines, fixed"]),
        ("learned", ["53 × 30, trained"]),
        ("rotary", ["turn queries and keys, fixed"]),
        ("none", []),
    ],
)
def test_positions_have_their_box(positions: str, words: list[str]):
    boxes = [
        part
        for part in read_architecture(small_model(positions=positions)).encoder
        if isinstance(part, ArchitectureBox)
    ]
    assert [box.detail for box in boxes if box.kind == "positions"] == words
