"""Every visible tensor has its row, and every row its tensor, in every model."""

import re

import pytest
import torch

from pellucid.interpret.trace import Record
from pellucid.model.glossary import LEGEND, TensorRow, glossary
from tests.model.models import EVERY_FORMULA, every_option, sentences, small_config, small_model

SIZES = {"B": 2, "S": 11, "T": 7, "D": 30, "H": 3, "E": 10, "F": 17, "2F": 34, "V": 29, "1": 1}


def record_model(**options) -> Record:
    record = Record()
    small_model(**options)(sentences([11, 5]), sentences([7, 3]), watch=record)
    return record


@every_option
def test_every_visible_tensor_has_one_row_with_its_dimensions(options):
    record = record_model(**options)
    rows = glossary(small_config(**options))
    assert [row.name for row in rows] == list(record)
    for row in rows:
        assert tuple(SIZES[letter] for letter in row.dims.split()) == record[row.name].shape, row.name


def test_the_legend_explains_each_letter_and_no_other():
    used = {
        letter for options in EVERY_FORMULA for row in glossary(small_config(**options)) for letter in row.dims.split()
    }
    assert used == set(LEGEND) == set(SIZES)


@every_option
def test_every_row_is_made_from_rows_above_it_or_from_the_input(options):
    above: set[str] = set()
    for row in glossary(small_config(**options)):
        from_the_input = row.name.endswith((".embedding", ".positions", ".allowed", ".position_bias"))
        assert bool(parents(row, above)) != from_the_input, row
        dotted = re.findall(r"(?:encoder|decoder)\.\w+(?:\.\w+)*", row.of)
        assert above.issuperset(dotted), row
        above.add(row.name)


def parents(row: TensorRow, names: set[str]) -> list[str]:
    """Return the rows named in a row's formula: in full, or by the last word for a row with the same prefix."""
    beside = row.name.rpartition(".")[0]
    words = re.findall(r"[a-z_0-9]+(?:\.[a-z_0-9]+)*", row.of)
    return [name for word in words for name in (word, f"{beside}.{word}") if name in names]


@pytest.mark.parametrize("norm", ["pre", "post", "rms"])
def test_each_tensor_is_what_its_row_says(norm):
    """Every operation is computed again from the weights and the recorded tensors that its row names."""
    model, record = small_model(norm=norm), record_model(norm=norm)
    recomputed = set()
    for row in glossary(model.config):
        beside, _, last = row.name.rpartition(".")
        x = [record[name] for name in parents(row, set(record))]
        if last == "products":
            expected = x[0] @ x[1].mT
        elif last == "scores":
            expected = x[0] / 10**0.5
        elif last == "pattern":
            expected = x[0].where(x[1], -torch.inf).softmax(-1)
        elif last == "head_output":
            expected = x[0] @ x[1]
        elif last == "output":
            heads_side_by_side = torch.cat(x[0].unbind(1), -1) if x[0].dim() == 4 else x[0]
            expected = model.get_submodule(f"{beside}.{'output' if x[0].dim() == 4 else 'outer'}")(heads_side_by_side)
        elif last == "inner":
            expected = model.get_submodule(row.name)(x[0])
        elif last == "active":
            expected = x[0].clamp(min=0)
        elif last in ("input", "sum"):
            expected = x[0] + x[1]
        elif last == "norm":
            expected = model.get_submodule(row.name)(x[0])
        elif last in ("memory", "states"):
            expected = (model.encoder_norm if last == "memory" else model.decoder_norm)(x[0])
        elif last == "logits":
            expected = x[0] @ model.output_embedding.weight.T
        else:
            continue
        torch.testing.assert_close(record[row.name], expected, rtol=0, atol=1e-12)
        recomputed.add(last)
    assert len(recomputed) == 13


@every_option
def test_weights_share_the_names_of_what_they_make(options):
    names = {row.name for row in glossary(small_config(**options))}
    prefixes = {name.rpartition(".")[0] for name in names}
    at_the_ends = {f"{side}_{kind}" for side in ("source", "target", "output") for kind in ("embedding", "positions")}
    at_the_ends |= {"encoder_norm", "decoder_norm"}
    for name, _ in small_model(**options).named_parameters():
        assert any(name.startswith(f"{prefix}.") for prefix in prefixes - {"encoder", "decoder", ""} | at_the_ends), (
            name
        )


def test_every_row_is_a_plain_sentence():
    for options in EVERY_FORMULA:
        for row in glossary(small_config(**options)):
            assert row.means, row.name
            assert not re.search(r"[.{}]", row.means), row.name
            assert row.of, row.name
