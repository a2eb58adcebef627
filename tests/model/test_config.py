"""Numbers that define no model are refused, all of them in one message."""

import dataclasses
import re
from typing import get_args, get_type_hints

import pytest

from pellucid.model import PRESETS, ModelConfig, Transformer
from pellucid.model.config import Activation, Norm, Positions, Tie, drop_removed_settings
from tests.model.models import small_config


@pytest.mark.article("A4", "C18")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"heads": 4}, "d_model 30 cannot be split into 4 heads; choose a divisor"),
        ({"heads": 0}, "heads is 0, a model needs at least 1"),
        ({"d_ff": 0}, "d_ff is 0, a model needs at least 1"),
        ({"encoder_layers": 0}, "encoder_layers is 0, a model needs at least 1"),
        ({"decoder_layers": -1}, "decoder_layers is -1, a model needs at least 1"),
        ({"max_positions": 1}, "max_positions is 1, a model needs at least 2"),
        ({"source_vocabulary": 4, "tie": "none"}, "source_vocabulary is 4, a model needs at least 5"),
        ({"dropout": 1.0}, "dropout is 1.0, it must be at least 0 and below 1"),
        ({"attention_dropout": -0.1}, "attention_dropout is -0.1, it must be at least 0 and below 1"),
        ({"activation_dropout": float("nan")}, "activation_dropout is nan, it must be at least 0 and below 1"),
        ({"norm": "batch"}, f"norm is 'batch', choose one of {', '.join(get_args(Norm))}"),
        ({"positions": "alibi"}, f"positions is 'alibi', choose one of {', '.join(get_args(Positions))}"),
        ({"activation": "tanh"}, f"activation is 'tanh', choose one of {', '.join(get_args(Activation))}"),
        ({"tie": "encoder"}, f"tie is 'encoder', choose one of {', '.join(get_args(Tie))}"),
        ({"heads": 2, "positions": "rotary"}, "rotary positions turn pairs of numbers, a head of 15 is odd"),
        ({"d_model": 7, "heads": 1}, "sinusoidal positions are pairs of sine and cosine, d_model 7 is odd"),
        (
            {"source_vocabulary": 31},
            "tie = 'all' shares one matrix, but the vocabularies differ (31 and 29); use a joint tokenizer or tie = "
            "'decoder'",
        ),
    ],
)
def test_a_number_that_defines_no_model_is_refused(wrong, message):
    with pytest.raises(ValueError, match=rf"^this is not a model: {re.escape(message)}$"):
        small_config(**wrong)


def test_all_problems_are_reported_at_once():
    with pytest.raises(ValueError, match=r"d_ff is 0, .*; dropout is 2.0, .*; norm is 'none', "):
        small_config(d_ff=0, dropout=2.0, norm="none")


@pytest.mark.parametrize("positions", ["learned", "none"])
def test_an_odd_width_is_a_model_where_positions_come_in_no_pairs(positions):
    Transformer(small_config(d_model=7, heads=1, positions=positions))


def test_the_presets_are_models():
    assert {name: tuple(sizes.values()) for name, sizes in PRESETS.items()} == {
        "tiny": (128, 256, 4, 4, 4),
        "small": (256, 1024, 4, 3, 3),
        "base": (512, 2048, 8, 6, 6),
        "big": (1024, 4096, 16, 6, 6),
    }
    for sizes in PRESETS.values():
        ModelConfig(8000, 8000, **sizes)


def test_every_number_says_what_it_means():
    """The command line's help is made of these."""
    assert all(
        get_type_hints(ModelConfig, include_extras=True)[f.name].__metadata__ for f in dataclasses.fields(ModelConfig)
    )


def test_fewer_heads_are_refused_and_a_table_without_any_is_read():
    table = dataclasses.asdict(small_config())
    assert drop_removed_settings({**table, "fewer_heads": ""}, "config.json, model") == table
    message = (
        "config.json, model: fewer_heads is 'encoder.0.self:1', but models with fewer heads in some attentions were "
        "removed; pellucid 0.1 is the last version that has them: use it, or a model with all its heads"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        drop_removed_settings({**table, "fewer_heads": "encoder.0.self:1"}, "config.json, model")
